"""Kernels of bounded and grouped mappings and of sq-pnorm-max against PyTorch and references."""

import math
from dataclasses import dataclass

import pytest
import torch
from hard_rows import hard_rows
from pairwise import pairwise
from tolerances import ABSOLUTE, GRADIENT, SUM, assert_close

from repro.mappings import (
    MAPPINGS,
    budget,
    csoftmax,
    csparsemax,
    fusedmax,
    oscarmax,
    sq_pnorm_max,
)
from repro.mappings.kernels import dispatch

pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("poisoned")
SIZES = (1, 2, 63, 100, 129, 1000)
FLOATS = (torch.float64, torch.float32)
INF = math.inf
SAME = {torch.float64: 1e-11, torch.float32: 1e-5}
"""Largest difference between the two paths."""


@dataclass(frozen=True)
class Case:
    """A mapping with the parameters that it is differentiated in."""

    function: object
    parameters: object = lambda scores: ()


def some_bounds(scores):
    """Bounds of which some are met, some exhausted, one infinite, and one off by rounding."""
    generator = torch.Generator().manual_seed(scores.size(-1))
    size = scores.size(-1)
    spread = torch.rand(scores.shape, generator=generator, dtype=torch.float64)
    upper = (1.2 / size) * (1 + 3 * spread)
    if size > 2:
        upper[..., 1], upper[..., -1] = 0.0, INF
    if size > 50:
        upper[..., 2] = -torch.finfo(scores.dtype).eps
    return upper.to(scores.dtype)


def numbers(low, high):
    def parameters(scores):
        count = scores.shape[0]
        return (torch.linspace(low, high, count, dtype=scores.dtype)[:, None],)

    return parameters


CASES = {
    "csoftmax": Case(csoftmax, lambda scores: (some_bounds(scores),)),
    "csparsemax": Case(csparsemax, lambda scores: (some_bounds(scores),)),
    "budget": Case(lambda scores: budget(scores, 0.7)),
    "budget-rows": Case(budget, numbers(0.2, 1.0)),
    "fusedmax": Case(fusedmax),
    "fusedmax-strong": Case(lambda scores: fusedmax(scores, 2.0)),
    "oscarmax": Case(oscarmax),
    "oscarmax-strong": Case(lambda scores: oscarmax(scores, 0.2)),
    "sq_pnorm_max": Case(sq_pnorm_max),
    "sq_pnorm_max-1.8": Case(lambda scores: sq_pnorm_max(scores, 1.8)),
}
HARD = {
    "csoftmax": MAPPINGS["csoftmax"].reference,
    "csparsemax": MAPPINGS["csparsemax"].reference,
}


@pytest.fixture(params=CASES)
def name(request):
    return request.param


def rows_of(size, dtype):
    generator = torch.Generator().manual_seed(size)
    scores = torch.randn(9, size, generator=generator, dtype=torch.float64) * 2
    scores[-1] *= 0.1
    return scores.to(dtype)


def results(function, scores, parameters, transform=lambda tensor: tensor):
    """The distribution and the gradients in scores and parameters."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (scores, *parameters)]
    probs = function(*map(transform, leaves))
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(scores.shape, generator=generator, dtype=torch.float64)
    transformed = transform(weights.to(scores.dtype))
    return transform(probs), *torch.autograd.grad(probs, leaves, transformed)


def in_torch(*arguments):
    """Compute a mapping without kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "has_kernel", lambda tensor: False)
        patch.setattr("repro.mappings._segments.AVAILABLE", False)
        return results(*arguments)


@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients_of_the_path_in_torch(name, size):
    case, scores = CASES[name], rows_of(size, torch.float64)
    parameters = case.parameters(scores)
    found = results(case.function, scores, parameters)
    expected = in_torch(case.function, scores, parameters)
    for actual, wanted in zip(found, expected, strict=True):
        assert_close(actual, wanted, SAME)


