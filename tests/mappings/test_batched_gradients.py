"""Batched derivatives of every mapping and loss, against one call per row of the Jacobian."""

import pytest
import torch
from tolerances import GRADIENT, assert_close
from torch.autograd.functional import hessian, jacobian

from repro.losses import FenchelYoungLoss, linear_entmax_loss
from repro.mappings import MAPPINGS, budget, entmax, normmax, oscarmax, regularized

SCORES = torch.tensor([1.1, 0.5, 0.02, -0.2, 1.7], dtype=torch.float64)
BOUNDS = torch.full_like(SCORES, 0.4)
HIDDEN = torch.stack((SCORES, SCORES.flip(0) / 2))
WEIGHT = torch.linspace(-1, 1, 25).double().view(5, 5).sin()
TARGET = torch.tensor([2, 3])


def batched_gradients(function, point):
    point = point.clone().requires_grad_()
    output = function(point)
    rows = torch.eye(output.numel(), dtype=point.dtype).view(-1, *output.shape)
    (found,) = torch.autograd.grad(output, point, rows, is_grads_batched=True)
    return found.view(*output.shape, *point.shape)


WAYS = {
    "is_grads_batched": batched_gradients,
    "vectorize": lambda function, point: jacobian(function, point, vectorize=True),
    "jacrev": lambda function, point: torch.func.jacrev(function)(point),
}
"""Ways in which torch computes a Jacobian with batched derivatives."""


def of_scores(spec):
    """The function of a mapping with its other arguments fixed."""
    others = (BOUNDS,) if spec.bounded else ()
    return lambda scores: spec.function(scores, *others)


def value_of(spec):
    others = (BOUNDS,) if spec.bounded else ()
    return lambda scores: spec.module().value(scores, *others)


def linear_loss(hidden=HIDDEN, target=TARGET, weight=WEIGHT, bias=None):
    return linear_entmax_loss(hidden, weight, bias, target, ignore_index=3, reduction="none")


LOSSES = {
    f"{name}, loss": FenchelYoungLoss(spec.module(), reduction="none")
    for name, spec in MAPPINGS.items()
    if not spec.bounded
}


def loss_of_rows(loss):
    return lambda scores: loss(torch.stack((scores, 2 * scores)), TARGET)


FUNCTIONS = (
    {name: of_scores(spec) for name, spec in MAPPINGS.items()}
    | {f"{name}, value": value_of(spec) for name, spec in MAPPINGS.items()}
    | {
        f"{name}, bounds": lambda bounds, spec=spec: spec.function(SCORES, bounds.abs() + 0.3)
        for name, spec in MAPPINGS.items()
        if spec.bounded
    }
    | {name: loss_of_rows(loss) for name, loss in LOSSES.items()}
    | {
        "entmax, alpha": lambda alpha: entmax(SCORES, alpha.abs().mean() + 1.1),
        "entmax, alpha of each row": lambda alpha: entmax(
            SCORES.expand(5, 5), alpha.abs()[:, None] + 1.1
        ),
        "normmax, alpha": lambda alpha: normmax(SCORES, alpha.abs().mean() + 1.1),
        "budget, k": lambda k: budget(SCORES, k.abs().mean() + 1.1),
        "oscarmax, paper": lambda scores: oscarmax(scores, 0.1, variant="paper"),
        "regularized": regularized(lambda probs: probs.square().sum(-1) / 2),
        "linear loss, hidden": lambda point: linear_loss(hidden=HIDDEN * point),
        "linear loss, weight": lambda point: linear_loss(weight=WEIGHT * point),
        "linear loss, bias": lambda point: linear_loss(bias=point),
    }
)
DIFFERENTIABLE_ONCE = ("regularized", "linear loss")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_jacobians(function, way):
    assert_close(way(function, SCORES), jacobian(function, SCORES), GRADIENT)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_vmap_in_values_and_jacobians(function):
    points = torch.stack((SCORES, 2 * SCORES))
    mapped = torch.func.vmap(function)(points)
    assert_close(mapped, torch.stack([function(point) for point in points]), GRADIENT)
    across = torch.func.vmap(function, in_dims=1, out_dims=-1)(points.T)
    assert_close(across, mapped.movedim(0, -1), GRADIENT)
    jacobians = torch.func.vmap(torch.func.jacrev(function))(points)
    expected = torch.stack([jacobian(function, point) for point in points])
    assert_close(jacobians, expected, GRADIENT)


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if not name.startswith(DIFFERENTIABLE_ONCE)]
)
def test_hessians(name):

    def energy(point):
        return FUNCTIONS[name](point).square().sum()

    expected = hessian(energy, SCORES)
    assert_close(hessian(energy, SCORES, vectorize=True), expected, GRADIENT)
    assert_close(torch.func.jacrev(torch.func.jacrev(energy))(SCORES), expected, GRADIENT)


@pytest.mark.parametrize("loss", [*LOSSES.values(), linear_loss])
def test_vmap_over_scores_and_targets(loss):
    assert_close(torch.func.vmap(loss)(HIDDEN, TARGET), loss(HIDDEN, TARGET), GRADIENT)
