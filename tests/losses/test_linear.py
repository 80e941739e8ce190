"""The fused linear layer and loss against the two in a row: values, gradients, memory."""

import math

import pytest
import torch
from tolerances import GRADIENT, LOSS, assert_close
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from repro.losses import EntmaxLoss, LinearEntmaxLoss, linear, linear_entmax_loss
from repro.mappings import entmax

SIZE = 8
ALPHAS = (1.0, 1.3, 1.5, 2.0)
CHUNKS = (1, 7, 1000, None)


@pytest.fixture(params=["kept", "solved again"])
def storage(request, monkeypatch):
    """Both ways to the gradient, whatever the size of the supports."""
    share = 1.0 if request.param == "kept" else -1.0
    monkeypatch.setattr(linear, "_DENSITY", share)


def draw(shape=(3, 5), vocabulary=30, dtype=torch.float64):
    hidden = torch.randn(*shape, SIZE, dtype=dtype)
    weight = torch.randn(vocabulary, SIZE, dtype=dtype)
    bias = torch.randn(vocabulary, dtype=dtype)
    leaves = [tensor.requires_grad_() for tensor in (hidden, weight, bias)]
    return leaves, torch.randint(vocabulary, shape)


def in_a_row(hidden, weight, bias, target, alpha=1.5, *, chunk_size=None, **settings):
    return EntmaxLoss(alpha, **settings)(F.linear(hidden, weight, bias), target)


def assert_same(leaves, target, alpha=1.5, **settings):
    """Equal values, and equal gradients under arbitrary upstream gradients."""
    both = [f(*leaves, target, alpha, **settings) for f in (linear_entmax_loss, in_a_row)]
    assert both[0].shape == both[1].shape
    assert both[0].dtype == both[1].dtype
    assert_close(*both, LOSS)
    upstream = torch.randn_like(both[0])
    wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
    pairs = zip(*(torch.autograd.grad(loss, wanted, upstream) for loss in both), strict=True)
    for ours, theirs in pairs:
        assert_close(ours, theirs, GRADIENT)


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize(
    ("alpha", "chunk", "reduction"),
    [(alpha, CHUNKS[(i + j) % 4], reduction) for i, alpha in enumerate(ALPHAS)
     for j, reduction in enumerate(("none", "sum", "mean"))],
)  # fmt: skip
def test_equals_the_two_in_a_row(alpha, chunk, reduction):
    leaves, target = draw()
    target[0, 1] = target[2, 4] = -100
    settings = {"reduction": reduction, "chunk_size": chunk}
    assert_same(leaves, target, alpha, **settings)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_kept_and_solved_chunks_side_by_side(alpha):
    """Sharp rows have small supports, flat ones large supports; with 300 classes both occur."""
    leaves, target = draw((40,), 300)
    sharp = torch.cat([leaves[0][:20] * 20, leaves[0][20:] * 0.01]).detach().requires_grad_()
    sizes = (entmax(F.linear(sharp, *leaves[1:]), alpha) > 0).double().mean(-1)
    if alpha > 1:
        assert sizes[:20].max() < linear._DENSITY < sizes[20:].min()
    settings = {"reduction": "none", "chunk_size": 7}
    assert_same([sharp, *leaves[1:]], target, alpha, **settings)


@pytest.mark.usefixtures("storage")
def test_without_bias():
    leaves, target = draw()
    assert_same([*leaves[:2], None], target)


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_frozen_arguments(frozen):
    leaves, target = draw()
    leaves[frozen].requires_grad_(False)
    assert_same(leaves, target)


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("alpha", ALPHAS)
def test_forbidden_entries(alpha):
    """A bias of ``-inf`` forbids; a forbidden target costs infinitely much."""
    leaves, target = draw()
    with torch.no_grad():
        leaves[2][20:] = -math.inf
    target %= 20
    target[0, 0] = 25
    settings = {"reduction": "none"}
    assert linear_entmax_loss(*leaves, target, alpha, **settings)[0, 0] == math.inf
    assert_same(leaves, target, alpha, **settings)


@pytest.mark.usefixtures("storage")
def test_nothing_allowed():
    leaves, target = draw()
    with torch.no_grad():
        leaves[2][:] = -math.inf
    assert_same(leaves, target, reduction="none")


@pytest.mark.usefixtures("storage")
def test_undefined_numbers_stay_in_their_rows():
    leaves, target = draw((4,))
    with torch.no_grad():
        leaves[0][2, 0] = math.nan
    losses = linear_entmax_loss(*leaves, target, reduction="none")
    assert losses.isnan().tolist() == [False, False, True, False]
    target[2] = -100
    value = linear_entmax_loss(*leaves, target)
    assert value == linear_entmax_loss(leaves[0][[0, 1, 3]], *leaves[1:], target[[0, 1, 3]])
    assert all(g.isfinite().all() for g in torch.autograd.grad(value, leaves))


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_a_common_shift_changes_nothing(offset):
    leaves = [torch.randint(-4, 4, shape).float() * 16 for shape in ((6, SIZE), (30, SIZE), (30,))]
    target = torch.randint(30, (6,))
    leaves[0] = leaves[0] / 256
    moved = [*leaves[:2], leaves[2] + offset // 16 * 16]
    assert torch.equal(
        linear_entmax_loss(*moved, target, reduction="none"),
        in_a_row(*moved, target, reduction="none"),
    )


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("count", [0, 3])
def test_nothing_counts(reduction, count):
    leaves, _ = draw((count,))
    losses = linear_entmax_loss(*leaves, torch.full((count,), -100), reduction=reduction)
    assert torch.equal(losses, torch.zeros_like(losses))
    for gradient in torch.autograd.grad(losses.sum(), leaves):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 2)])
