"""Batched derivatives of every loss of a mapping, against one call per row of the Jacobian."""

import pytest
import torch
from batched_jacobians import WAYS
from tolerances import GRADIENT, assert_close
from torch.autograd.functional import hessian, jacobian

from repro.losses import FenchelYoungLoss, linear_entmax_loss
from repro.mappings import MAPPINGS

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script:DeprecationWarning"
)  # inside torch
SCORES = torch.tensor([[1.1, 0.5, 0.02, -0.2, 1.7], [0.3, -1.0, 0.4, 2.0, 0.0]]).double()
TARGET = torch.tensor([2, 3])

LOSSES = {
    name: FenchelYoungLoss(spec.module(), reduction="none")
    for name, spec in MAPPINGS.items()
    if not spec.bounded
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_jacobians(loss, way):
    def function(scores):
        return loss(scores, TARGET)

    assert_close(way(function, SCORES), jacobian(function, SCORES), GRADIENT)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_vmap_and_hessians(loss):
    mapped = torch.func.vmap(loss)(SCORES, TARGET)
    assert_close(mapped, loss(SCORES, TARGET), GRADIENT)

    def total(scores):
        return loss(scores, TARGET).sum()

    expected = hessian(total, SCORES)
    assert_close(hessian(total, SCORES, vectorize=True), expected, GRADIENT)
    assert_close(torch.func.jacrev(torch.func.jacrev(total))(SCORES), expected, GRADIENT)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("argument", [0, 1, 2])
def test_jacobians_of_the_linear_loss(argument, way):
    """Jacobians in the hidden states, the weight and the bias."""
    arguments = [SCORES, torch.linspace(-1, 1, 35).double().view(7, 5).sin(), SCORES[0].new_ones(7)]

    def function(point):
        given = [*arguments[:argument], point, *arguments[argument + 1 :]]
        return linear_entmax_loss(*given, TARGET, ignore_index=3, reduction="none")

    point = arguments[argument]
    assert_close(way(function, point), jacobian(function, point), GRADIENT)


def test_vmap_of_the_linear_loss():
    weight = torch.linspace(-1, 1, 35).double().view(7, 5).sin()
    mapped = torch.func.vmap(lambda h, y: linear_entmax_loss(h, weight, None, y))(SCORES, TARGET)
    expected = linear_entmax_loss(SCORES, weight, None, TARGET, reduction="none")
    assert_close(mapped, expected, GRADIENT)