@pytest.mark.parametrize("size", SIZES)
def test_single_precision(name, size):
    case, scores = CASES[name], rows_of(size, torch.float32)
    parameters = case.parameters(scores)
    found = results(case.function, scores, parameters)
    wide = [parameter.double().clamp(min=0) for parameter in parameters]
    expected = in_torch(case.function, scores.double(), wide)
    assert found[0].dtype == torch.float32
    assert_close(found[0], expected[0], ABSOLUTE)
    assert ((found[0] == 0) == (expected[0].float() == 0)).all()
    # Where a row's mass is on a few entries whose share is close to a corner, one rounding of it
    # is a large one of the rest.
    assert_close(found[1], expected[1], {torch.float32: 2e-4})


@pytest.mark.parametrize(
    ("size", "bounded", "offset", "room"),
    pairwise([50, 600], ["csoftmax", "csparsemax"], [0.0, 1e4, 1e8], [1 + 1e-5, 1.1, 2.0, 30.0]),
)
def test_bounds_from_almost_exhausted_to_loose(size, bounded, offset, room):
    scores = (3 * hard_rows(size) + offset).float()
    shares = torch.rand(scores.shape, generator=torch.Generator().manual_seed(size))
    upper = (shares.double() / shares.double().sum(-1, keepdim=True) * room).float()
    probs = CASES[bounded].function(scores, upper)
    assert_close(probs, HARD[bounded](scores.double(), upper.double()), ABSOLUTE)
    assert_close(probs.double().sum(-1), torch.ones(len(scores)), {torch.float64: 1e-6})
    assert (probs <= upper).all()


@pytest.mark.parametrize(
    ("function", "size", "offset", "strength"),
    pairwise([fusedmax, oscarmax], [100, 400], [0.0, 1e4], [0.1, 1.0, 30.0]),
)
def test_hard_rows_in_groups(function, size, offset, strength):
    def mapping(rows):
        return function(rows, strength / (10 if function is fusedmax else 100))

    scores = hard_rows(size) + offset
    expected = in_torch(mapping, scores, ())[0]
    assert_close(mapping(scores), expected, ABSOLUTE)
    single = mapping(scores.float())
    assert_close(single, mapping(scores.float().double()), ABSOLUTE)
    assert_close(single.sum(-1), torch.ones(len(scores)), SUM)


def test_strides_do_not_matter(name):
    case, scores = CASES[name], rows_of(12, torch.float32)
    parameters = case.parameters(scores)
    found = results(case.function, scores, parameters)
    strided = results(
        lambda *tensors: case.function(*(tensor.t().contiguous().t() for tensor in tensors)),
        scores,
        parameters,
    )
    for actual, wanted in zip(strided, found, strict=True):
        assert torch.equal(actual, wanted)


def test_the_same_bits_for_any_number_of_threads(name):
    scores = torch.randn(400, 700)
    parameters = CASES[name].parameters(scores)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(results(CASES[name].function, scores, parameters))
    finally:
        torch.set_num_threads(before)
    for actual, wanted in zip(*found, strict=True):
        assert torch.equal(actual, wanted)


def test_gradients_that_do_not_count_are_not_read(name):
    """NaN in the gradient of an entry without mass stays there."""
    case, scores = CASES[name], rows_of(63, torch.float64)
    scores[:, 5] = -INF
    leaf = scores.requires_grad_()
    probs = case.function(leaf, *case.parameters(scores))
    weights = torch.ones_like(probs)
    weights[:, 5] = math.nan
    (grad,) = torch.autograd.grad(probs, leaf, weights)
    assert grad.isfinite().all()
    assert torch.equal(grad[:, 5], torch.zeros(9, dtype=torch.float64))


def test_bad_rows_keep_to_themselves(name):
    scores = rows_of(100, torch.float32)
    scores[1], scores[3, 7], scores[5, 9] = -INF, math.nan, INF
    parameters = CASES[name].parameters(scores)
    probs = CASES[name].function(scores, *parameters)
    assert torch.equal(probs[1], torch.zeros(100))
    assert probs[3].isnan().all()
    others = [0, 2, 4, 6, 7, 8]
    alone = CASES[name].function(scores[others], *(p[others] for p in parameters))
    assert torch.equal(probs[others], alone)
    assert probs[5].isfinite().all()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # in dynamo
