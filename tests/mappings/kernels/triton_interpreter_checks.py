"""The launchers for CUDA on CPU tensors, under Triton's interpreter, against float64 in PyTorch.

Run by ``test_triton_interpreter.py`` in a process of its own, as the interpreter is chosen before
triton is imported, and as the kernels for the processor are switched off in it.
"""

import itertools
import os

import mpmath
import numpy
import pytest
import torch
from hard_rows import hard_rows, newton_ladder, tied_tail
from tolerances import ABSOLUTE, ADVERSARIAL, GRADIENT, LOSS, assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime.interpreter import InterpretedFunction, ScanOps

from benchmarks import high_precision
from repro.losses import EntmaxLoss
from repro.mappings import (
    budget,
    csoftmax,
    csparsemax,
    entmax,
    fusedmax,
    oscarmax,
    sq_pnorm_max,
)
from repro.mappings._grouped import FusedFunction, OscarFunction
from repro.mappings.kernels import dispatch, selfcheck
from repro.mappings.kernels.cuda import bounded, entmax_solver, grouped, launch, norm, policy
from repro.mappings.kernels.cuda import entmax as kernels

assert os.environ["TRITON_INTERPRET"] == "1"
dispatch._INSTALLED["cpu"] = False
SINGLE, DOUBLE = torch.float32, torch.float64
_patching_call = InterpretedFunction.__call__


def _call(self, *arguments, **named):
    """Call a function of a kernel; triton patches its language anew in each call, at ten times the
    cost, although the kernel itself has done so."""
    if self.fn.__module__.startswith("triton."):
        return _patching_call(self, *arguments, **named)
    return self.rewrite()(*arguments, **named)


InterpretedFunction.__call__ = _call


def _scan(self, inputs):
    """Scan in a logarithmic number of steps on whole tiles; triton's takes one entry at a time.

    Partial results are combined in another order, as on a device.
    """
    tiles = [tensor.handle.data.copy() for tensor in inputs]
    length, step = tiles[0].shape[self.axis], 1
    while step < length:
        shifted = [numpy.roll(tile, step, self.axis) for tile in tiles]
        pairs = [*zip(shifted, inputs, strict=True), *zip(tiles, inputs, strict=True)]
        combined = self.combine_fn(*(self.to_tensor(tile, like.dtype) for tile, like in pairs))
        combined = combined if isinstance(combined, tuple) else (combined,)
        late = numpy.arange(length).reshape([-1 if k == self.axis else 1 for k in range(2)]) >= step
        tiles = [
            numpy.where(late, new.handle.data, old)
            for new, old in zip(combined, tiles, strict=True)
        ]
        step *= 2
    return [self.to_tensor(tile, like.dtype) for tile, like in zip(tiles, inputs, strict=True)]


ScanOps.generic_scan = _scan


@pytest.fixture
def short_chunks(monkeypatch):
    """Rows longer than 16 entries are read in chunks of 16."""
    whole = policy.tile

    def tile(length, itemsize, work=policy.RATIONAL, *, single=False):
        return whole(length, itemsize, policy.Work(16 * itemsize, 16 * itemsize), single=single)

    monkeypatch.setattr(policy, "tile", tile)


@pytest.fixture(params=["held", "chunks"])
def count(request):
    """Number of rows: several in a program that holds them, or a few that are read in chunks."""
    if request.param == "held":
        return 9
    request.getfixturevalue("short_chunks")
    return 3


def drawn(size, dtype=SINGLE, count=4):
    generator = torch.Generator().manual_seed(size)
    return (2 * torch.randn(count, size, generator=generator, dtype=DOUBLE)).to(dtype)


def special(size, dtype=SINGLE):
    """Rows with forbidden, infinite and bad scores, ties and a large shift."""
    rows = drawn(size, dtype, 9)
    rows[0, 0] = -torch.inf
    rows[1, 0] = torch.nan
    rows[2] = newton_ladder(size, 0.6)
    rows[3, :2] = torch.inf
    rows[4] += 1e4
    rows[5] = rows[5].round()
    rows[6] = 0
    rows[7] = -torch.inf
    rows[8] = tied_tail(size, 0.5)
    return rows


