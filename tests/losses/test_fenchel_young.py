"""Fenchel-Young losses: values, properties, gradients, and every awkward target."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import GRADIENT, LOSS, assert_close
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

from repro.losses import CrossEntropyLoss, EntmaxLoss, FenchelYoungLoss, SparsemaxLoss
from repro.mappings import (
    Budget,
    Csoftmax,
    Csparsemax,
    Entmax,
    Fusedmax,
    Oscarmax,
    Softmax,
    Sparsemax,
    SqPnormMax,
    regularized,
    sparsemax,
)

MAPS = {
    "softmax": Softmax(),
    "softmax-gamma": Softmax(2.0),
    "sparsemax": Sparsemax(),
    "sparsemax-gamma": Sparsemax(0.5),
    "entmax-1.02": Entmax(1.02),
    "entmax-1.3": Entmax(1.3),
    "entmax-1.5": Entmax(),
    "entmax-2.5": Entmax(2.5),
    "entmax-tensor": Entmax(torch.tensor(1.3, dtype=torch.float64)),
    "fusedmax": Fusedmax(0.2, gamma=0.7),
    "oscarmax": Oscarmax(0.1),
    "sq_pnorm_max": SqPnormMax(),
}
ALPHAS = (1.2, 1.5, 2.0)
VOCABULARY = 6


@pytest.fixture(params=MAPS.values(), ids=MAPS, scope="module")
def mapping(request):
    return request.param


def draw(rows=5, dtype=torch.float64):
    scores = torch.randn(rows, VOCABULARY, dtype=dtype) * 2
    return scores.requires_grad_(), torch.randint(VOCABULARY, (rows,))


def one_hot(target):
    return F.one_hot(target, VOCABULARY).double()


def test_value_is_the_definition(mapping):
    """``Ω(e_y) - Ω(p) + <z, p - e_y>``; Peters et al. (2019), Eq. 18."""
    scores, target = draw()
    probs = mapping(scores)
    gap = probs - one_hot(target)
    expected = mapping.omega(one_hot(target)) - mapping.omega(probs) + (scores * gap).sum(-1)
    losses = FenchelYoungLoss(mapping, reduction="none")(scores, target)
    assert_close(losses.detach(), expected.detach(), LOSS)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_softmax_gives_cross_entropy(dtype, scale):
    scores, target = draw(dtype=dtype)
    large = (scores.detach() * scale).requires_grad_()
    ours = CrossEntropyLoss()(large, target)
    theirs = F.cross_entropy(large, target)
    assert_close(ours, theirs, LOSS)
    pairs = [torch.autograd.grad(loss, large)[0] for loss in (ours, theirs)]
    assert_close(*pairs, GRADIENT)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
def test_a_common_shift_changes_nothing(mapping, offset):
    """Scores are multiples of 16, so that the shift itself is exact in float32."""
    scores = torch.randint(-8, 8, (6, VOCABULARY)).float() * 16
    target = torch.randint(VOCABULARY, (6,))
    single = FenchelYoungLoss(mapping, reduction="none")
    assert torch.equal(single(scores + offset, target), single(scores, target))


ROWS = st.lists(st.integers(-300, 300), min_size=VOCABULARY, max_size=VOCABULARY).map(
    lambda row: torch.tensor(row, dtype=torch.float64) / 64
)


@settings(max_examples=25)
@given(first=ROWS, second=ROWS, target=st.integers(0, VOCABULARY - 1), share=st.floats(0, 1))
def test_nonnegative_and_convex(mapping, first, second, target, share):
    loss, label = FenchelYoungLoss(mapping, reduction="none"), torch.tensor(target)
    here, there = loss(first, label), loss(second, label)
    between = loss(share * first + (1 - share) * second, label)
    assert here >= 0
    assert between <= share * here + (1 - share) * there + 1e-9


@pytest.mark.parametrize("alpha", ALPHAS)
def test_separation_margin(alpha):
    """Zero exactly from a lead of ``1 / (α - 1)`` on, positive before."""
    margin, loss = 1 / (alpha - 1), EntmaxLoss(alpha)
    rivals = torch.tensor([-0.3, 0.0, -2.0], dtype=torch.float64)
    for lead, is_zero in ((margin, True), (margin + 1, True), (margin - 0.01, False)):
        scores = torch.cat([torch.tensor([lead], dtype=torch.float64), rivals])
        assert (loss(scores, torch.tensor(0)) == 0) == is_zero


def test_zero_only_at_the_target(mapping):
    scores, target = draw(200)
    losses = FenchelYoungLoss(mapping, reduction="none")(scores * 3, target)
    right = (mapping(scores * 3) == one_hot(target)).all(-1)
    assert torch.equal(losses == 0, right)


@pytest.mark.parametrize("constant", [0.0, -0.5, 3.0])
def test_a_constant_of_the_regularizer_changes_nothing(constant):
    """Ω(e_y) is ½ plus the constant, zero for the second alone."""
    own = regularized(lambda p: p.square().sum(-1) / 2 + constant, tolerance=1e-9)
    scores, target = draw(20)
    losses = FenchelYoungLoss(own, reduction="none")(scores, target)
    expected = SparsemaxLoss(reduction="none")(scores, target)
    torch.testing.assert_close(losses, expected, rtol=0, atol=1e-8)
    (slope,) = torch.autograd.grad(losses.sum(), scores)
    torch.testing.assert_close(slope, sparsemax(scores) - one_hot(target), rtol=0, atol=1e-8)


def test_gradient_is_the_error(mapping):
    scores, target = draw()
    upstream = torch.tensor([0.0, 1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    FenchelYoungLoss(mapping, reduction="none")(scores, target).backward(upstream)
    assert_close(scores.grad, upstream[:, None] * (mapping(scores) - one_hot(target)), GRADIENT)


def test_gradients_by_differences(mapping):
    scores, target = draw(3)
    loss = FenchelYoungLoss(mapping)
    assert gradcheck(lambda s: loss(s, target), scores)
    assert gradgradcheck(lambda s: loss(s, target), scores)


@pytest.mark.parametrize("shape", [(), (3, 1)])
@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.9])
def test_gradients_for_alpha(alpha, shape):
    exponent = torch.full(shape, alpha, dtype=torch.float64, requires_grad=True)
    scores, target = draw(3)

    def loss(s, a):
        return FenchelYoungLoss(Entmax(a), reduction="none")(s, target)

    assert loss(scores, exponent).shape == (3,)
    assert gradcheck(loss, (scores, exponent))
    assert gradgradcheck(loss, (scores, exponent))


def test_forbidden_scores(mapping):
    """Other entries at ``-inf`` change nothing; the target at ``-inf`` costs infinitely much."""
    scores = torch.tensor([[0.4, -math.inf, 0.1, -math.inf]] * 2, dtype=torch.float64)
    scores.requires_grad_()
    losses = FenchelYoungLoss(mapping, reduction="none")(scores, torch.tensor([2, 1]))
    small = FenchelYoungLoss(mapping)(scores.detach()[:1, [0, 2]], torch.tensor([1]))
    assert_close(losses[0].detach(), small, LOSS)
    assert losses[1] == math.inf
    losses.sum().backward()
    assert scores.grad.isfinite().all()


def test_infinite_and_undefined_scores(mapping):
    scores = torch.tensor(
        [[math.inf, 0.0, 1.0], [math.nan, 0.0, 1.0], [2.0, 0.0, 1.0]], dtype=torch.float64
    )
    losses = FenchelYoungLoss(mapping, reduction="none")(scores, torch.tensor([0, 0, 0]))
    assert losses[0] == 0
    assert losses[1].isnan()
    assert losses[2].isfinite()


def test_row_with_nothing_allowed(mapping):
    scores = torch.full((1, 3), -math.inf, dtype=torch.float64, requires_grad=True)
    loss = FenchelYoungLoss(mapping)(scores, torch.tensor([0]))
    loss.backward()
    assert loss == math.inf
    assert not scores.grad.isnan().any()


@pytest.mark.parametrize("index", [-100, 3])
def test_ignored_targets(mapping, index):
    scores, target = draw(6)
    target = torch.tensor([index, 1, 2, index, 5, 4])
    kept = target != index
    loss = FenchelYoungLoss(mapping, ignore_index=index)
    value = loss(scores, target)
    assert_close(value.detach(), loss(scores[kept].detach(), target[kept]), LOSS)
    value.backward()
    assert torch.equal(scores.grad[~kept], torch.zeros_like(scores.grad[~kept]))
    assert (scores.grad[kept].abs().sum(-1) > 0).any()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_nothing_but_ignored_targets_cost_zero(mapping, reduction):
    scores, _ = draw(3)
    value = FenchelYoungLoss(mapping, reduction=reduction)(scores, torch.full((3,), -100))
    value.backward()
    assert value == 0
    assert torch.equal(scores.grad, torch.zeros_like(scores))


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("mapping", [Sparsemax(), Fusedmax()], ids=["sparsemax", "fusedmax"])
def test_any_number_of_leading_dimensions(mapping, shape):
    scores = torch.randn(*shape, VOCABULARY, dtype=torch.float64)
    target = torch.randint(VOCABULARY, shape)
    losses = FenchelYoungLoss(mapping, reduction="none")(scores, target)
    assert losses.shape == shape
    flat = FenchelYoungLoss(mapping, reduction="none")(
        scores.reshape(-1, VOCABULARY), target.reshape(-1)
    )
    assert_close(losses.reshape(-1), flat, LOSS)
    assert_close(FenchelYoungLoss(mapping)(scores, target), flat.mean(), LOSS)
    assert_close(FenchelYoungLoss(mapping, reduction="sum")(scores, target), flat.sum(), LOSS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_types(mapping, dtype):
    scores, target = draw()
    half = scores.detach().to(dtype).requires_grad_()
    loss = FenchelYoungLoss(mapping)
    value = loss(half, target)
    assert value.dtype == dtype
    assert torch.equal(value, loss(half.float(), target).to(dtype))
    value.backward()
    assert half.grad.dtype == dtype


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="reduction must be"):
        FenchelYoungLoss(Softmax(), reduction="elementwise_mean")
    loss = SparsemaxLoss()
    with pytest.raises(TypeError, match="class indices"):
        loss(torch.randn(2, 3), torch.zeros(2))
    with pytest.raises(ValueError, match=r"target must have shape \(2,\)"):
        loss(torch.randn(2, 3), torch.zeros(2, 1, dtype=torch.long))
    with pytest.raises(TypeError, match="floating point"):
        loss(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, dtype=torch.long))


@pytest.mark.parametrize("mapping", ["sparsemax", sparsemax, Csoftmax(), Csparsemax()])
def test_what_generates_no_loss_is_refused(mapping):
    with pytest.raises(TypeError, match="mapping must be a ProbabilityMap without bounds, got"):
        FenchelYoungLoss(mapping)


@pytest.mark.parametrize("k", [2.0, 0.5, torch.tensor(1.0)], ids=str)
def test_a_budget_has_a_loss_of_one_class_only(k):
    scores, target = torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([0])
    assert FenchelYoungLoss(Budget(1.0))(scores, target) == SparsemaxLoss()(scores, target)
    with pytest.raises(ValueError, match="a budget has a loss with k=1 only"):
        FenchelYoungLoss(Budget(k))(scores, target)


def test_the_mapping_is_part_of_the_module():
    exponent = nn.Parameter(torch.tensor(1.4))
    loss = EntmaxLoss(exponent)
    assert [p is exponent for p in loss.parameters()] == [True]
    assert "Entmax" in repr(loss)
    assert "ignore_index=-100" in repr(loss)
