"""α-entmax with α below one: dense, with heavy tails, computed in PyTorch."""

import math

import pytest
import torch
from tolerances import ABSOLUTE, assert_close
from torch.autograd import gradcheck, gradgradcheck

from repro.losses import Entmax15Loss, EntmaxLoss, LinearEntmaxLoss
from repro.mappings import Entmax, entmax
from repro.mappings.kernels import dispatch

INF = math.inf
ALPHAS = (0.05, 0.2, 0.5, 0.9, 0.999)


def by_bisection(scores, alpha):
    """Solve for ``c`` with ``Σ (r x + c)^{1/r} = 1``, where ``r = α - 1`` is negative."""
    r = alpha - 1
    x = r * (scores.double() - scores.double().amax(-1, keepdim=True))
    low = torch.zeros_like(x[..., :1])
    high = torch.full_like(low, x.size(-1) ** -r)
    for _ in range(200):
        middle = (low + high) / 2
        heavy = ((x + middle) ** (1 / r)).sum(-1, keepdim=True) > 1
        low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
    return (x + high) ** (1 / r)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("size", [1, 5, 3000])
def test_values(size, alpha, dtype):
    scale = torch.tensor([[1e-3], [1.0], [30.0]], dtype=dtype)
    scores = scale * torch.randn(3, size, dtype=dtype) + 100
    expected = by_bisection(scores, alpha)
    assert_close(entmax(scores, alpha), expected, ABSOLUTE)
    assert (entmax(scores.double(), alpha) > 0).all()
    alphas = torch.tensor([[alpha], [1.5], [alpha]], dtype=torch.float64).to(dtype)
    mixed = entmax(scores, alphas)
    assert_close(mixed[1], entmax(scores[1], 1.5), ABSOLUTE)
    assert_close(mixed[::2], by_bisection(scores[::2], alphas[0].item()), ABSOLUTE)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9])
def test_derivatives(alpha):
    scores = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    tensor = torch.full((3, 1), alpha, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda z: entmax(z, alpha), scores)
    assert gradcheck(entmax, (scores, tensor))
    assert gradgradcheck(entmax, (scores, tensor))
    target = torch.tensor([0, 1, 4])
    assert gradcheck(lambda z: EntmaxLoss(alpha)(z, target), scores)
    assert gradcheck(lambda a: EntmaxLoss(Entmax(a).alpha)(scores.detach(), target), tensor)


@pytest.mark.parametrize("alpha", [0.05, 0.5, torch.full((4, 1), 0.5)], ids=str)
def test_forbidden_entries_and_infinities(alpha):
    scores = torch.tensor([[1, -INF, 0], [-INF, -INF, -INF], [INF, 1, INF], [math.nan, 1, -INF]])
    probs = entmax(scores.requires_grad_(), alpha)
    assert probs[0, 1] == 0
    first = alpha if isinstance(alpha, float) else alpha[0]
    assert_close(probs[0, ::2], entmax(scores[0, ::2], first), ABSOLUTE)
    assert probs[1:3].tolist() == [[0, 0, 0], [0.5, 0, 0.5]]
    assert probs[3].isnan().all()
    (gradient,) = torch.autograd.grad(probs[:3].square().sum(), scores)
    assert gradient[:3].isfinite().all()


def test_the_limit_is_softmax():
    scores = torch.randn(4, 6, dtype=torch.float64)
    assert_close(entmax(scores, 1 - 1e-14), scores.softmax(-1), {torch.float64: 1e-12})
    grads = []
    for alpha in (1 - 1e-9, 1.0):
        tensor = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
        (entmax(scores, tensor) * torch.arange(6)).sum().backward()
        grads.append(tensor.grad)
    assert_close(grads[0], grads[1], {torch.float64: 1e-7})


def test_transforms_and_half_precision():
    scores, alphas = torch.randn(3, 5), torch.tensor([0.3, 1.0, 1.7])
    mapped = torch.func.vmap(entmax)(scores, alphas)
    assert_close(mapped, entmax(scores, alphas[:, None]), ABSOLUTE)
    half = entmax(scores.bfloat16(), 0.5)
    assert_close(half, entmax(scores.bfloat16().float(), 0.5), ABSOLUTE)


def test_loss_is_zero_at_the_target_only_in_the_limit():
    scores, target = torch.tensor([[50.0, 0.0, 0.0]], dtype=torch.float64), torch.tensor([0])
    loss = EntmaxLoss(0.5)(scores, target)
    assert 0 < loss < 1
    assert loss > EntmaxLoss(1.0)(scores, target)
    assert Entmax15Loss()(scores, target) == 0


def test_where_it_is_not_offered():
    with pytest.raises(ValueError, match="alpha must be at least 1"):
        LinearEntmaxLoss(alpha=0.5)


def test_forbidden_entries_above_two_in_double_precision():
    """The PyTorch code: scaled scores must not leave the range of the type."""
    scores = torch.tensor([[1.0, -INF, 0.3], [INF, 0.0, 0.0]], dtype=torch.float64)
    probs = dispatch.references["entmax_forward"](scores, 1.5)
    assert_close(probs[0, ::2], entmax(scores[0, ::2], 2.5), ABSOLUTE)
    assert probs[0, 1] == 0
    assert probs[1].tolist() == [1, 0, 0]


def test_rows_below_one_and_above_two_are_solved_as_each_alone():
    alphas = torch.tensor([0.5, 1.5, 3.0, 5.0], dtype=torch.float64)
    scores = torch.randn(4, 8, dtype=torch.float64)
    alone = [entmax(row, alpha) for row, alpha in zip(scores, alphas.tolist(), strict=True)]
    assert_close(entmax(scores, alphas[:, None]), torch.stack(alone), ABSOLUTE)