def gradient_of(mapping, scores, grads, *more):
    """Result and gradients in double precision."""
    leaves = [tensor.detach().double().requires_grad_() for tensor in (scores, *more)]
    probs = mapping(*leaves)
    return probs.detach(), *torch.autograd.grad(probs, leaves, grads.double())


@pytest.mark.parametrize(
    ("order", "dtype"), [(0.02, SINGLE), (0.5, SINGLE), (1.0, SINGLE), (0.3, DOUBLE), (0.5, DOUBLE)]
)
def test_entmax(count, order, dtype):
    scores, grads = special(63, dtype)[:count], drawn(63, dtype, count)
    expected, moved = gradient_of(lambda z: entmax(z, 1 + order), scores, grads)
    assert_close(kernels.entmax_forward(scores, order), expected, ADVERSARIAL)
    found = kernels.entmax_backward(expected.to(dtype), grads, order)
    assert_close(found, moved, GRADIENT)


@pytest.mark.parametrize("size", [1, 100, 1000])
@pytest.mark.parametrize("order", [0.5, 1.0, 0.25])
def test_entmax_of_sizes(size, order):
    scores = drawn(size)
    assert_close(
        kernels.entmax_forward(scores, order), entmax(scores.double(), 1 + order), ABSOLUTE
    )


def exact_entmax(row, order):
    """α-entmax by bisection of ``c`` with 50 digits."""
    with mpmath.workdps(50):
        order = mpmath.mpf(order)
        w = [order * (mpmath.mpf(z) - max(row)) for z in row]
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        for _ in range(160):
            c = (low + high) / 2
            total = sum((x + c) ** (1 / order) for x in w if x + c > 0)
            low, high = (c, high) if total < 1 else (low, c)
        return [float((x + high) ** (1 / order)) if x + high > 0 else 0.0 for x in w]


@pytest.mark.parametrize(
    ("alpha", "dtype", "bound"),
    [(2.1, SINGLE, 2.5e-7), (3.5, SINGLE, 2.5e-7), (2.1, DOUBLE, 1e-13), (2.5, DOUBLE, 1e-13)],
)
def test_entmax_above_two_against_fifty_digits(alpha, dtype, bound):
    rows = hard_rows(20)[1::6] / (alpha - 1)
    scores = torch.cat([rows, drawn(20, DOUBLE)]).to(dtype)
    expected = [exact_entmax(row, alpha - 1) for row in scores.tolist()]
    found = kernels.entmax_forward(scores, alpha - 1)
    exact = torch.tensor(expected, dtype=DOUBLE)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=bound)


