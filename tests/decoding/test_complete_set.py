import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import (
    TOLERANCE,
    TableModel,
    enumerate_strings,
    random_model,
    row,
    same_for_all,
    sources,
)

from repro.decoding import complete_set

A, B = 4, 5
many = settings(max_examples=100, derandomize=True, database=None)


@many
@given(st.integers(0, 10**6))
def test_lists_every_string_with_its_probability(seed):
    model = random_model(seed, closed=True)
    for kind, found in enumerate(complete_set(model, *sources([0, 1, 2]), max_length=6)):
        every = enumerate_strings(model, kind, 6).finished
        listed = {tuple(h.tokens): h.log_probability for h in found.hypotheses}
        assert len(listed) == len(found.hypotheses)
        assert listed == pytest.approx(every, abs=TOLERANCE)
        assert list(listed.values()) == sorted(listed.values(), reverse=True)
        assert found.finite
        assert found.normalized
        assert all(h.finished for h in found.hypotheses)


@many
@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_finite_if_and_only_if_both_limits_hold(seed, limit, closed, dead):
    model = random_model(seed, closed=closed, dead=dead)
    sets = complete_set(model, *sources([0, 1, 2]), max_hypotheses=limit, max_length=5)
    for kind, found in enumerate(sets):
        every = enumerate_strings(model, kind, 5)
        assert found.finite == (every.most_at_once <= limit and not every.live_at_end)
        assert {tuple(h.tokens) for h in found.hypotheses} <= set(every.finished)
        assert len(found.hypotheses) <= limit
        if found.finite:
            assert len(found.hypotheses) == len(every.finished)


def test_a_sentence_that_is_given_up_leaves_the_others_alone():
    endless = same_for_all(row(a=0.5, b=0.25, end=0.25))
    model = TableModel([endless, same_for_all(row(a=1.0))])
    model.tables[1, 0, A] = torch.tensor(row(end=1.0))
    first, second = complete_set(model, *sources([0, 1]), max_hypotheses=10, max_length=8)
    assert not first.finite
    assert [h.tokens for h in first.hypotheses] == [[], [A], [B]]
    assert first.mass == pytest.approx(0.25 + 0.25 * 0.5 + 0.25 * 0.25)
    assert not first.normalized
    assert second.finite
    assert [h.tokens for h in second.hypotheses] == [[A]]
    assert model.rows_per_step == [2, 3, 4]


def test_mass_is_lost_where_a_row_is_zero():
    table = same_for_all(row(a=0.5, b=0.5), row(end=1.0))
    table[1][A] = row()
    (found,) = complete_set(TableModel([table]), *sources([0]), max_length=4)
    assert found.finite
    assert found.mass == 0.5
    assert not found.normalized


def test_the_same_alone_and_in_a_batch_with_attention():
    model = random_model(11, closed=True)
    limits = {"max_length": 6, "keep_attention": True}
    together = complete_set(model, *sources([0, 1, 2], [1, 3, 2]), **limits)
    for kind, length in ((0, 1), (1, 3), (2, 2)):
        (alone,) = complete_set(model, *sources([kind], [length]), **limits)
        assert together[kind] == alone
        for mine, other in zip(together[kind].hypotheses, alone.hypotheses, strict=True):
            assert torch.equal(mine.attention, other.attention)
            assert mine.attention.shape == (len(mine.tokens) + 1, length)


@pytest.mark.parametrize("name", ["max_hypotheses", "max_length"])
def test_sizes_below_one_are_refused(name):
    limits = {"max_hypotheses": 10, "max_length": 10, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        complete_set(random_model(0, closed=True), *sources([0]), **limits)
