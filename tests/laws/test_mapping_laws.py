"""Laws that every mapping in the registry obeys, on drawn scores."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import plain
from tolerances import SUM, assert_close

from repro.mappings import MAPPINGS, entmax

FUNCTIONS = {name: plain(spec.function, spec) for name, spec in MAPPINGS.items()}
for _alpha in (1.001, 1.25, 1.9):
    FUNCTIONS[f"entmax-{_alpha}"] = lambda scores, a=_alpha, **how: entmax(scores, a, **how)
SPARSE = [name for name, spec in MAPPINGS.items() if spec.sparse] + ["entmax-1.25", "entmax-1.9"]
EXCHANGEABLE = [n for n in FUNCTIONS if n not in MAPPINGS or not MAPPINGS[n].sequential]

# Entries are multiples of 1/64: shifts and sums of them are exact in float64.
ENTRIES = st.integers(-640, 640).map(lambda k: k / 64)
ROWS = st.lists(ENTRIES, min_size=1, max_size=12).map(
    lambda row: torch.tensor(row, dtype=torch.float64)
)
EXAMPLES = settings(max_examples=15)
LAW = {torch.float64: 1e-11}


@pytest.fixture(params=FUNCTIONS.values(), ids=FUNCTIONS, scope="module")
def function(request):
    return request.param


@EXAMPLES
@given(scores=ROWS, scale=st.sampled_from([1.0, 1e-9, 1e9]))
def test_a_distribution_at_every_scale(function, scores, scale):
    probs = function(scores * scale)
    assert (probs >= 0).all()
    assert_close(probs.sum(), torch.tensor(1.0), SUM)


@EXAMPLES
@given(scores=ROWS, shift=st.sampled_from([-1e6, -8.0, 0.5, 1e4]))
def test_a_common_shift_changes_nothing(function, scores, shift):
    assert torch.equal(function(scores + shift), function(scores))


@pytest.mark.parametrize("name", EXCHANGEABLE)
@EXAMPLES
@given(scores=ROWS, data=st.data())
def test_a_permutation_permutes(name, scores, data):
    function = FUNCTIONS[name]
    order = torch.tensor(data.draw(st.permutations(range(len(scores)))))
    assert_close(function(scores[order]), function(scores)[order], LAW)


@EXAMPLES
@given(scores=ROWS)
def test_order_is_kept(function, scores):
    ordered = function(scores.sort().values)
    assert (ordered.diff() >= 0).all()


@EXAMPLES
@given(scores=ROWS, data=st.data())
def test_forbidden_by_infinity_by_mask_or_left_out(function, scores, data):
    flags = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    allowed = torch.tensor(flags)
    by_infinity = function(scores.masked_fill(~allowed, -math.inf))
    assert torch.equal(function(scores, mask=allowed), by_infinity)
    assert torch.equal(by_infinity[~allowed], torch.zeros(int((~allowed).sum())).double())
    if allowed.any():
        assert_close(by_infinity[allowed], function(scores[allowed]), LAW)


@EXAMPLES
@given(scores=ROWS)
def test_rows_do_not_see_each_other(function, scores):
    batch = torch.stack([scores, scores.flip(0), scores * 3])
    assert torch.equal(function(batch)[0], function(scores))


@EXAMPLES
@given(scores=ROWS)
def test_every_axis_gives_the_same(function, scores):
    batch = torch.stack([scores, scores.flip(0)])
    assert_close(function(batch.t(), dim=0).t(), function(batch), LAW)
    assert_close(function(batch[:, :, None], dim=-2)[:, :, 0], function(batch), LAW)


@EXAMPLES
@given(scores=ROWS, index=st.integers(0, 11), raised=st.integers(1, 128))
def test_a_larger_score_never_gets_less(function, scores, index, raised):
    index %= len(scores)
    lifted = scores.clone()
    lifted[index] += raised / 64
    assert function(lifted)[index] >= function(scores)[index] - 1e-12


@pytest.mark.parametrize("name", SPARSE)
@EXAMPLES
@given(scores=ROWS)
def test_a_clear_winner_takes_all(name, scores):
    """At a margin of ``1 / (α - 1) <= 4`` the distribution is one-hot, exactly."""
    scores = scores.clone()
    scores[0] = scores.max() + 4
    expected = torch.zeros_like(scores)
    expected[0] = 1
    assert torch.equal(FUNCTIONS[name](scores), expected)


@EXAMPLES
@given(scores=ROWS)
def test_softmax_has_no_zeros_and_the_support_shrinks_with_alpha(scores):
    sizes = [int((entmax(scores, a) > 0).sum()) for a in (1.0, 1.25, 1.5, 1.75, 2.0)]
    assert sizes[0] == len(scores)
    assert sizes == sorted(sizes, reverse=True)