@pytest.mark.parametrize(("alpha", "dtype"), [(3.0, SINGLE), (2.5, DOUBLE)])
def test_steps_above_two(monkeypatch, alpha, dtype):
    """Rows end early: a handful of steps where bisection takes 60."""
    steps = []
    evaluate = entmax_solver._gap_and_cut

    def counted(*arguments):
        steps.append(1)
        return evaluate(*arguments)

    monkeypatch.setattr(entmax_solver, "_gap_and_cut", counted)
    kernels.entmax_forward(drawn(200, dtype, 1), alpha - 1)
    assert 2 < len(steps) <= 12


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_entmax_with_an_order_for_each_row(dtype):
    """Above ``r = 1`` single precision must not be what limits the smallest entries."""
    scores, grads = drawn(40, dtype), drawn(41, dtype)[:, 1:]
    orders = torch.tensor([[0.1], [0.75], [1.0], [2.0]], dtype=dtype)
    expected, moved, drift = gradient_of(lambda z, r: entmax(z, 1 + r), scores, grads, orders)
    assert_close(kernels.entmax_forward_rows(scores, orders), expected, ABSOLUTE)
    found, found_drift = kernels.entmax_backward_rows(expected.to(dtype), grads, orders)
    steep = orders[:, 0] > 1
    assert_close(found[~steep], moved[~steep], GRADIENT)
    # Derivatives above r = 1 are as large as the smallest entry is small.
    torch.testing.assert_close(found.double(), moved, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found_drift.double(), drift[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("alpha", [3.0, 15.0, 50.0])
def test_gradients_of_large_alpha(count, alpha, dtype):
    """Slopes overflow, or one of them dominates; what exceeds the largest number is that number."""
    scores = torch.cat([torch.zeros(1, 40), tied_tail(40, 1 - 1e-4)[None], drawn(40)]) / alpha
    probs = entmax(scores.double(), alpha).to(dtype)[:count]
    grads, orders = drawn(40, dtype, len(probs)), torch.full((len(probs), 1), alpha - 1)
    moved = kernels.entmax_backward(probs, grads, alpha - 1)
    by_row, drifts = kernels.entmax_backward_rows(probs, grads, orders.to(dtype))
    rounding = 8 * alpha * torch.finfo(dtype).eps
    limit = torch.finfo(dtype).max
    for i, (share, vector) in enumerate(
        zip(*(t.numpy().astype(numpy.longdouble) for t in (probs, grads)), strict=True)
    ):
        product = numpy.clip(high_precision.entmax_product(share, vector, alpha), -limit, limit)
        scale = max(1, abs(product).max())
        for found in (moved[i], by_row[i]):
            assert abs(found.numpy() / scale - product / scale).max() <= rounding
        drift = high_precision.entmax_drift(share, vector, alpha)
        assert abs(drifts[i].item() - drift) <= rounding * max(1, abs(drift))
    assert torch.isinf(moved).sum() == 0


def test_undefined_gradients_of_large_alpha_stay_undefined():
    probs, grads = entmax(drawn(20).double(), 4.0).float(), drawn(20)
    grads[0, probs[0].argmax()] = torch.nan
    moved = kernels.entmax_backward(probs, grads, 3.0)
    assert moved[0][probs[0] > 0].isnan().all()
    assert moved[1:].isfinite().all()


def test_bad_orders_make_bad_rows():
    scores = drawn(20)
    orders = torch.tensor([[torch.nan], [0.0], [-1.0], [0.5]])
    found = kernels.entmax_forward_rows(scores, orders)
    assert found[[0, 2]].isnan().all()
    assert_close(found[1], scores[1].double().softmax(-1), ABSOLUTE)
    assert_close(found[3], entmax(scores[3].double(), 1.5), ABSOLUTE)
    everywhere = kernels.entmax_forward_rows(scores, torch.tensor(0.5))
    assert_close(everywhere, entmax(scores.double(), 1.5), ABSOLUTE)


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0])
def test_losses(count, order):
    scores = drawn(70, count=9)[:count]
    scores[0, 3], scores[1] = -torch.inf, scores[1] * 100
    target = torch.tensor([3, 69, -100, 0, 17, 5, 6, 7, 8])[:count]
    expected = EntmaxLoss(1 + order, reduction="none", ignore_index=-100)(scores.double(), target)
    losses, probs = kernels.entmax_loss(scores, target, order, -100)
    assert_close(losses, expected, LOSS)
    assert_close(probs, entmax(scores.double(), 1 + order), ABSOLUTE)
    weights = torch.arange(1.0, 1 + count)
    moved = kernels.entmax_loss_backward(probs, target, weights, -100)
    hot = torch.nn.functional.one_hot(target.clamp(min=0), 70)
    wanted = weights[:, None] * (probs - hot) * (target != -100)[:, None]
    assert_close(moved, wanted, GRADIENT)


def test_loss_of_a_target_that_is_no_class():
    losses, _ = kernels.entmax_loss(drawn(9), torch.tensor([9, -1, 0, -100]), 1.0, -100)
    assert losses.isnan().tolist() == [True, True, False, False]


