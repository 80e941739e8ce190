"""Constrained softmax and sparsemax: values, bounds, derivatives, laws, the paper's example."""

import math

import pytest
import torch
from enumeration import box_by_enumeration, csoftmax_by_enumeration
from hard_rows import hard_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from mapping_references import REFERENCES
from pairwise import pairwise
from tolerances import ABSOLUTE, LOSS, SUM, assert_close
from torch.autograd import gradcheck, gradgradcheck
from torch.func import vmap

from repro.mappings import MAPPINGS, Csoftmax, Csparsemax, csoftmax, csparsemax, softmax, sparsemax

INF = math.inf
FLOATS = (torch.float64, torch.float32)
BOUNDED = {name: spec for name, spec in MAPPINGS.items() if spec.bounded}
FUNCTIONS = {name: spec.function for name, spec in BOUNDED.items()}
MODULES = {"csoftmax": Csoftmax(), "csparsemax": Csparsemax()}
ORACLES = {
    "csoftmax": csoftmax_by_enumeration,
    "csparsemax": lambda scores, upper: box_by_enumeration(scores, upper, 1.0),
}


@pytest.fixture(params=FUNCTIONS)
def name(request):
    return request.param


@pytest.fixture
def function(name):
    return FUNCTIONS[name]


@pytest.fixture
def module(name):
    return MODULES[name]


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def draw(*shape, seed=0, least=0.35):
    """Scores, and bounds of which some bind; every three of them sum to more than one."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*shape, generator=generator, dtype=torch.float64)
    upper = torch.rand(*shape, generator=generator, dtype=torch.float64) * 0.4 + least
    return scores.requires_grad_(), upper.requires_grad_()


def test_the_rounds_of_figure_1():
    """Malaviya et al. (2018), Figure 1: the printed scores, unit fertilities, three rounds."""
    rounds = double([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]])
    expected = double([[0.7, 0.3, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]])
    spent = torch.zeros(3, dtype=torch.float64)
    for scores, attention in zip(rounds, expected, strict=True):
        probs = csparsemax(scores, 1 - spent)
        assert_close(probs, attention, ABSOLUTE)
        spent = spent + probs
    assert_close(spent, torch.ones(3), ABSOLUTE)


def test_the_rounds_of_figure_1_with_constrained_softmax():
    """The bounds bind in the last round only, and are then used up exactly."""
    rounds = double([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]])
    first = csoftmax(rounds[0], torch.ones(3))
    assert_close(first, rounds[0].softmax(-1), ABSOLUTE)
    second = csoftmax(rounds[1], 1 - first)
    assert_close(second, rounds[1].softmax(-1), ABSOLUTE)
    left = 1 - first - second
    assert torch.equal(csoftmax(rounds[2], left), left)
    assert not torch.allclose(left, rounds[2].softmax(-1), atol=0.1)


@pytest.mark.parametrize("size", range(1, 6))
def test_every_partition_enumerated(name, size):
    for seed in range(4):
        scores, upper = (t.detach() for t in draw(size, seed=seed, least=1.05 / size))
        if seed == 1 and size > 1:
            upper[0] = INF
        if seed == 2 and size > 2:
            upper[:2] = double([0.0, 1.0])
        assert_close(FUNCTIONS[name](scores, upper), ORACLES[name](scores, upper), ABSOLUTE)


@pytest.mark.parametrize(
    ("size", "dtype", "offset", "room"),
    pairwise([5, 50, 400, 1500], FLOATS, [0.0, 1e4, 1e8], [1 + 1e-5, 1.1, 2.0, 30.0]),
)
def test_hard_rows_at_any_offset(name, size, dtype, offset, room):
    """Bounds from almost exhausted to loose."""
    scores = (3 * hard_rows(size) + offset).to(dtype)
    shares = torch.rand(scores.shape, generator=torch.Generator().manual_seed(size)).double()
    upper = (shares / shares.sum(-1, keepdim=True) * room).to(dtype)
    probs = FUNCTIONS[name](scores, upper)
    # Rounding of the bisection at scores of 3e7.
    bound = {torch.float64: 1e-10, torch.float32: 2e-7}
    assert_close(probs, REFERENCES[name](scores.double(), upper.double()), bound)
    assert_close(probs.double().sum(-1), torch.ones(len(scores)), {torch.float64: 1e-6})
    assert (probs <= upper).all()


@pytest.mark.parametrize(
    ("size", "dtype", "highest"), pairwise([4, 200, 2000], FLOATS, [INF, 1e300, 1e37, 1e9])
)
def test_what_an_entry_far_above_leaves_is_shared_by_the_others(size, dtype, highest):
    scores = torch.full((1, size), -9.0, dtype=dtype)
    scores[0, [0, 1, -2, -1]] = torch.tensor([highest, 1.0, 0.5, -1.0], dtype=dtype)
    probs = csparsemax(scores, torch.full_like(scores, 0.4))
    expected = torch.zeros(1, size, dtype=torch.float64)
    expected[0, [0, 1, -2]] = torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64)
    assert_close(probs, expected, ABSOLUTE)


def test_the_threshold_may_lie_far_below_the_largest_score(function):
    scores, upper = torch.tensor([1000.3, 0.1, -1000.7]), torch.tensor([0.5, 0.25, INF])
    assert torch.equal(function(scores, upper), torch.tensor([0.5, 0.25, 0.25]))
    scores, upper = torch.tensor([1e8, 1.1, 1.0, 0.9]), torch.tensor([0.4, INF, INF, INF])
    expected = {csparsemax: [0.3, 0.2, 0.1], csoftmax: [0.6 * p for p in (0.3672, 0.3322, 0.3006)]}
    assert_close(
        function(scores, upper)[1:], torch.tensor(expected[function]), {torch.float32: 5e-5}
    )


def test_equal_scores_far_from_zero_keep_their_own_bounds(function):
    upper = torch.tensor([0.8, 0.125, 0.9])
    probs = function(torch.full((3,), 1e8), upper)
    assert_close(probs, torch.tensor([0.4375, 0.125, 0.4375]), ABSOLUTE)


def test_without_bounds_it_is_the_parent(name):
    scores = torch.randn(50, 20, generator=torch.Generator().manual_seed(1))
    parent = {"csoftmax": softmax, "csparsemax": sparsemax}[name]
    for bound in (INF, 1.0, 7.5):
        probs = FUNCTIONS[name](scores, torch.full_like(scores, bound))
        assert_close(probs, parent(scores), ABSOLUTE)


def test_exhausted_bounds_give_exact_zeros(function):
    scores = torch.tensor([5.0, 1.0, 0.0, 0.5])
    upper = torch.tensor([0.0, INF, 0.0, INF])
    probs = function(scores, upper)
    assert torch.equal(probs[[0, 2]], torch.zeros(2))
    assert_close(probs[[1, 3]], function(scores[[1, 3]], upper[[1, 3]]), ABSOLUTE)


def test_bounds_that_sum_to_one_are_returned(function):
    upper = torch.tensor([0.125, 0.5, 0.0, 0.375])
    for scores in (torch.randn(4), torch.tensor([INF, 0.0, 3.0, -1e30])):
        assert torch.equal(function(scores, upper), upper)
    ninths = torch.full((9,), 1 / 9)
    assert torch.equal(function(torch.randn(9), ninths), ninths)


def test_infinite_scores_share_within_their_bounds(function):
    rows = [
        ([INF, 0.0, INF], [0.5, INF, INF], [0.5, 0.0, 0.5]),
        ([INF, 0.0, INF], [0.25, INF, 1.0], [0.25, 0.0, 0.75]),
        ([INF, 0.0, INF], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]),
        ([INF, -INF, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]),
    ]
    for scores, upper, expected in rows:
        assert torch.equal(function(*map(torch.tensor, (scores, upper))), torch.tensor(expected))


def test_finite_scores_beside_a_bounded_infinity_keep_their_differences():
    probs = csoftmax(torch.tensor([INF, 1.0, 0.0]), torch.tensor([0.5, INF, INF]))
    assert_close(probs[1:], torch.tensor([1.0, 0.0]).softmax(-1) / 2, ABSOLUTE)


def test_bad_rows_keep_to_themselves(function):
    scores = torch.tensor([[-INF] * 3, [math.nan, 0.0, 1.0], [0.3, -0.2, 0.1]])
    upper = torch.tensor([[0.0, 0.0, 0.0], [0.6, 0.6, 0.6], [0.2, 0.5, 0.4]])
    probs = function(scores, upper)
    assert torch.equal(probs[0], torch.zeros(3))
    assert probs[1].isnan().all()
    assert torch.equal(probs[2], function(scores[2], upper[2]))


def test_bounds_under_the_mask_are_not_seen(function):
    scores, mask = torch.randn(4), torch.tensor([True, True, False, False])
    upper = torch.tensor([0.7, 0.6, math.nan, -3.0])
    probs = function(scores, upper, mask=mask)
    assert torch.equal(probs[:2], function(scores[:2], upper[:2]))
    assert torch.equal(probs[2:], torch.zeros(2))


def test_infeasible_bounds_are_refused_with_row_and_sum(function):
    upper = torch.tensor([0.5, 0.25, 0.25]).repeat(2, 3, 1)
    upper[1, 2, 1] = 0.0
    with pytest.raises(ValueError, match=r"sums to 0\.75 over .* of row \(1, 2\)"):
        function(torch.zeros(2, 3, 3), upper)
    with pytest.raises(ValueError, match=r"sums to 0\.75 over .* of row \(1, 2\)"):
        function(torch.zeros(2, 3, 3).movedim(-1, 0), upper.movedim(-1, 0), dim=0)
    mask = torch.tensor([True, True, False])
    with pytest.raises(ValueError, match=r"sums to 0\.75 over .* of row \(0,\)"):
        function(torch.zeros(1, 3), torch.tensor([0.5, 0.25, 0.25]), mask=mask)


@pytest.mark.parametrize("bad", [-0.25, math.nan, -INF])
def test_negative_and_nan_bounds_are_refused(function, bad):
    upper = torch.tensor([[1.0, 1.0], [1.0, bad]])
    message = rf"upper must be at least 0, got {bad:g} at entry 1 of row \(1,\)"
    for scores, bounds, dim in ((torch.zeros(2, 2), upper, -1), (torch.zeros(2, 2), upper.T, 0)):
        with pytest.raises(ValueError, match=message):
            function(scores, bounds, dim=dim)


def test_bounds_of_a_wrong_kind_are_refused(function):
    with pytest.raises(TypeError, match=r"upper must be a floating point .*, got torch\.bool"):
        function(torch.zeros(3), torch.ones(3, dtype=torch.bool))
    for dtype in (torch.float32, torch.float16):
        with pytest.raises(TypeError, match="upper must be a floating point tensor, got float"):
            function(torch.zeros(3, dtype=dtype), 0.5)
    with pytest.raises(ValueError, match="does not broadcast"):
        function(torch.zeros(2, 3), torch.ones(2))


def test_rounding_of_the_bounds_is_forgiven(function):
    eps = torch.finfo(torch.float32).eps
    scores = torch.tensor([0.1, 0.2, 0.3])
    upper = torch.tensor([0.5 - 2 * eps, 0.5, -eps])
    assert torch.equal(function(scores, upper), upper.clamp(min=0))
    with pytest.raises(ValueError, match="sums to"):
        function(scores, torch.tensor([0.5 - 8 * eps, 0.5, 0.0]))
    with pytest.raises(ValueError, match="at least 0"):
        function(scores, torch.tensor([1.0, 0.5, -8 * eps]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fertilities_can_be_spent_to_the_end(function, dtype):
    """Rounding accumulates in the bounds over as many rounds as words; no round is refused."""
    words = 25
    spent = torch.zeros(4, words, dtype=dtype)
    for _ in range(words):
        spent = spent + function(torch.randn(4, words, dtype=dtype) * 2, 1 - spent)
    room = words * torch.finfo(dtype).eps
    assert (spent - 1).abs().max() <= room


def test_where_values_are_not_read_bad_rows_are_nan(function):
    scores = torch.zeros(4, 2)
    upper = torch.tensor([[0.5, 0.25], [-0.5, 2.0], [math.nan, 2.0], [0.5, 0.75]])
    mapped = vmap(function)(scores, upper)
    compiled = torch.compile(function, fullgraph=True, backend="eager")(scores, upper)
    for probs in (mapped, compiled):
        assert probs[:3].isnan().all()
        assert_close(probs[3], torch.full((2,), 0.5), ABSOLUTE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_types_are_computed_in_single_precision(function, dtype):
    scores = (torch.randn(20, 50) * 2).to(dtype).requires_grad_()
    upper = (0.04 * (1 + torch.rand(20, 50))).to(dtype).requires_grad_()
    probs = function(scores, upper)
    assert probs.dtype == dtype
    assert torch.equal(probs, function(scores.float(), upper.float()).to(dtype))
    assert (probs <= upper).all()
    probs.square().sum().backward()
    assert scores.grad.dtype == upper.grad.dtype == dtype


@pytest.mark.parametrize("dim", [-2, 0, 2])
def test_gradients_on_every_dim(function, dim):
    scores, upper = draw(4, 3, 5, seed=3)
    probs = function(scores, upper, dim=dim)
    assert (probs == upper).any()
    assert gradcheck(lambda s, u: function(s, u, dim=dim), (scores, upper))


def test_second_derivatives(function, module):
    scores, upper = draw(4, 5, seed=4, least=0.22)
    assert gradgradcheck(function, (scores, upper))
    assert gradgradcheck(module.value, (scores, upper))


def test_gradients_under_a_mask_and_with_one_row_of_bounds(function):
    scores, upper = draw(3, 5, seed=5, least=0.4)
    mask = torch.tensor([True, False, True, True, True])
    shared = upper[0].detach().requires_grad_()
    assert gradcheck(lambda s, u: function(s, u, mask=mask), (scores, shared))
    function(scores, shared, mask=mask).square().sum().backward()
    assert torch.equal(scores.grad[:, 1], torch.zeros(3, dtype=torch.float64))
    assert shared.grad[1] == 0


def test_an_exhausted_bound_gets_the_derivative_from_the_right(function):
    scores = double([1.0, 0.5, -4.0, 0.2])
    upper = double([0.0, 0.6, 0.0, 1.0]).requires_grad_()
    weights = double([3.0, 1.0, 2.0, -1.0])
    (grad,) = torch.autograd.grad((function(scores, upper) * weights).sum(), upper)
    step = 1e-7
    for index in (0, 2):
        raised = upper.detach().clone()
        raised[index] += step
        slope = ((function(scores, raised) - function(scores, upper)) * weights).sum() / step
        assert_close(grad[index], slope.detach(), {torch.float64: 1e-5})


def test_at_a_corner_the_derivative_is_zero(function):
    upper = double([0.25, 0.75, 0.0]).requires_grad_()
    scores = double([1.0, 2.0, 3.0]).requires_grad_()
    grads = torch.autograd.grad(function(scores, upper)[0], (scores, upper))
    assert all(torch.equal(grad, torch.zeros(3, dtype=torch.float64)) for grad in grads)


def test_value_is_the_maximum_and_its_gradient_the_distribution(module):
    scores, upper = draw(5, seed=10, least=0.22)
    best, probs = module.value(scores, upper), module(scores, upper)
    assert torch.equal(module.omega(torch.eye(3)), torch.zeros(3))
    assert_close((probs * scores).sum() - module.omega(probs), best, LOSS)
    trials = torch.distributions.Dirichlet(torch.full((5,), 2.0, dtype=torch.float64))
    trials = trials.sample((3000,))
    trials = trials[(trials <= upper).all(-1)]
    assert len(trials) > 10
    assert ((trials * scores).sum(-1) - module.omega(trials) <= best + 1e-12).all()
    (grad,) = torch.autograd.grad(best, scores)
    assert torch.equal(grad, probs)


@pytest.mark.parametrize("dim", [0, -1])
def test_value_has_the_multipliers_as_gradient_in_the_bounds(module, dim):
    scores, upper = draw(4, 5, seed=11)
    assert gradcheck(lambda s, u: module.value(s, u, dim=dim), (scores, upper))
    (grad,) = torch.autograd.grad(module.value(scores, upper, dim=dim).sum(), upper)
    met = module(scores, upper, dim=dim) == upper
    assert (grad[met] >= 0).all()
    assert torch.equal(grad[~met], torch.zeros(int((~met).sum()), dtype=torch.float64))


def test_value_without_bounds_is_that_of_the_parent(name, module):
    scores = torch.randn(4, 5, dtype=torch.float64) + 1e4
    parent = {"csoftmax": "softmax", "csparsemax": "sparsemax"}[name]
    expected = MAPPINGS[parent].module().value(scores)
    assert_close(module.value(scores, torch.full_like(scores, INF)), expected, LOSS)


def test_value_at_the_edges(module):
    scores = torch.tensor([[-INF, -INF], [INF, 0.0], [INF, 2.0], [3.0, 1.0]])
    upper = torch.tensor([[1.0, 1.0], [0.5, 1.0], [0.0, 1.0], [0.25, 0.75]]).requires_grad_()
    values = module.value(scores, upper)
    corner = 3 * 0.25 + 1 * 0.75 - module.omega(torch.tensor([0.25, 0.75]))
    assert_close(values, torch.tensor([-INF, INF, 2.0, corner]), LOSS)
    (grad,) = torch.autograd.grad(values[2:].sum(), upper)
    assert grad.isfinite().all()
    assert torch.equal(grad[3], torch.zeros(2))


# Entries are multiples of 1/64: sums of them are exact in float64.
SCORES = st.integers(-320, 320).map(lambda k: k / 64)
BOUNDS = st.sampled_from([0.0, 1 / 64, 0.125, 0.25, 0.5, 1.0, INF])
ROWS = (
    st.lists(st.tuples(SCORES, BOUNDS), min_size=1, max_size=10)
    .filter(lambda row: sum(bound for _, bound in row) >= 1)
    .map(lambda row: double(row).unbind(-1))
)
EXAMPLES = settings(max_examples=40, deadline=None)
LAWS = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


@LAWS
@EXAMPLES
@given(row=ROWS, scale=st.sampled_from([1.0, 1e-9, 1e9]))
def test_a_distribution_under_its_bounds_at_every_scale(function, row, scale):
    scores, upper = row
    probs = function(scores * scale, upper)
    assert (probs >= 0).all()
    assert (probs <= upper).all()
    assert_close(probs.sum(), torch.tensor(1.0), SUM)


@LAWS
@EXAMPLES
@given(row=ROWS, shift=st.sampled_from([-1e6, -8.0, 0.5, 1e4]))
def test_a_common_shift_changes_nothing(function, row, shift):
    scores, upper = row
    assert torch.equal(function(scores + shift, upper), function(scores, upper))


@EXAMPLES
@given(row=ROWS)
def test_free_entries_keep_the_odds_of_softmax(row):
    scores, upper = row
    probs = csoftmax(scores, upper)
    free = (probs < upper) & (probs > 0)
    logs = probs[free].log() - scores[free]
    assert free.sum() == 0 or (logs - logs[0]).abs().max() < 1e-9
    full = (probs == upper) & (upper > 0)
    if free.any():
        assert (upper[full].log() - scores[full] <= logs[0] + 1e-9).all()


@EXAMPLES
@given(row=ROWS)
def test_free_entries_keep_the_differences_of_the_scores(row):
    scores, upper = row
    probs = csparsemax(scores, upper)
    free = (probs < upper) & (probs > 0)
    levels = scores[free] - probs[free]
    assert free.sum() == 0 or (levels - levels[0]).abs().max() < 1e-12
    full = (probs == upper) & (upper > 0)
    if free.any():
        assert (scores[full] - upper[full] >= levels[0] - 1e-12).all()
        assert (scores[(probs == 0) & (upper > 0)] <= levels[0] + 1e-12).all()
