"""Settings given as numbers of Python, of numpy, or as tensors without dimensions."""

import math

import numpy as np
import pytest
import torch
from tolerances import ABSOLUTE, assert_close
from torch.func import vmap

from repro.losses import CrossEntropyLoss, EntmaxLoss, LinearEntmaxLoss, SparsemaxLoss
from repro.mappings import (
    Budget,
    Entmax,
    Fusedmax,
    LearnedAlphaEntmax,
    Normmax,
    Oscarmax,
    SqPnormMax,
    budget,
    entmax,
    fusedmax,
    normmax,
    oscarmax,
    regularized,
    softmax,
    sparsemax,
    sq_pnorm_max,
)

SCORES = torch.linspace(-1, 2, 20).view(4, 5).sin()
TARGET = torch.tensor([1, 2, 3, 0])


def euclidean(probs):
    return probs.square().sum(-1) / 2


CALLS = {
    "softmax, gamma": lambda value: softmax(SCORES, gamma=value),
    "sparsemax, gamma": lambda value: sparsemax(SCORES, gamma=value),
    "fusedmax, lam": lambda value: fusedmax(SCORES, value),
    "Fusedmax": lambda value: Fusedmax(value, value)(SCORES),
    "oscarmax, lam": lambda value: oscarmax(SCORES, value, gamma=value),
    "sq_pnorm_max, p": lambda value: sq_pnorm_max(SCORES, value + 1, gamma=value),
    "regularized, gamma": lambda value: regularized(euclidean, gamma=value)(SCORES),
}
WITH_TENSORS = {
    "entmax, alpha": lambda value: entmax(SCORES, value + 1),
    "normmax, alpha": lambda value: normmax(SCORES, value + 1),
    "budget, k": lambda value: budget(SCORES, value + 1),
}
"""These take tensors as parameters with gradients too, and are not meant by refusals."""


@pytest.mark.parametrize("value", [torch.tensor(0.5), np.float32(0.5), np.float64(0.5)])
@pytest.mark.parametrize("call", (CALLS | WITH_TENSORS).values(), ids=CALLS | WITH_TENSORS)
def test_numbers_of_any_kind(call, value):
    torch.testing.assert_close(call(value), call(0.5))


@pytest.mark.parametrize(
    "value",
    ["a", None, 1j, np.array(0.5), torch.tensor([0.5]), torch.tensor(0.5, requires_grad=True)],
    ids=repr,
)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_no_number_is_refused(call, value):
    with pytest.raises(TypeError):
        call(value)


TAKING_TENSORS = (entmax, normmax, budget)
OUT_OF_RANGE = {
    (entmax, Entmax, "alpha must be positive and finite"): [0.0, -1.0],
    (normmax, Normmax, "alpha must be above 1 and finite"): [1.0, 0.5],
    (budget, Budget, "k must be at least 0"): [-1e-3, -1.0],
    (sq_pnorm_max, SqPnormMax, "p must be larger than 1 and at most 2"): [1.0, 0.5, 2.001],
    (fusedmax, Fusedmax, "lam must be at least 0"): [-0.1],
    (oscarmax, Oscarmax, "lam must be at least 0"): [-0.1],
}


@pytest.mark.parametrize(("function", "module", "message"), OUT_OF_RANGE)
def test_what_is_out_of_range_is_refused(function, module, message):
    for value in (*OUT_OF_RANGE[function, module, message], math.inf, math.nan):
        with pytest.raises(ValueError, match=message):
            function(SCORES, value)
        with pytest.raises(ValueError, match=message):
            module(value)
        if function not in TAKING_TENSORS:
            continue
        for tensor in (torch.tensor(value), torch.tensor([1.5, 1.5, value, 1.5])[:, None]):
            with pytest.raises(ValueError, match=message):
                function(SCORES, tensor)
            with pytest.raises(ValueError, match=message):
                module(tensor)(SCORES)
        # Where values are not read, the row is NaN.
        mapped = vmap(function)(SCORES[:2], torch.tensor([value, 1.5]))
        assert mapped[0].isnan().all()
        assert_close(mapped[1], function(SCORES[1], 1.5), ABSOLUTE)


@pytest.mark.parametrize("function", TAKING_TENSORS)
@pytest.mark.parametrize(
    ("shape", "dim", "message"),
    [
        ((3, 1), -1, "does not broadcast"),
        ((2, 3), -1, "size 1 on dim"),
        ((2, 1), 0, "size 1 on dim"),
    ],
)
def test_shapes_of_tensors_are_checked(function, shape, dim, message):
    with pytest.raises(ValueError, match=message):
        function(torch.ones(2, 3), torch.full(shape, 1.5), dim=dim)


@pytest.mark.parametrize("loss", [EntmaxLoss, SparsemaxLoss, CrossEntropyLoss])
@pytest.mark.parametrize(
    "value", [torch.tensor(2), torch.tensor([2]), np.int64(2), np.array(2)], ids=repr
)
def test_integers_that_torch_takes_as_ignored_class(loss, value):
    expected = torch.nn.functional.cross_entropy(SCORES, TARGET, ignore_index=value)
    found = loss(ignore_index=value)(SCORES, TARGET)
    assert torch.equal(found, loss(ignore_index=2)(SCORES, TARGET))
    if loss is CrossEntropyLoss:
        torch.testing.assert_close(found, expected)
    if loss is EntmaxLoss:
        fused = LinearEntmaxLoss(ignore_index=value)(SCORES, torch.eye(5), None, TARGET)
        torch.testing.assert_close(fused, found)


@pytest.mark.parametrize(
    "value", [2.0, "2", None, True, torch.tensor(2.0), torch.tensor([1, 2])], ids=repr
)
def test_what_is_no_integer_is_refused(value):
    for loss in (EntmaxLoss, LinearEntmaxLoss):
        with pytest.raises(TypeError, match="ignore_index must be an integer"):
            loss(ignore_index=value)
    with pytest.raises(TypeError, match="heads must be an integer"):
        LearnedAlphaEntmax(value)
    with pytest.raises(TypeError, match="max_iterations must be an integer"):
        regularized(euclidean, max_iterations=value)
