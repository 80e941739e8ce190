"""Losses by kernels against the same losses in PyTorch: values, gradients, errors."""

import math

import pytest
import torch
from operator_count import Operators
from tolerances import GRADIENT, LOSS, assert_close

from repro.losses import FenchelYoungLoss, fenchel_young
from repro.losses.fenchel_young import fused_losses, fused_r
from repro.mappings import Entmax, Fusedmax, LearnedAlphaEntmax, Softmax, Sparsemax
from repro.mappings.kernels import dispatch

MAPS = {
    "softmax": Softmax(),
    "sparsemax": Sparsemax(),
    "entmax-1.0": Entmax(1.0),
    "entmax-1.3": Entmax(1.3),
    "entmax-1.5": Entmax(),
    "entmax-2.5": Entmax(2.5),
}
FLOATS = (torch.float64, torch.float32)


@pytest.fixture(params=MAPS.values(), ids=MAPS, scope="module")
def mapping(request):
    return request.param


@pytest.fixture
def in_torch(monkeypatch):
    """Calls something without kernels."""

    def call(function, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(fenchel_young, "fused_losses", lambda *_: None)
            return function(*arguments)

    return call


def draw(size, rows=6, dtype=torch.float64):
    return torch.randn(rows, size, dtype=dtype) * 2, torch.randint(size, (rows,))


def with_gradient(loss, scores, target, upstream):
    leaf = scores.clone().requires_grad_()
    value = loss(leaf, target)
    return value.detach(), torch.autograd.grad(value, leaf, upstream)[0]


@pytest.mark.parametrize(
    ("size", "dtype"), [*zip([1, 2, 63, 129, 1000, 63], FLOATS * 3, strict=True)], ids=str
)
def test_values_and_gradients(mapping, size, dtype, in_torch):
    scores, target = draw(size, dtype=dtype)
    target[1] = 7000
    loss = FenchelYoungLoss(mapping, ignore_index=7000, reduction="none")
    assert fused_losses(mapping, scores, target, 7000, "none") is not None
    upstream = torch.tensor([1.0, 2.0, 0.0, -1.0, 0.5, 3.0], dtype=dtype)
    ours = with_gradient(loss, scores, target, upstream)
    theirs = in_torch(with_gradient, loss, scores, target, upstream)
    assert_close(ours[0], theirs[0], LOSS)
    assert_close(ours[1], theirs[1], GRADIENT)
    assert not ours[1][1].any()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_extreme_scores(mapping, reduction, in_torch):
    """Forbidden entries and targets, infinite scores, rows with nothing allowed or undefined."""
    scores, target = draw(5, rows=7)
    scores[0, 1:3], target[0] = -math.inf, 0
    scores[1, 3], target[1] = -math.inf, 3
    scores[2, 2] = math.inf
    scores[3], target[3] = -math.inf, -100
    scores[4, 0], target[4] = math.inf, 0
    scores[5] = -math.inf
    for rows in (slice(0, 1), slice(2, 5), slice(0, 7)):
        loss = FenchelYoungLoss(mapping, reduction=reduction)
        upstream = torch.ones_like(loss(scores[rows], target[rows]))
        ours = with_gradient(loss, scores[rows], target[rows], upstream)
        theirs = in_torch(with_gradient, loss, scores[rows], target[rows], upstream)
        assert_close(ours[0], theirs[0], LOSS)
        assert_close(ours[1], theirs[1], GRADIENT)
    scores[6, 1] = math.nan
    assert FenchelYoungLoss(mapping, reduction="none")(scores, target)[6].isnan()


def test_derivatives_of_the_losses_of_cuda(mapping, in_torch, monkeypatch):
    """Their operators, run in PyTorch: first and second derivatives are those of the CPU."""
    monkeypatch.setattr(dispatch, "launch", lambda name, *given: dispatch.fallback(name)(*given))
    scores, target = draw(6)
    target[2] = -100
    weight, vector = torch.rand(6, dtype=torch.float64), torch.randn(6, 6, dtype=torch.float64)
    order = fused_r(mapping)

    def derivatives(loss):
        leaf, upstream = scores.clone().requires_grad_(), weight.clone().requires_grad_()
        losses = loss(leaf, target)
        (plain,) = torch.autograd.grad(losses, leaf, upstream, retain_graph=True)
        (first,) = torch.autograd.grad(losses, leaf, upstream, create_graph=True)
        return losses, plain, first, *torch.autograd.grad((first * vector).sum(), [leaf, upstream])

    expected = in_torch(derivatives, FenchelYoungLoss(mapping, reduction="none"))
    found = derivatives(lambda z, y: fenchel_young.StreamedLossFunction.run(z, y, order, -100)[0])
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, GRADIENT)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_loss_on_an_accelerator_is_one_operator_each_way(mapping, reduction):
    scores = torch.zeros(4, 3, 7, device="meta", requires_grad=True)
    target = torch.zeros(4, 3, dtype=torch.long, device="meta")
    upstream = torch.zeros((4, 3) if reduction == "none" else (), device="meta")
    most = {"none": 1, "sum": 2, "mean": 6}[reduction]
    with Operators() as forward:
        value = FenchelYoungLoss(mapping, reduction=reduction)(scores, target)
    assert forward.count <= most + 1  # which targets are ignored
    with Operators() as backward:
        value.backward(upstream)
    assert backward.count <= 3
    assert scores.grad.shape == scores.shape


@pytest.mark.parametrize("bad", [-1, 6, 10**9])
@pytest.mark.parametrize("by_kernel", [True, False])
def test_targets_that_are_no_class_are_refused(mapping, bad, by_kernel, in_torch):
    scores, target = draw(6)
    target[3] = bad
    loss = FenchelYoungLoss(mapping)
    with pytest.raises(IndexError):
        loss(scores, target) if by_kernel else in_torch(loss, scores, target)


def test_no_targets(mapping):
    scores = torch.empty(0, 5, requires_grad=True)
    value = FenchelYoungLoss(mapping)(scores, torch.empty(0, dtype=torch.long))
    value.backward()
    assert value == 0
    assert scores.grad.shape == (0, 5)


@pytest.mark.parametrize(
    "other",
    [Softmax(2.0), Sparsemax(0.5), Entmax(torch.tensor(1.4)), LearnedAlphaEntmax(), Fusedmax()],
)
def test_other_maps_have_no_kernel(other):
    scores, target = draw(6)
    assert fused_r(other) is None
    assert fused_losses(other, scores, target, -100, "mean") is None


def test_a_map_of_another_class_keeps_its_own_formulas():
    class Halved(Sparsemax):
        def omega(self, probs, dim=-1):
            return super().omega(probs, dim) / 2

    assert fused_r(Halved()) is None
