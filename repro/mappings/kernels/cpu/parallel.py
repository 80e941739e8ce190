"""Distribution of rows over Python threads: compiled code releases the global interpreter lock.

``torch.set_num_threads`` is the limit. Rows do not depend on each other, so results are the same to
the last bit however they are split.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

Kernel = Callable[..., int]
"""Function whose last arguments are a range of rows, start and stop; its results are summed."""
GRAIN = 2**16
"""Least number of entries of a cheap kernel for which waking a thread pays off."""
TILE = 16
"""Ranges of short rows begin at multiples of this, the most rows that are solved together."""
_SHORT = 2**12
"""Rows with at most this much work are batched: their ranges begin at multiples of ``TILE``."""
_KINDS = {torch.float32: np.float32(0), torch.float64: np.float64(0)}
"""Numbers whose types select the compiled version of a kernel."""


def run(kernel: Kernel, rows: Tensor, cost: float, *arguments: Any) -> int:
    """Call ``kernel(kind, *arguments, size, start, stop)`` for ranges of rows.

    Args:
        kernel: function that takes addresses of tensors.
        rows: a tensor of the shape and type of all rows.
        cost: cost of an entry, relative to one that is only read and written.
        arguments: contiguous tensors, numbers, or None for a missing tensor.

    Returns:
        The sum of the results of the calls.
    """
    size = rows.size(-1)
    count, work, kind = rows.numel() // size, int(cost * rows.numel()), _KINDS[rows.dtype]
    values = [a.data_ptr() if isinstance(a, Tensor) else 0 if a is None else a for a in arguments]
    if work < 2 * GRAIN or torch.get_num_threads() == 1:
        return kernel(kind, *values, size, 0, count)
    return split(kernel, count, work, kind, *values, size)


def split(kernel: Kernel, count: int, work: int, *arguments: Any) -> int:
    """Call ``kernel(*arguments, start, stop)`` for ranges that make up ``count`` rows."""
    threads = max(1, min(torch.get_num_threads(), work // GRAIN, count))
    unit = TILE if work <= count * _SHORT else 1
    units = -(-count // unit)
    bounds = [min(t * units // threads * unit, count) for t in range(threads + 1)]
    calls = [_pool().submit(kernel, *arguments, *part) for part in pairwise(bounds[1:])]
    try:
        here = kernel(*arguments, bounds[0], bounds[1])
    finally:
        wait(calls)  # also after an error: they write into tensors that it would free
    return here + sum(call.result() for call in calls)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count())


if hasattr(os, "register_at_fork"):  # a forked process lacks the threads of the pool
    os.register_at_fork(after_in_child=_pool.cache_clear)