def bounds(size, dtype):
    """Bounds of nine rows: loose, tight, infinite, exhausted, tied."""
    generator = torch.Generator().manual_seed(size)
    upper = torch.rand(9, size, generator=generator, dtype=DOUBLE) * 6 / size
    upper += 0.5 / upper.sum(-1, keepdim=True) / size + 0.2 / size
    upper[0, 0] = torch.nan
    upper[5, 0] = torch.inf
    upper[6, 0] = 0
    upper[7] = 1.5 / size
    upper[8, ::2] = 0
    return upper.to(dtype)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize(("mapping", "order"), [(csoftmax, 0.0), (csparsemax, 1.0)])
def test_bounded(count, mapping, order, dtype):
    scores, upper = special(40, dtype)[:count], bounds(40, dtype)[:count]
    grads, slack = drawn(40, dtype, count), 40 * torch.finfo(dtype).eps
    expected, moved, lifted = gradient_of(mapping, scores, grads, upper)
    probs, place, _ = bounded.bounded_forward(scores, upper, order, slack)
    assert_close(probs, expected, ABSOLUTE)
    found, found_upper, mean = bounded.bounded_backward(probs, place, grads, order, True, True)
    finite = ~scores.isnan().any(-1)
    assert_close(found[finite], moved[finite], GRADIENT)
    assert_close(found_upper[finite], lifted[finite].nan_to_num(), GRADIENT)
    assert mean.shape == (count,)


@pytest.mark.parametrize("order", [0.0, 1.0])
def test_bounds_that_cannot_be_met_and_bounds_that_leave_no_choice(order):
    scores, upper = drawn(10, count=4), torch.full((4, 10), 0.2)
    upper[0], upper[1, 3], upper[2] = 0.05, -1.0, 0.09999999
    upper[3, 0] = -1e-7
    probs, place, _ = bounded.bounded_forward(scores, upper, order, 1e-6)
    assert probs[:2].isnan().all()
    assert torch.equal(probs[2], upper[2])
    assert (place[2] == 2).all()
    assert probs[3, 0] == 0
    assert place[3, 0] == 0


def test_thresholds_far_below_the_largest_scores():
    """Used-up leaders must not take digits away from the entries that share the rest."""
    scores = drawn(40, count=2)
    scores[:, :3] += 3e4
    upper = torch.full((2, 40), 0.3)
    upper[:, :3] = 0.1
    for mapping, order in ((csoftmax, 0.0), (csparsemax, 1.0)):
        probs, _, _ = bounded.bounded_forward(scores, upper, order, 1e-5)
        assert_close(probs, mapping(scores.double(), upper.double()), ABSOLUTE)


def test_budget(count):
    scores, grads = special(40)[:count], drawn(40, count=count)
    for total in (1.0, 2.5, 30.0):
        expected, moved = gradient_of(lambda z, k=total: budget(z, k), scores, grads)
        probs, place, _ = bounded.budget_forward(scores, total)
        assert_close(probs, expected, ADVERSARIAL)
        found, _, _ = bounded.bounded_backward(probs, place, grads, 1.0, False, False)
        finite = ~scores.isnan().any(-1)
        assert_close(found[finite], moved[finite], GRADIENT)


def test_budgets_of_rows():
    scores, grads = drawn(20, count=5), drawn(20, count=5)
    totals = torch.tensor([0.5, 3.0, 20.0, 7.25, 1.0])
    expected, _, spent = gradient_of(budget, scores, grads, totals[:, None])
    probs, place, _ = bounded.budget_forward_rows(scores, totals)
    assert_close(probs, expected, ABSOLUTE)
    found = bounded.bounded_backward(probs, place, grads, 1.0, False, True)[2]
    assert_close(found, spent[:, 0], GRADIENT)
    bad = bounded.budget_forward_rows(scores[:3], torch.tensor([-1.0, 21.0, torch.nan]))[0]
    assert bad.isnan().all()


