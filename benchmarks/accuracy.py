"""Worst errors of values and gradients on hard rows: ``python -m benchmarks.accuracy``.

Softmax and α-entmax are compared with an oracle in extended precision that gets the same, rounded
scores. Gradients are compared with the Jacobian of the paper at the distribution that was returned:
at a tie the derivative jumps, and there the distribution says which side was taken. Entries that
exceed the largest number of the type are expected to be that number. Tests have the other mappings.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from benchmarks import high_precision as exact
from benchmarks.high_precision import Row
from repro import mappings
from repro.mappings.kernels import dispatch

_LONG_ROW = 10_000
"""Length above which fewer rows are measured, as the oracle is slow."""


@dataclass(frozen=True)
class Case:
    """Mapping with settings, and its oracle.

    Attributes:
        name: name of the line in the table.
        function: the mapping.
        value: oracle of the mapping, for one row.
        product: oracle of the Jacobian at a distribution, times a vector.
        distance: from the length of a row, how far below a single maximum entries become zero.
        alpha: α, if its derivative is measured too.
    """

    name: str
    function: Callable[..., Tensor]
    value: Callable[[Row], Row]
    product: Callable[[Row, Row], Row]
    distance: Callable[[int], float] = lambda n: 1.0
    alpha: float | None = None


class Errors(NamedTuple):
    """Largest errors of a value, of an entry of ``J v``, and of the derivative in α.

    The last two are divided by the largest entry of the row if that exceeds one.
    """

    value: float = 0.0
    gradient: float = 0.0
    alpha: float = 0.0


def _entmax(a: float) -> Case:
    function, value = partial(mappings.entmax, alpha=a), partial(exact.entmax, alpha=a)
    product = partial(exact.entmax_product, alpha=a)
    return Case(f"entmax, α = {a:g}", function, value, product, lambda n: 1 / (a - 1), a)


CASES = (
    Case("softmax", mappings.softmax, exact.softmax, partial(exact.entmax_product, alpha=1.0)),
    *map(_entmax, (1.01, 1.25, 1.5, 1.75, 1.9, 2.0, 2.5, 3.0, 5.0, 15.0, 50.0)),
)


def hard_rows(n: int, distance: float) -> Tensor:
    """Draw rows of ``n`` scores in float64 that are numerically hard.

    Constant rows; ties; a maximum and a tied tail, which exceeds the point where it becomes zero by
    less than ``1e-1`` to ``1e-7`` of ``distance``; a ladder of near ties; scores of several
    scales; some of these with a common shift.

    Args:
        n: length of a row.
        distance: how far below a single maximum entries become zero.
    """
    generator = torch.Generator().manual_seed(n)

    def drawn(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    few = n > _LONG_ROW
    left = 10 ** (-1 - 6 * drawn(8 if few else 40, 1))
    tails = -distance * (1 - left * drawn(len(left), 1)).expand(-1, n).clone()
    tails[:, 0] = 0
    near = tails[: len(left) // 2] - 1e-7 * distance * drawn(len(left) // 2, n)
    near[:, 0] = 0
    pairs = tails[::4].clone()
    pairs[:, : min(2, n)] = 0
    scales = torch.tensor([0.1, 1.0] if few else [1e-6, 1e-3, 0.1, 1.0, 10.0], dtype=torch.float64)
    scales = distance * scales[:, None]
    normal = scales * torch.randn(len(scales), n, generator=generator, dtype=torch.float64)
    ties = scales * torch.floor(3 * drawn(len(scales), n))
    ladder = -distance * (1 - 0.9 ** torch.arange(n, dtype=torch.float64))
    shifted = torch.cat([normal[-2:], ties[-2:], tails[:2]]) + 1e4
    flat = torch.zeros(2, n, dtype=torch.float64) + torch.tensor([[0.0], [1e4]])
    return torch.cat([flat, tails, near, pairs, normal, ties, ladder[None], shifted])


def measure(case: Case, dtype: torch.dtype, sizes: Sequence[int]) -> Errors:
    """Return the worst errors of a case over the hard rows of some lengths."""
    worst, limit = Errors(), np.longdouble(torch.finfo(dtype).max)
    for n in sizes:
        scores = hard_rows(n, case.distance(n)).to(dtype).requires_grad_()
        generator = torch.Generator().manual_seed(n)
        vector = torch.randn(scores.shape, generator=generator, dtype=torch.float64).to(dtype)
        probs = case.function(scores)
        (moved,) = torch.autograd.grad(probs, scores, vector)
        rows = map(extended, (scores, probs, vector, moved))
        for row, found, v, slope in zip(*rows, strict=True):
            product = np.clip(case.product(found, v), -limit, limit)
            errors = _distance(found, case.value(row), 0), _distance(slope, product, 1)
            value, gradient = map(max, worst, errors)
            worst = worst._replace(value=value, gradient=gradient)
        if case.alpha is not None:
            alpha = torch.full((len(scores), 1), case.alpha, dtype=dtype, requires_grad=True)
            by_row = case.function(scores.detach(), alpha=alpha)
            (drifts,) = torch.autograd.grad(by_row, alpha, vector)
            for found, v, slope in zip(*map(extended, (by_row, vector, drifts)), strict=True):
                drift = np.atleast_1d(exact.entmax_drift(found, v, case.alpha))
                error = _distance(slope, drift, 1)
                worst = worst._replace(alpha=max(worst.alpha, error))
    return worst


def extended(tensor: Tensor) -> Row:
    """Convert a tensor to extended precision."""
    return tensor.detach().numpy().astype(np.longdouble)


def _distance(found: Row, expected: Row, relative: int) -> float:
    """Return the largest difference, or inf for NaN.

    If ``relative``, it is divided by the largest expected entry where that exceeds one.
    """
    scale = max(1, np.abs(expected).max()) if relative else 1
    error = float(np.abs(found / scale - expected / scale).max())
    return error if error == error else float("inf")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="lines by name")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 50, 512], metavar="N")
    parser.add_argument("--path", choices=("kernels", "torch"), default="kernels")
    options = parser.parse_args(arguments)
    cases = [one for one in CASES if any(fnmatch(one.name, p) for p in options.only)]
    if not cases:
        names = "; ".join(case.name for case in CASES)
        parser.error(f"--only {' '.join(options.only)} matches no line; lines: {names}")
    if np.finfo(np.longdouble).nmant < 63:
        parser.error("the oracle needs numpy.longdouble with at least 64 bits of mantissa (x86)")
    without = patch.object(dispatch, "has_kernel", lambda tensor: False)
    single, double = (f"{name} value | gradient | α gradient" for name in ("float32", "float64"))
    print(f"| mapping | {single} | {double} |")
    print("|:---|---:|---:|---:|---:|---:|---:|")
    with without if options.path == "torch" else nullcontext():
        for case in cases:
            cells = [case.name]
            for dtype in (torch.float32, torch.float64):
                worst = measure(case, dtype, options.sizes)
                cells += [f"{worst.value:.1e}", f"{worst.gradient:.1e}"]
                cells.append(f"{worst.alpha:.1e}" if case.alpha else "")
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
