"""Global scores by hand."""

import math

import pytest
import torch

from repro.decoding import Hypothesis
from repro.decoding.penalties import Penalties, rescored


def hypothesis(log_probability, attention, tokens=(4, 5)):
    return Hypothesis(
        list(tokens), log_probability, True, [0.5] * (len(tokens) + 1), torch.tensor(attention)
    )


FULL = hypothesis(-3.0, [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
DROPPING = hypothesis(-2.0, [[1.0, 0.0], [1.0, 0.0], [0.7, 0.3]])
NOTHING = hypothesis(-1.9, [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])


def test_without_penalties_the_score_is_the_log_probability():
    assert Penalties().score(FULL) == -3.0
    assert rescored([FULL, DROPPING, NOTHING], Penalties()) == [NOTHING, DROPPING, FULL]


def test_length_normalization():
    assert Penalties(length=0.6).score(FULL) == pytest.approx(-3.0 / (8 / 6) ** 0.6)


def test_coverage_penalty():
    assert Penalties(coverage=0.5).score(FULL) == pytest.approx(-3.0)
    assert Penalties(coverage=0.5).score(DROPPING) == pytest.approx(-2.0 + 0.5 * math.log(0.3))
    assert Penalties(coverage=0.5).score(NOTHING) == pytest.approx(-1.9 + 0.5 * math.log(0.1))


def test_a_full_cover_overtakes_a_more_probable_hypothesis():
    assert rescored([NOTHING, DROPPING, FULL], Penalties(coverage=1.0))[0] is FULL


def test_zero_attention_has_a_finite_penalty():
    assert math.isfinite(Penalties(coverage=1.0, floor=1e-3).score(NOTHING))


def test_attention_is_needed_for_coverage_only():
    bare = Hypothesis([4], -1.0, True, [0.5, 0.5])
    assert Penalties(length=1.0).score(bare) == pytest.approx(-1.0 / (7 / 6))
    with pytest.raises(ValueError, match="keep their attention"):
        Penalties(coverage=1.0).score(bare)


def test_floor_must_be_a_penalty():
    with pytest.raises(ValueError, match="floor"):
        Penalties(floor=0.0)