@pytest.mark.parametrize(("p", "dtype"), [(1.1, SINGLE), (1.5, SINGLE), (1.9, DOUBLE)])
def test_sq_pnorm_max(count, p, dtype):
    scores, grads = special(40, dtype)[:count], drawn(40, dtype, count)
    expected, moved = gradient_of(lambda z: sq_pnorm_max(z, p), scores, grads)
    assert_close(norm.sq_pnorm_max_forward(scores, p), expected, ADVERSARIAL)
    found = norm.sq_pnorm_max_backward(expected.to(dtype), grads, p)
    finite = ~scores.isnan().any(-1)
    assert_close(found[finite], moved[finite], GRADIENT)


FORWARDS = pytest.mark.parametrize(
    ("mapping", "forward"),
    [(fusedmax, grouped.fusedmax_forward), (oscarmax, grouped.oscarmax_forward)],
    ids=["fusedmax", "oscarmax"],
)


@FORWARDS
@pytest.mark.parametrize("lam", [0.0, 0.01, 0.3, 10.0])
def test_fusedmax_and_oscarmax(mapping, forward, lam):
    scores = special(12)
    scores[0, -3:] = -torch.inf
    probs, _ = forward(scores, lam)
    assert_close(probs, mapping(scores.double(), lam), ABSOLUTE)


CHECKED = {
    "order": [0.0, 0.3, 0.5, 1.0, 1.5], "alpha": [2.0, 1.5, 3.0], "p": [1.5], "lam": [0.1],
    "ignore_index": [-100], "slack": [1e-5], "total": [2.0], "to_upper": [True], "to_total": [True],
}  # fmt: skip
CHECKS = [
    (family, name, dict(zip(settings, values, strict=True)))
    for family, operators in dispatch.OPERATORS.items()
    for name in (schema[: schema.index("(")] for schema in operators)
    for settings in [[key for key in selfcheck.arguments_of(name) if key in CHECKED]]
    for values in itertools.product(*(CHECKED[key] for key in settings))
    if family != "bounded" or values[:1] not in [(0.3,), (0.5,), (1.5,)]
]


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize(("family", "name", "settings"), CHECKS, ids=str)
def test_kernels_pass_their_self_check(monkeypatch, tmp_path, family, name, settings, dtype):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    launcher = selfcheck.CheckedLauncher(family, name)
    for length in (1, 37):
        launcher(*selfcheck.check_arguments(name, settings, length, dtype))
    assert len(launcher.passed) == 2
    assert not launcher.rejected


def partition(groups):
    """Groups numbered by their first entries."""
    found = groups.tolist()
    return [found.index(group) for group in found]


@pytest.mark.parametrize(
    ("reference", "forward"),
    [
        (FusedFunction.forward, grouped.fusedmax_forward),
        (OscarFunction.forward, grouped.oscarmax_forward),
    ],
    ids=["fusedmax", "oscarmax"],
)
@pytest.mark.usefixtures("short_chunks")
def test_groups_of_long_rows(reference, forward):
    """Segments go on from chunk to chunk."""
    scores = torch.cat([0.1 * drawn(40, DOUBLE, 2), drawn(40, DOUBLE, 1).cumsum(-1) / 8])
    scores[0, 10:20], scores[1, 35:] = -torch.inf, -torch.inf
    probs, groups = forward(scores, 0.05)
    expected, expected_groups = reference(scores, 0.05)
    assert_close(probs, expected, ABSOLUTE)
    for found, wanted, support in zip(groups, expected_groups, probs > 0, strict=True):
        assert partition(found[support]) == partition(wanted[support])


@pytest.fixture(params=["pairs", "totals"])
def means(request, monkeypatch):
    """Both ways to take means over groups; totals by one program for all rows."""
    if request.param == "totals":
        monkeypatch.setattr(policy, "PAIRWISE_ENTRIES", 0)
        monkeypatch.setattr(policy, "STREAM_ENTRIES", 16)
        monkeypatch.setattr(policy, "WORKSPACE_BYTES", 2**8)


@pytest.mark.usefixtures("means")
@FORWARDS
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_group_means(mapping, forward, dtype):
    scores, grads = drawn(10, dtype), drawn(10, dtype)
    grads[1], grads[2] = 0, 1e30 * grads[2]
    expected, moved = gradient_of(lambda z: mapping(z, 0.05), scores, grads)
    probs, groups = forward(scores, 0.05)
    assert_close(probs, expected, ABSOLUTE)
    assert_close(grouped.grouped_backward(probs, groups, grads), moved, GRADIENT)


