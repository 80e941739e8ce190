"""A mapping becomes a node of the graph where any of its inputs needs a gradient."""

import pytest
import torch
from torch import Tensor

from repro.mappings import budget, csparsemax, entmax, normmax, sparsemax

SCORES = torch.tensor([[0.3, -0.2, 0.9, 0.1]], dtype=torch.float64)
SECOND = {
    "entmax": (lambda alpha: entmax(SCORES, alpha), torch.tensor(1.5).double()),
    "normmax": (lambda alpha: normmax(SCORES, alpha), torch.tensor(1.5).double()),
    "csparsemax": (lambda upper: csparsemax(SCORES, upper), torch.full((1, 4), 0.45).double()),
    "budget": (lambda total: budget(SCORES, total), torch.tensor([2.0]).double()),
}


def test_scores_without_gradient_make_no_node():
    assert sparsemax(SCORES).grad_fn is None
    scores = SCORES.clone().requires_grad_()
    assert sparsemax(scores).grad_fn is not None
    with torch.no_grad():
        assert sparsemax(scores).grad_fn is None


@pytest.mark.parametrize("name", SECOND)
def test_other_inputs_get_gradients_where_scores_need_none(name):
    function, second = SECOND[name]
    assert function(second).grad_fn is None
    second = second.clone().requires_grad_()

    def first_entry(value: Tensor) -> Tensor:
        return function(value)[0, 0]

    (found,) = torch.autograd.grad(first_entry(second), second)
    step = torch.full_like(second, 1e-6)
    with torch.no_grad():
        change = (first_entry(second + step) - first_entry(second - step)) / 2e-6
    torch.testing.assert_close(found.sum(), change, rtol=1e-5, atol=1e-8)
