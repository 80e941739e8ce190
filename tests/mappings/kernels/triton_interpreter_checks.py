"""The launchers for CUDA on CPU tensors, under Triton's interpreter, against float64 in PyTorch.

Run by ``test_triton_interpreter.py`` in a process of its own, as the interpreter is chosen before
triton is imported, and as the kernels for the processor are switched off in it.
"""

import os

import pytest
import torch
from hard_rows import newton_ladder, tied_tail
from tolerances import ABSOLUTE, ADVERSARIAL, GRADIENT, LOSS, assert_close
from triton.runtime.interpreter import InterpretedFunction

from repro.losses import EntmaxLoss
from repro.mappings import (
    budget,
    csoftmax,
    csparsemax,
    entmax,
    fusedmax,
    normmax,
    oscarmax,
    sq_pnorm_max,
)
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.cuda import bounded, grouped, norm, policy
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


@pytest.fixture(params=["held", "chunks"])
def count(request, monkeypatch):
    """How many rows: several in a program that holds them, or a few that are read in chunks."""
    if request.param == "held":
        return 9
    monkeypatch.setattr(policy, "HELD_BYTES", 64)
    monkeypatch.setattr(policy, "CHUNK_BYTES", 128)
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
    bad = bounded.budget_forward_rows(scores[:3], torch.tensor([0.0, 21.0, torch.nan]))[0]
    assert bad.isnan().all()


@pytest.mark.parametrize(("alpha", "dtype"), [(1.5, SINGLE), (2.0, SINGLE), (4.0, DOUBLE)])
def test_normmax(count, alpha, dtype):
    scores, grads = special(40, dtype)[:count], drawn(40, dtype, count)
    alphas = torch.full((count, 1), alpha, dtype=dtype)
    expected, moved, drift = gradient_of(normmax, scores, grads, alphas)
    assert_close(norm.normmax_forward(scores, alpha), expected, ADVERSARIAL)
    assert_close(norm.normmax_forward_rows(scores, alphas), expected, ADVERSARIAL)
    kept = expected.to(dtype)
    assert_close(norm.normmax_backward(kept, grads, alpha), moved.nan_to_num(), GRADIENT)
    found, found_drift = norm.normmax_backward_rows(kept, grads, alphas)
    assert_close(found, moved.nan_to_num(), GRADIENT)
    finite = ~scores.isnan().any(-1)
    assert_close(found_drift[finite], drift[finite, 0], GRADIENT)


def test_normmax_above_two_keeps_small_entries():
    scores = drawn(30)
    assert_close(norm.normmax_forward(scores, 5.0), normmax(scores.double(), 5.0), ABSOLUTE)


@pytest.mark.parametrize(("p", "dtype"), [(1.1, SINGLE), (1.5, SINGLE), (1.9, DOUBLE)])
def test_sq_pnorm_max(count, p, dtype):
    scores, grads = special(40, dtype)[:count], drawn(40, dtype, count)
    expected, moved = gradient_of(lambda z: sq_pnorm_max(z, p), scores, grads)
    assert_close(norm.sq_pnorm_max_forward(scores, p), expected, ADVERSARIAL)
    found = norm.sq_pnorm_max_backward(expected.to(dtype), grads, p)
    finite = ~scores.isnan().any(-1)
    assert_close(found[finite], moved[finite], GRADIENT)


@pytest.fixture(params=["pairs", "lanes"])
def means(request, monkeypatch):
    """Both ways to take means over groups."""
    if request.param == "lanes":
        monkeypatch.setattr(policy, "PAIRWISE_ENTRIES", 0)


@pytest.mark.parametrize("lam", [0.01, 0.3, 10.0])
@pytest.mark.parametrize(
    ("mapping", "forward"),
    [(fusedmax, grouped.fusedmax_forward), (oscarmax, grouped.oscarmax_forward)],
    ids=["fusedmax", "oscarmax"],
)
def test_fusedmax_and_oscarmax(mapping, forward, lam):
    scores = special(12)
    probs, _ = forward(scores, lam)
    assert_close(probs, mapping(scores.double(), lam), ABSOLUTE)


@pytest.mark.usefixtures("means")
@pytest.mark.parametrize(
    ("mapping", "forward"),
    [(fusedmax, grouped.fusedmax_forward), (oscarmax, grouped.oscarmax_forward)],
    ids=["fusedmax", "oscarmax"],
)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_group_means(monkeypatch, mapping, forward, dtype):
    """More rows than the lanes of all programs, so that programs take several groups of rows."""
    monkeypatch.setattr(policy, "LANE_PROGRAMS", 1)
    scores, grads = drawn(10, dtype, 40), drawn(10, dtype, 40)
    expected, moved = gradient_of(lambda z: mapping(z, 0.05), scores, grads)
    probs, groups = forward(scores, 0.05)
    assert_close(probs, expected, ABSOLUTE)
    assert_close(grouped.grouped_backward(probs, groups, grads), moved, GRADIENT)


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
    for found in (
        norm.normmax_backward(probs, grads, 2.0),
        norm.sq_pnorm_max_backward(probs, grads, 1.5),
    ):
        assert found.isfinite().all()
        assert not found[probs == 0].any()


def test_shapes_and_empty_batches():
    scores = drawn(12).view(2, 2, 12).transpose(0, 1)
    assert_close(kernels.entmax_forward(scores, 1.0), entmax(scores.double(), 2.0), ABSOLUTE)
    assert kernels.entmax_forward(scores[:0], 0.5).shape == (0, 2, 12)
    assert grouped.fusedmax_forward(scores[:0], 0.1)[1].shape == (0, 2, 12)
    assert bounded.budget_forward(scores[:0], 1.0)[0].shape == (0, 2, 12)