def test_compiled(name):
    torch._dynamo.reset()
    case, scores = CASES[name], rows_of(12, torch.float32)
    parameters = case.parameters(scores)
    compiled = torch.compile(case.function, fullgraph=True, backend="aot_eager")
    found = results(compiled, scores, parameters)
    for actual, wanted in zip(found, results(case.function, scores, parameters), strict=True):
        assert torch.equal(actual, wanted)


def operator_calls():
    scores, grad = torch.randn(4, 9), torch.randn(4, 9)
    upper, place = torch.rand(4, 9) + 0.2, torch.randint(0, 3, (4, 9), dtype=torch.uint8)
    probs = scores.softmax(-1)
    groups = torch.arange(9, dtype=torch.int32).expand(4, 9) // 3
    return {
        "bounded_forward": (scores, upper, 1.0, 1e-6),
        "budget_forward": (scores, 2.0),
        "budget_forward_rows": (scores, torch.rand(4) + 1.2),
        "bounded_backward": (probs, place, grad, 0.0, True, False),
        "fusedmax_forward": (scores, 0.1),
        "oscarmax_forward": (scores, 0.1),
        "grouped_backward": (probs, groups, grad),
        "sq_pnorm_max_forward": (scores, 1.5),
        "sq_pnorm_max_backward": (probs, grad, 1.5),
    }


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # in dynamo
@pytest.mark.parametrize("operator", operator_calls())
def test_operators(operator):
    torch.library.opcheck(getattr(torch.ops.repro, operator).default, operator_calls()[operator])


def test_gradients_of_bounds_and_totals_are_made_where_wanted():
    place, grad = torch.tensor([[1, 2, 0], [2, 2, 0]], dtype=torch.uint8), torch.randn(2, 3)
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    empty = torch.ops.repro.bounded_backward(probs, place, grad, 1.0, False, False)
    full = torch.ops.repro.bounded_backward(probs, place, grad, 1.0, True, True)
    assert [tensor.shape for tensor in empty[1:]] == [(0,), (0,)]
    assert torch.equal(empty[0], full[0])
    expected = torch.tensor([[0.0, grad[0, 1] - grad[0, 0], 0.0], [0.0, 0.0, 0.0]])
    assert_close(full[1], expected, GRADIENT)
    assert_close(full[2], torch.tensor([grad[0, 0], 0.0]), GRADIENT)


@pytest.mark.parametrize("order", [0.0, 1.0])
def test_faulty_rows_are_counted_and_nan(order):
    upper = torch.tensor([[0.5, 0.25], [-0.5, 2.0], [math.nan, 2.0], [0.5, 0.75]])
    probs, _, faults = torch.ops.repro.bounded_forward(torch.zeros(4, 2), upper, order, 1e-6)
    assert faults.item() == 3
    assert probs[:3].isnan().all()
    assert_close(probs[3], torch.full((2,), 0.5), ABSOLUTE)


@pytest.mark.parametrize("highest", [INF, 1e300, 1e37, 1e9])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [4, 200, 2000])
def test_what_an_entry_far_above_leaves_is_shared_by_the_others(size, dtype, highest):
    scores = torch.full((1, size), -9.0, dtype=dtype)
    scores[0, [0, 1, -2, -1]] = torch.tensor([highest, 1.0, 0.5, -1.0], dtype=dtype)
    probs = csparsemax(scores, torch.full_like(scores, 0.4))
    expected = torch.zeros(1, size, dtype=torch.float64)
    expected[0, [0, 1, -2]] = torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64)
    assert_close(probs, expected, ABSOLUTE)


def test_totals_that_cannot_be_spent_are_counted():
    totals = torch.tensor([3.0, -1.0, math.nan, 1.5, 2.0])
    probs, _, faults = torch.ops.repro.budget_forward_rows(torch.zeros(5, 2), totals)
    assert faults.item() == 3
    assert probs[:3].isnan().all()
    assert torch.equal(probs[3:], torch.tensor([[0.75, 0.75], [1.0, 1.0]]))
