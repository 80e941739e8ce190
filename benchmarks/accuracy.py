"""Worst errors of values and gradients on hard rows: ``python -m benchmarks.accuracy``.

Every mapping is compared with an oracle in extended precision that gets the same, rounded scores.
Gradients are compared with the Jacobian of the paper at the distribution that was returned: at a
tie the derivative jumps, and there the distribution says which side was taken. Entries that exceed
the largest number of the type are expected to be that number.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from benchmarks import high_precision as exact
from benchmarks.high_precision import Row
from benchmarks.tables import table
from repro import mappings
from repro.atomic import atomic_write_text
from repro.mappings.kernels import dispatch

SIZES = (1, 2, 50, 512, 2000, 5000, 32000)
DTYPES = (torch.float32, torch.float64)
_LONG_ROW = 10_000
"""Length above which fewer rows are measured, as the oracle is slow."""


@dataclass(frozen=True)
class Case:
    """Mapping with settings, and its oracle.

    Attributes:
        name: name of the line in the table.
        function: the mapping as a differentiable function of the scores.
        value: oracle of the mapping, for one row.
        product: oracle of the Jacobian at a distribution, times a vector.
        distance: from the length of a row, how far below a single maximum entries become zero.
        drift: oracle of the derivative in ``alpha`` at a distribution, times a vector, or None.
        learned: returns the mapping of scores, and the tensor ``alpha`` per row that it used.
    """

    name: str
    function: Callable[[Tensor], Tensor]
    value: Callable[[Row], Row]
    product: Callable[[Row, Row], Row]
    distance: Callable[[int], float] = lambda n: 1.0
    drift: Callable[[Row, Row], Any] | None = None
    learned: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None


@dataclass
class Errors:
    """Worst errors of a case in one dtype.

    Attributes:
        value: largest absolute error of an entry.
        gradient: largest error of an entry of ``J v``, divided by the largest entry of its row
            if that exceeds one.
        alpha: largest error of the derivative in ``alpha``, scaled like ``gradient``.
    """

    value: float = 0.0
    gradient: float = 0.0
    alpha: float = 0.0


def _entmax(alpha: float) -> Case:
    return Case(
        f"entmax, α = {alpha:g}",
        lambda scores: mappings.entmax(scores, alpha),
        lambda row: exact.entmax(row, alpha),
        lambda probs, vector: exact.entmax_product(probs, vector, alpha),
        lambda n: 1 / (alpha - 1),
        lambda probs, vector: exact.entmax_drift(probs, vector, alpha),
        lambda scores: _with_alpha(mappings.entmax, scores, alpha),
    )


def _normmax(alpha: float) -> Case:
    return Case(
        f"normmax, α = {alpha:g}",
        lambda scores: mappings.normmax(scores, alpha),
        lambda row: exact.normmax(row, alpha),
        lambda probs, vector: exact.normmax_product(probs, vector, alpha),
        learned=lambda scores: _with_alpha(mappings.normmax, scores, alpha),
        drift=lambda probs, vector: exact.normmax_drift(probs, vector, alpha),
    )


def _with_alpha(
    function: Callable[..., Tensor], scores: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    exponent = torch.full((*scores.shape[:-1], 1), alpha, dtype=scores.dtype, requires_grad=True)
    return function(scores, exponent), exponent


def _sq_pnorm(p: float) -> Case:
    return Case(
        f"sq_pnorm_max, p = {p:g}",
        lambda scores: mappings.sq_pnorm_max(scores, p),
        lambda row: exact.sq_pnorm_max(row, p),
        lambda probs, vector: exact.sq_pnorm_product(probs, vector, p),
    )


def _bounds(n: int) -> Tensor:
    """Return upper bounds that every dtype represents exactly: some are active, some are zero."""
    upper = 1 / 16 + (torch.arange(n) % 5) / 4
    upper[1::7] = 0
    upper[0] = 1
    return upper


def _bounded(name: str, entropy: bool) -> Case:
    function = mappings.csoftmax if entropy else mappings.csparsemax

    def product(probs: Row, vector: Row) -> Row:
        free = (probs > 0) & (probs < _bounds(probs.size).numpy())
        return exact.free_product(free * (probs if entropy else 1), vector)

    return Case(
        name,
        lambda scores: function(scores, _bounds(scores.size(-1)).to(scores.dtype)),
        lambda row: exact.bounded(row, _extended(_bounds(row.size)), 1.0, entropy),
        product,
    )


def _budget(k: float) -> Case:
    # Entries are at most one, so a short row cannot reach a large budget.
    def total(n: int) -> float:
        return min(k, n / 2)

    return Case(
        f"budget, k = {k:g}",
        lambda scores: mappings.budget(scores, total(scores.size(-1))),
        lambda row: exact.bounded(row, np.ones_like(row), total(row.size), False),
        lambda probs, vector: exact.free_product(((probs > 0) & (probs < 1)) * 1.0, vector),
        lambda n: total(n),
    )


CASES = (
    Case(
        "softmax",
        mappings.softmax,
        exact.softmax,
        lambda probs, vector: exact.entmax_product(probs, vector, 1.0),
    ),
    *(_entmax(a) for a in (1.01, 1.25, 1.5, 1.75, 1.9, 2.0, 2.5, 3.0, 5.0, 15.0, 50.0)),
    *(_normmax(a) for a in (1.25, 2.0, 3.0, 50.0)),
    *(_sq_pnorm(p) for p in (1.1, 1.5, 1.8)),
    _bounded("csoftmax", True),
    _bounded("csparsemax", False),
    *(_budget(k) for k in (0.75, 1.0, 3.0)),
    *(
        Case(
            f"fusedmax, λ = {lam:g}",
            lambda scores, lam=lam: mappings.fusedmax(scores, lam),
            lambda row, lam=lam: exact.fusedmax(row, lam),
            lambda probs, vector: exact.grouped_product(probs, vector, True),
            lambda n, lam=lam: 1 + lam + lam / max(n - 1, 1),
        )
        for lam in (0.1, 2.0)
    ),
    *(
        Case(
            f"oscarmax, λ = {lam:g}",
            lambda scores, lam=lam: mappings.oscarmax(scores, lam),
            lambda row, lam=lam: exact.oscarmax(row, lam),
            lambda probs, vector: exact.grouped_product(probs, vector, False),
            lambda n, lam=lam: 1 + lam * n / 2,
        )
        for lam in (0.01, 0.2)
    ),
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
    normal = (
        distance
        * scales[:, None]
        * torch.randn(len(scales), n, generator=generator, dtype=torch.float64)
    )
    ties = distance * scales[:, None] * torch.floor(3 * drawn(len(scales), n))
    ladder = -distance * (1 - 0.9 ** torch.arange(n, dtype=torch.float64))
    shifted = torch.cat([normal[-2:], ties[-2:], tails[:2]]) + 1e4
    flat = torch.zeros(2, n, dtype=torch.float64) + torch.tensor([[0.0], [1e4]])
    return torch.cat([flat, tails, near, pairs, normal, ties, ladder[None], shifted])


def measure(case: Case, dtype: torch.dtype, sizes: Sequence[int]) -> Errors:
    """Return the worst errors of a case over the hard rows of some lengths."""
    worst = Errors()
    for n in sizes:
        scores = hard_rows(n, case.distance(n)).to(dtype).requires_grad_()
        generator = torch.Generator().manual_seed(n)
        vector = torch.randn(scores.shape, generator=generator, dtype=torch.float64).to(dtype)
        probs = case.function(scores)
        (moved,) = torch.autograd.grad(probs, scores, vector)
        drifts = None
        if case.learned is not None:
            by_row, alpha = case.learned(scores.detach())
            (drifts,) = torch.autograd.grad(by_row, alpha, vector)
        limit = np.longdouble(torch.finfo(dtype).max)
        for i in range(len(scores)):
            row, found, v = (_extended(t[i]) for t in (scores, probs, vector))
            expected = case.value(row)
            worst.value = max(worst.value, _distance(found, expected, 0))
            product = np.clip(case.product(found, v), -limit, limit)
            worst.gradient = max(worst.gradient, _distance(_extended(moved[i]), product, 1))
            if drifts is not None and case.drift is not None:
                drift = np.atleast_1d(case.drift(_extended(by_row[i]), v))
                worst.alpha = max(worst.alpha, _distance(_extended(drifts[i]), drift, 1))
    return worst


def _extended(tensor: Tensor) -> Row:
    return tensor.detach().numpy().astype(np.longdouble)


def _distance(found: Row, expected: Row, relative: int) -> float:
    """Return the largest difference, or inf for NaN.

    If ``relative``, it is divided by the largest expected entry where that exceeds one.
    """
    scale = max(1, np.abs(expected).max()) if relative else 1
    error = float(np.abs(found / scale - expected / scale).max())
    return error if error == error else float("inf")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it to ``--output`` if given.

    Args:
        arguments: arguments of the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="lines by name")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), metavar="N")
    parser.add_argument("--path", choices=("kernels", "torch"), default="kernels")
    parser.add_argument("--output", type=Path, help="file for the table, in Markdown")
    options = parser.parse_args(arguments)
    exact.check_precision()
    cases = [case for case in CASES if any(fnmatch(case.name, p) for p in options.only)]
    without = patch.object(dispatch, "has_kernel", lambda tensor: False)
    lines = []
    with without if options.path == "torch" else nullcontext():
        for case in cases:
            found = [measure(case, dtype, options.sizes) for dtype in DTYPES]
            lines.append([case.name, *(cell for errors in found for cell in _cells(case, errors))])
            print(" | ".join(lines[-1]), flush=True)
    header = ["mapping"]
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        header += [f"{name} value", "gradient", "α gradient"]
    page = table(header, lines)
    if options.output:
        atomic_write_text(options.output, page)
    return 0


def _cells(case: Case, errors: Errors) -> list[str]:
    alpha = f"{errors.alpha:.1e}" if case.learned else ""
    return [f"{errors.value:.1e}", f"{errors.gradient:.1e}", alpha]


if __name__ == "__main__":
    raise SystemExit(main())
