"""Rows shared among threads: those of the OpenMP library that torch itself uses.

After an operator of torch these threads spin for a while as they wait for the next one, and other
threads would compete with them for processors. So work is given to the waiting threads within
microseconds, through the library's own entry point; no Python runs there. If torch uses another
library, and in a forked process, which lacks those threads, a pool of Python threads does the work:
compiled code releases the global interpreter lock.

Rows do not depend on each other, so results are the same to the last bit however they are split.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import torch
from llvmlite import binding, ir
from numba import typeof, types
from torch import Tensor

Kernel = Callable[..., int]
"""Function whose last arguments are a range of rows, start and stop; its results are summed."""
GRAIN = 2**16
"""Least number of entries of a cheap kernel for which waking a Python thread pays off."""
_OPENMP_GRAIN = 2**14
"""Least number of entries of a cheap kernel for which an OpenMP thread, already awake, pays off."""
TILE = 16
"""Ranges of short rows begin at multiples of this, the most rows that are solved together."""
_SHORT = 2**12
"""Rows with at most this much work are batched: their ranges begin at multiples of ``TILE``."""
_RANGES = 4
"""Number of ranges per OpenMP thread, so that threads that finish early can take more."""
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
    if work < 2 * _OPENMP_GRAIN or torch.get_num_threads() == 1:
        return kernel(kind, *values, size, 0, count)
    return split(kernel, count, work, kind, *values, size)


def split(kernel: Kernel, count: int, work: int, *arguments: Any) -> int:
    """Call ``kernel(*arguments, start, stop)`` for ranges that make up ``count`` rows."""
    by_openmp = _openmp.parallel is not None and hasattr(kernel, "overloads")
    threads = min(work // (_OPENMP_GRAIN if by_openmp else GRAIN), count)
    if threads > 1:
        threads = min(torch.get_num_threads(), threads)
    if threads <= 1:
        return kernel(*arguments, 0, count)
    unit = TILE if work <= count * _SHORT else 1
    if by_openmp:
        return _run_by_openmp(kernel, torch.get_num_threads(), count, unit, arguments)
    units = -(-count // unit)
    bounds = [min(t * units // threads * unit, count) for t in range(threads + 1)]
    calls = [_python_threads().submit(kernel, *arguments, *part) for part in pairwise(bounds[1:])]
    try:
        here = kernel(*arguments, bounds[0], bounds[1])
    finally:
        wait(calls)  # also after an error: they write into tensors that it would free
    return here + sum(call.result() for call in calls)


@cache
def _python_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count())


class _OpenMP:
    """The entry point ``GOMP_parallel`` of torch's library, or None."""

    def __init__(self) -> None:
        self.parallel: Any = None
        try:
            library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
            self.parallel = library.GOMP_parallel
        except (OSError, AttributeError):
            return
        self.parallel.argtypes = (
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint,
        )  # fmt: skip
        self.parallel.restype = None

    def forget(self) -> None:
        """Drop the library and the Python threads, which do not exist in a forked process."""
        self.parallel = None
        _python_threads.cache_clear()


_openmp = _OpenMP()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_openmp.forget)

_WORD = ir.IntType(64)
_PASSED = {
    types.float32: (ir.FloatType(), "f4x"),
    types.float64: (ir.DoubleType(), "d"),
    types.int64: (_WORD, "q"),
    types.boolean: (_WORD, "q"),
}
"""How arguments are passed, and how they are laid out in a word."""
_NEXT, _TOTAL, _COUNT, _ROWS, _KERNEL, _ARGUMENTS = range(6)
"""Offsets in a task: next row, sum of results, rows, rows of a range, the kernel, its arguments."""


def _run_by_openmp(
    kernel: Any, threads: int, count: int, unit: int, arguments: tuple[Any, ...]
) -> int:
    """Call a compiled kernel for ranges of whole units of rows, and return the sum of results."""
    loop, layout, address = _loop(kernel, tuple(map(type, arguments)))
    rows = -(-count // (threads * _RANGES * unit)) * unit
    task = ctypes.create_string_buffer(layout.size)
    layout.pack_into(task, 0, 0, 0, count, rows, address, *arguments)
    _openmp.parallel(loop, task, threads, 0)
    return int(layout.unpack_from(task)[_TOTAL])


@cache
def _loop(kernel: Any, python_types: tuple[type, ...]) -> tuple[int, Struct, int]:
    """Compile a kernel for arguments of these types, and the loop that threads run.

    Returns:
        The address of the loop, the layout of its task, and the address of the kernel.
    """
    kinds = tuple(typeof(kind(0)) for kind in (*python_types, int, int))
    kernel.compile(kinds)
    compiled = kernel.overloads[kinds]
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
    layout = Struct("=5q" + "".join(_PASSED[kind][1] for kind in kinds[:-2]))
    return _compiled(kinds[:-2]), layout, address


_engines: list[Any] = []
"""Owners of the compiled loops, which are freed with them."""


@cache
def _compiled(kinds: tuple[types.Type, ...]) -> int:
    """Return the address of ``void loop(int64 *task)`` for kernels with these argument types."""
    module = binding.parse_assembly(str(_task_loop(kinds)))
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address("loop"))


def _task_loop(kinds: tuple[types.Type, ...]) -> ir.Module:
    """Generate ``loop`` as LLVM code, which works like ``schedule(dynamic)`` of OpenMP.

    Each thread takes the next range of rows by an atomic addition, calls the kernel for it, and
    adds the result to the total, until no range is left::

        while ((start = fetch_add(&next, rows)) < count)
            fetch_add(&total, kernel(*arguments, start, min(start + rows, count)));
    """
    module, passed = ir.Module(), [_PASSED[kind][0] for kind in kinds]
    loop = ir.Function(module, ir.FunctionType(ir.VoidType(), [_WORD.as_pointer()]), "loop")
    first, again, call, done = (loop.append_basic_block() for _ in range(4))
    build = ir.IRBuilder(first)

    def word(place: int, kind: ir.Type = _WORD) -> Any:
        pointer = build.gep(loop.args[0], [_WORD(place)])
        return build.bitcast(pointer, kind.as_pointer())

    called = ir.FunctionType(_WORD, [*passed, _WORD, _WORD])
    count, rows = build.load(word(_COUNT)), build.load(word(_ROWS))
    kernel = build.inttoptr(build.load(word(_KERNEL)), called.as_pointer())
    arguments = [build.load(word(_ARGUMENTS + k, each)) for k, each in enumerate(passed)]
    build.branch(again)
    build.position_at_end(again)
    start = build.atomic_rmw("add", word(_NEXT), rows, "seq_cst")
    build.cbranch(build.icmp_signed("<", start, count), call, done)
    build.position_at_end(call)
    end = build.add(start, rows)
    stop = build.select(build.icmp_signed("<", end, count), end, count)
    result = build.call(kernel, [*arguments, start, stop])
    build.atomic_rmw("add", word(_TOTAL), result, "seq_cst")
    build.branch(again)
    build.position_at_end(done)
    build.ret_void()
    return module
