"""SparseMAP, MAP and structured losses under torch's transforms, against one call per row."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

from repro.losses import structured
from repro.structures import Arborescence, LinearChain, Matching, Structure, sparsemap

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
SHAPES: dict[str, tuple[Structure, tuple[int, ...]]] = {
    "sequence": (LinearChain(), (4, 3)),
    "arborescence": (Arborescence(), (4, 4)),
    "matching": (Matching(), (3, 4)),
}
Function = Callable[[Tensor], Tensor]


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TRANSITIONS = draw(3, 3, 3, seed=1)


def marginals_of(name: str) -> Function:
    structure, _ = SHAPES[name]
    additional = TRANSITIONS if name == "sequence" else None
    return lambda unary: sparsemap(structure, unary, additional).marginals


def batched_gradients(function: Function, point: Tensor) -> Tensor:
    point = point.clone().requires_grad_()
    output = function(point)
    rows = torch.eye(output.numel(), dtype=point.dtype).view(-1, *output.shape)
    (found,) = torch.autograd.grad(output, point, rows, is_grads_batched=True)
    return found.view(*output.shape, *point.shape)


WAYS: dict[str, Callable[[Function, Tensor], Tensor]] = {
    "is_grads_batched": batched_gradients,
    "vectorize": lambda function, point: jacobian(function, point, vectorize=True),
    "vectorize, forward": lambda function, point: jacobian(
        function, point, vectorize=True, strategy="forward-mode"
    ),
    "jacrev": lambda function, point: torch.func.jacrev(function)(point),
    "jacfwd": lambda function, point: torch.func.jacfwd(function)(point),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SHAPES)
def test_jacobians_of_sparsemap(name: str, way: str) -> None:
    function, point = marginals_of(name), draw(2, *SHAPES[name][1], seed=2)
    torch.testing.assert_close(WAYS[way](function, point), jacobian(function, point))


@pytest.mark.parametrize("way", WAYS)
def test_jacobians_in_shared_transitions_and_of_weights(way: str) -> None:
    unary = draw(2, 4, 3, seed=3)

    def function(transitions: Tensor) -> Tensor:
        solution = sparsemap(LinearChain(), unary, transitions)
        return torch.cat([solution.marginals.flatten(), solution.weights.flatten()])

    torch.testing.assert_close(WAYS[way](function, TRANSITIONS), jacobian(function, TRANSITIONS))


@pytest.mark.parametrize("name", SHAPES)
def test_vmap_of_sparsemap(name: str) -> None:
    function, points = marginals_of(name), draw(3, 2, *SHAPES[name][1], seed=4)
    expected = torch.stack([function(point) for point in points])
    torch.testing.assert_close(torch.func.vmap(function)(points), expected)
    torch.testing.assert_close(torch.func.vmap(function, 1, 1)(points.transpose(0, 1)),
                               expected.transpose(0, 1))  # fmt: skip
    mapped = torch.func.vmap(torch.func.jacrev(function))(points)
    expected = torch.stack([jacobian(function, point) for point in points])
    torch.testing.assert_close(mapped, expected)


HESSIANS: dict[str, Callable[[Function, Tensor], Tensor]] = {
    "vectorize": lambda function, point: hessian(function, point, vectorize=True),
    "forward of reverse": lambda function, point: torch.func.hessian(function)(point),
    "reverse of reverse": lambda function, point: torch.func.jacrev(torch.func.jacrev(function))(
        point
    ),
}


@pytest.mark.parametrize("way", HESSIANS)
@pytest.mark.parametrize("name", SHAPES)
def test_second_derivatives(name: str, way: str) -> None:
    marginals, point = marginals_of(name), draw(2, *SHAPES[name][1], seed=7)

    def function(unary: Tensor) -> Tensor:
        return marginals(unary).pow(3).sum()

    torch.testing.assert_close(HESSIANS[way](function, point), hessian(function, point))


class BestOfEach:
    """Oracle of one chosen part among four unary and one among two additional parts."""

    unary_parts, additional_parts = 4, 2

    def map(self, scores: Tensor) -> Tensor:
        chosen = torch.zeros_like(scores)
        chosen[scores[:4].argmax()] = 1
        chosen[4 + scores[4:].argmax()] = 1
        return chosen


@pytest.mark.parametrize("way", WAYS)
def test_oracles_of_users(way: str) -> None:
    def function(scores: Tensor) -> Tensor:
        solution = sparsemap(BestOfEach(), scores[:, :4], scores[:, 4:])
        assert solution.additional is not None
        return torch.cat([solution.marginals, solution.additional], -1)

    point = draw(2, 6, seed=8)
    torch.testing.assert_close(WAYS[way](function, point), jacobian(function, point))


def test_mapped_lengths_and_masks() -> None:
    def function(unary: Tensor, lengths: Tensor, mask: Tensor) -> Tensor:
        return sparsemap(LinearChain(), unary, lengths=lengths, mask=mask).marginals

    points, lengths = draw(3, 2, 4, 3, seed=9), torch.tensor([[4, 2], [3, 1], [2, 4]])
    masks = draw(3, 2, 4, 3, seed=10) < 0.5
    masks[..., 0] = True
    rows = [function(*row) for row in zip(points, lengths, masks, strict=True)]
    torch.testing.assert_close(torch.func.vmap(function)(points, lengths, masks), torch.stack(rows))


LOSSES = [
    (name, getattr(structured, loss))
    for name in SHAPES
    for loss in ("StructuredPerceptronLoss", "StructuredSVMLoss", "CRFLoss", "MarginCRFLoss",
                 "SparseMAPLoss", "MarginSparseMAPLoss")
    if not (name == "matching" and "CRF" in loss)
]  # fmt: skip


@pytest.mark.parametrize(("name", "loss"), LOSSES)
def test_structured_losses(name: str, loss: type[structured.StructuredLoss]) -> None:
    structure, shape = SHAPES[name]
    additional = TRANSITIONS if name == "sequence" else None
    target = structure.map(draw(2, *shape, seed=5), additional)
    module = loss(structure, reduction="none")
    points = draw(3, 2, *shape, seed=6)

    def function(scores: Tensor) -> Tensor:
        return module(scores, target, additional=additional)

    expected = jacobian(function, points[0])
    for way in WAYS.values():
        torch.testing.assert_close(way(function, points[0]), expected)
    expected = torch.stack([function(point) for point in points])
    torch.testing.assert_close(torch.func.vmap(function)(points), expected)
    mapped = torch.func.vmap(torch.func.jacrev(function))(points)
    expected = torch.stack([jacobian(function, point) for point in points])
    torch.testing.assert_close(mapped, expected)