def test_any_number_of_leading_dimensions(shape):
    leaves, target = draw(shape)
    assert_same(leaves, target, reduction="none")


def test_single_precision():
    leaves, target = draw((20,), 300, torch.float32)
    assert_same(leaves, target, reduction="none", chunk_size=7)


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_types_are_summed_in_float32(dtype):
    """Against float64 on the same half scores: one rounding of each result is left."""
    leaves, target = draw((200,), 30, dtype)
    settings = {"chunk_size": 7}
    value = linear_entmax_loss(*leaves, target, **settings)
    assert value.dtype == dtype
    scores = F.linear(*leaves).double().detach().requires_grad_()
    exact = EntmaxLoss()(scores, target)
    (errors,) = torch.autograd.grad(exact, scores)
    hidden, weight, _ = (leaf.detach().double() for leaf in leaves)
    expected = errors @ weight, errors.T @ hidden, errors.sum(0)
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(value.double(), exact, rtol=rounding, atol=0, check_dtype=False)
    for ours, theirs in zip(torch.autograd.grad(value, leaves), expected, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, rtol=rounding, atol=1e-5)


@pytest.mark.usefixtures("storage")
def test_autocast_makes_the_scores_half():
    leaves, target = draw((9,), 30, torch.float32)
    half = [leaf.bfloat16() for leaf in leaves]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = linear_entmax_loss(*leaves, target)
    assert torch.equal(value, linear_entmax_loss(*half, target))
    gradients = torch.autograd.grad(value, leaves)
    again = torch.autograd.grad(linear_entmax_loss(*half, target), leaves)
    for ours, theirs in zip(gradients, again, strict=True):
        assert ours.dtype == torch.float32
        assert torch.equal(ours, theirs)


class LargestTensor(TorchDispatchMode):
    """Counts the entries of the largest tensor that any operation returns."""

    def __init__(self):
        super().__init__()
        self.entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and not tensor.is_sparse:
                self.entries = max(self.entries, tensor.numel())
        return result


def largest(loss, *arguments, **settings):
    with LargestTensor() as seen:
        loss(*arguments, **settings).backward()
    return seen.entries


@pytest.mark.parametrize("alpha", ALPHAS)
def test_no_tensor_holds_the_scores_of_all_tokens(alpha):
    """512 tokens and 400 classes, four tokens at a time."""
    leaves, target = draw((512,), 400)
    leaves[0] = (leaves[0] * 30).detach().requires_grad_()
    arguments = (*leaves, target, alpha)
    assert largest(in_a_row, *arguments) == 512 * 400
    assert largest(linear_entmax_loss, *arguments, chunk_size=4) <= 512 * 400 / 16


def test_without_gradients_nothing_is_kept():
    leaves, target = draw()
    with torch.no_grad():
        silent = linear_entmax_loss(*leaves, target)
    assert not silent.requires_grad
    assert torch.equal(silent, linear_entmax_loss(*leaves, target).detach())


def test_a_second_derivative_is_refused():
    leaves, target = draw()
    loss = linear_entmax_loss(*leaves, target)
    with pytest.raises(RuntimeError, match="has no second derivative"):
        torch.autograd.grad(loss, leaves[0], create_graph=True)


def test_the_module_is_the_function():
    leaves, target = draw()
    loss = LinearEntmaxLoss(1.3, -1, "none", 7)
    target[0, 0] = -1
    expected = linear_entmax_loss(*leaves, target, 1.3, ignore_index=-1, reduction="none")
    assert_close(loss(*leaves, target), expected, LOSS)
    assert "alpha=1.3, ignore_index=-1, reduction='none'" in repr(loss)


def test_bad_arguments_are_refused():
    (hidden, weight, bias), target = draw((4,))
    with pytest.raises(TypeError, match="alpha must be a number"):
        linear_entmax_loss(hidden, weight, bias, target, torch.tensor(1.5))
    with pytest.raises(ValueError, match="alpha"):
        LinearEntmaxLoss(0.5)
    with pytest.raises(ValueError, match="chunk_size must be at least 1, got 0"):
        LinearEntmaxLoss(chunk_size=0)
    with pytest.raises(ValueError, match="reduction must be"):
        LinearEntmaxLoss(reduction="all")
    with pytest.raises(TypeError, match="one floating point type"):
        linear_entmax_loss(hidden, weight.float(), bias, target)
    with pytest.raises(TypeError, match="class indices"):
        linear_entmax_loss(hidden, weight, bias, target.double())
    with pytest.raises(ValueError, match="target must have the shape of hidden"):
        linear_entmax_loss(hidden, weight, bias, target[:3])
    with pytest.raises(ValueError, match=r"weight must have shape \(V, 8\)"):
        linear_entmax_loss(hidden, weight[:, :3], bias, target)
    with pytest.raises(ValueError, match=r"bias must have shape \(30,\)"):
        linear_entmax_loss(hidden, weight, bias[:3], target)
    with pytest.raises(IndexError, match=r"targets must be in \[0, 30\) or the ignored value"):
        linear_entmax_loss(hidden, weight, bias, target + 30)