class AllocatedBytes(TorchDispatchMode):
    """Adds up what operators of torch allocate."""

    total = 0

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        """Run an operator and count its results, unless they are views."""
        results = operator(*arguments, **(named or {}))
        if not operator.is_view:
            tensors = results if isinstance(results, tuple) else (results,)
            self.total += sum(tensor.nbytes for tensor in tensors)
        return results


@pytest.mark.parametrize("forward", [grouped.fusedmax_forward, grouped.oscarmax_forward])
def test_workspace_of_long_rows_is_bounded(monkeypatch, forward):
    """However many rows there are: they are solved some at a time, each time within the bound."""
    monkeypatch.setattr(launch, "start", lambda *_: None)
    count, length = 100_000, 32_000
    scores = torch.empty(count, length, device="meta")
    solved = []

    def levels(rows, groups, lam, ranks):
        with AllocatedBytes() as allocated:
            result = whole(rows, groups, lam, ranks)
        solved.append((len(rows), allocated.total))
        return result

    whole = grouped._levels
    monkeypatch.setattr(grouped, "_levels", levels)
    forward(scores, 0.1)
    assert sum(rows for rows, _ in solved) == count
    assert max(size for _, size in solved) <= policy.WORKSPACE_BYTES


def test_workspace_of_the_backward_pass_is_bounded(monkeypatch):
    monkeypatch.setattr(launch, "start", lambda *_: None)
    probs = torch.empty(100_000, 32_000, device="meta")
    with AllocatedBytes() as allocated:
        grouped.grouped_backward(probs, probs.to(torch.int32), probs)
    results = probs.nbytes + probs.numel() * 4
    assert 0 < allocated.total - results <= policy.WORKSPACE_BYTES


def test_group_totals_propagate_bad_gradients():
    probs = torch.full((2, 300), 1 / 300)
    groups = torch.arange(300, dtype=torch.int32).repeat(2, 1) // 2
    grads = drawn(300, count=2)
    grads[0, 7] = torch.nan
    found = grouped.grouped_backward(probs, groups, grads)
    assert found[0].isnan().all()
    assert found[1].isfinite().all()


def test_gradients_that_do_not_count_do_not_leak():
    probs = torch.tensor([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    grads = torch.tensor([[1.0, 2.0, torch.nan, torch.inf], [3.0, torch.nan, 0.0, 0.0]])
    expected = torch.tensor([[-0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    groups = torch.tensor([[0, 1, 2, 2], [0, 1, 1, 1]], dtype=torch.int32)
    place = torch.tensor([[1, 1, 0, 0], [1, 2, 0, 0]], dtype=torch.uint8)
    assert torch.equal(kernels.entmax_backward(probs, grads, 1.0), expected)
    assert torch.equal(grouped.grouped_backward(probs, groups, grads), expected)
    for order, factor in ((0.0, 0.5), (1.0, 1.0)):
        found = bounded.bounded_backward(probs, place, grads, order, True, True)
        assert torch.equal(found[0], factor * expected)
        assert torch.equal(found[2], torch.tensor([1.5, 3.0]))
    for found in (norm.sq_pnorm_max_backward(probs, grads, 1.5),):
        assert found.isfinite().all()
        assert not found[probs == 0].any()


def test_shapes_and_empty_batches():
    scores = drawn(12).view(2, 2, 12).transpose(0, 1)
    assert_close(kernels.entmax_forward(scores, 1.0), entmax(scores.double(), 2.0), ABSOLUTE)
    assert kernels.entmax_forward(scores[:0], 0.5).shape == (0, 2, 12)
    assert grouped.fusedmax_forward(scores[:0], 0.1)[1].shape == (0, 2, 12)
    assert bounded.budget_forward(scores[:0], 1.0)[0].shape == (0, 2, 12)
