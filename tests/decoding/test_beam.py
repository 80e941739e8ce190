import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_models import (
    EOS,
    TOLERANCE,
    TableModel,
    TableState,
    enumerate_strings,
    random_model,
    reference_beam,
    row,
    same_for_all,
    sources,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from repro.decoding import BeamResult, Hypothesis, beam_search, greedy, search

A, B = 4, 5
seeds = st.integers(0, 10**6)
many = settings(max_examples=100, derandomize=True, database=None)


def spelled(hypothesis: Hypothesis) -> tuple[int, ...]:
    return (*hypothesis.tokens, EOS) if hypothesis.finished else tuple(hypothesis.tokens)


def decode(
    model: TableModel, kinds: list[int], beam_size: int, max_length: int
) -> list[BeamResult]:
    return beam_search(model, *sources(kinds), beam_size=beam_size, max_length=max_length)


def check_scores(model: TableModel, kind: int, result: BeamResult) -> None:
    """Every returned hypothesis has nonzero probability, and the one that the tables give."""
    for hypothesis in result.hypotheses:
        previous = [2, *spelled(hypothesis)]
        steps = [
            model.tables[kind, min(t, model.tables.shape[1] - 1), previous[t], previous[t + 1]]
            for t in range(len(previous) - 1)
        ]
        assert hypothesis.step_probabilities == [p.item() for p in steps]
        expected = sum(math.log(p) for p in hypothesis.step_probabilities)
        assert hypothesis.log_probability == pytest.approx(expected, abs=TOLERANCE)
        assert math.isfinite(hypothesis.log_probability)


probabilities = st.sampled_from([0.0, -0.0, 2.0**-149, 1e-30, 0.1, 0.25, 0.5, 1.0])


@settings(many, max_examples=200)
@given(st.lists(probabilities, min_size=1, max_size=12), st.data())
def test_most_probable_orders_by_value_then_by_id(row, data):
    count = data.draw(st.integers(1, len(row)))
    expected = sorted(range(len(row)), key=lambda token: (-row[token], token))[:count]
    assert search.most_probable(torch.tensor([row]), count).tolist() == [expected]


def test_most_probable_reads_rows_that_are_not_contiguous():
    probs = torch.tensor([[0.1, 0.7], [0.2, 0.1], [0.7, 0.2]]).T
    assert search.most_probable(probs, 2).tolist() == [[2, 1], [0, 2]]


def test_the_logarithm_of_zero_is_minus_infinity_and_never_nan():
    logs = search.log_probabilities(torch.tensor([0.0, -0.0, 1.0, 1.0 + 1e-6]))
    assert logs.tolist() == [float("-inf"), float("-inf"), 0.0, 0.0]
    assert logs.dtype == torch.float64


@many
@given(seeds, st.integers(1, 6), st.integers(1, 6), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_agrees_with_a_beam_search_written_with_lists(seed, beam_size, max_length, closed, dead):
    model = random_model(seed, closed=closed, dead=dead)
    for kind, result in enumerate(decode(model, [0, 1, 2], beam_size, max_length)):
        expected = reference_beam(model, kind, beam_size, max_length)
        assert [spelled(h) for h in result.hypotheses] == expected.strings
        assert (result.certified, result.optimal) == (expected.certified, expected.optimal)
        check_scores(model, kind, result)


@many
@given(seeds)
def test_a_large_beam_returns_the_whole_support(seed):
    model = random_model(seed, closed=True)
    for kind, result in enumerate(decode(model, [0, 1, 2], 300, 6)):
        every = enumerate_strings(model, kind, 6).finished
        best_first = sorted(every, key=lambda string: -every[string])
        assert [tuple(h.tokens) for h in result.hypotheses] == best_first
        assert result.certified
        assert sum(h.probability for h in result.hypotheses) == pytest.approx(1.0, abs=1e-5)


@many
@given(seeds, st.integers(1, 8), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_certified_if_and_only_if_the_beam_was_never_exceeded(seed, beam_size, closed, dead):
    model = random_model(seed, closed=closed, dead=dead)
    for kind, result in enumerate(decode(model, [0, 1, 2], beam_size, 6)):
        every = enumerate_strings(model, kind, 6)
        assert result.certified == every.fits(beam_size)
        assert result.single == (every.fits(beam_size) and len(every.finished) == 1)
        if result.certified:
            assert {tuple(h.tokens) for h in result.hypotheses} == set(every.finished)


@many
@given(seeds, st.integers(1, 4), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_optimal_means_no_string_is_more_probable(seed, beam_size, closed, dead):
    model = random_model(seed, closed=closed, dead=dead)
    for kind, result in enumerate(decode(model, [0, 1, 2], beam_size, 6)):
        longest = enumerate_strings(model, kind, 9).finished.values()
        if result.optimal:
            assert result.hypotheses[0].log_probability >= max(longest) - TOLERANCE
        assert result.optimal or not result.certified


def test_the_random_models_cover_every_outcome():
    outcomes = set()
    for seed in range(60):
        for result in decode(random_model(seed, closed=seed % 2 == 0), [0, 1, 2], 2, 5):
            outcomes.add((result.certified, result.optimal, result.single))
    assert outcomes == {
        (True, True, True),
        (True, True, False),
        (False, True, False),
        (False, False, False),
    }


@pytest.mark.parametrize("rows", [[row()], [row(a=1.0), row()]])
def test_no_hypothesis_is_invented_when_all_prefixes_die(rows):
    (result,) = decode(TableModel([same_for_all(*rows)]), [0], 3, 4)
    assert result.hypotheses == []
    assert (result.certified, result.optimal, result.single) == (False, False, False)


@pytest.mark.parametrize(
    ("probabilities", "printed"),
    [([1.0], True), ([0.5, 0.5], False), ([0.6, 0.4], True), ([0.9, 0.05], False), ([], False)],
)
def test_printed_certificates_lose_sets_to_rounding(probabilities, printed):
    """Two halves have log-probabilities of -0.6931472, whose exponentials sum to less than one."""
    found = [Hypothesis([A], math.log(p), True, [p]) for p in probabilities]
    assert BeamResult(found, certified=True, optimal=True).certified_printed is printed
    unfinished = [Hypothesis([A], math.log(p), False, [p]) for p in probabilities]
    assert not BeamResult(unfinished, certified=False, optimal=False).certified_printed


def test_the_smallest_float_counts_as_nonzero():
    tiny = 2.0**-149
    model = TableModel([same_for_all(row(a=1.0, end=tiny), row(end=1.0))])
    (result,) = decode(model, [0], 2, 4)
    assert [h.tokens for h in result.hypotheses] == [[A], []]
    assert result.hypotheses[1].log_probability == pytest.approx(-149 * math.log(2))
    (narrow,) = decode(model, [0], 1, 4)
    assert (narrow.certified, narrow.optimal) == (False, True)


def test_rounding_above_one_never_raises_a_score():
    model = TableModel([same_for_all(row(a=1.0 + 1e-6), row(end=1.0))])
    assert decode(model, [0], 2, 4)[0].hypotheses[0].log_probability == 0.0


def test_ties_go_to_the_better_parent_then_to_the_lower_token():
    table = same_for_all(row(a=0.5, b=0.5), row(a=0.5, b=0.5), row(end=1.0))
    (result,) = decode(TableModel([table]), [0], 3, 5)
    assert [h.tokens for h in result.hypotheses] == [[A, A], [A, B], [B, A]]
    assert not result.certified
    assert result.optimal


@many
@given(seeds)
def test_greedy_takes_the_most_probable_token_at_every_step(seed):
    model = random_model(seed, closed=True)
    for kind, result in enumerate(greedy(model, *sources([0, 1, 2]), max_length=8)):
        tokens, previous = [], 2
        while previous != EOS:
            previous = int(model.tables[kind, len(tokens), previous].argmax())
            tokens.append(previous)
        assert [spelled(h) for h in result.hypotheses] == [tuple(tokens)]


@many
@given(seeds, st.integers(1, 5), st.lists(st.integers(0, 2), min_size=2, max_size=5))
def test_a_sentence_decodes_alike_alone_and_in_a_batch(seed, beam_size, kinds):
    model = random_model(seed, closed=False, dead=0.1)
    lengths = [1 + (seed + i) % 4 for i in range(len(kinds))]
    limits = {"beam_size": beam_size, "max_length": 5}
    together = beam_search(model, *sources(kinds, lengths), keep_attention=True, **limits)
    for kind, length, result in zip(kinds, lengths, together, strict=True):
        (alone,) = beam_search(model, *sources([kind], [length]), keep_attention=True, **limits)
        assert result == alone
        for mine, other in zip(result.hypotheses, alone.hypotheses, strict=True):
            assert torch.equal(mine.attention, other.attention)


@pytest.fixture
def as_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read values in every third step only."""
    monkeypatch.setattr(search, "reads_values", lambda step, device: step % 3 == 0)


@settings(many, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds, st.integers(1, 6), st.integers(1, 8), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_reading_values_less_often_changes_nothing(
    as_on_a_device, seed, beam_size, max_length, closed, dead
):
    model = random_model(seed, closed=closed, dead=dead)
    arguments = {"beam_size": beam_size, "max_length": max_length, "keep_attention": True}
    found = beam_search(model, *sources([0, 1, 2], [1, 3, 2]), **arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "reads_values", lambda step, device: True)
        expected = beam_search(model, *sources([0, 1, 2], [1, 3, 2]), **arguments)
    assert found == expected
    for one, other in zip(found, expected, strict=True):
        for mine, same in zip(one.hypotheses, other.hypotheses, strict=True):
            assert torch.equal(mine.attention, same.attention)


class Readings(TorchDispatchMode):
    """Counts operators whose result, or its shape, depends on values: a device is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        aten = torch.ops.aten
        reads = {
            aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.is_nonzero, aten.equal,
        }  # fmt: skip
        self.count += func.overloadpacket in reads or any(
            one.dtype == torch.bool
            for one in tree_leaves(args[1:])
            if func.overloadpacket in (aten.index, aten.index_put_) and isinstance(one, Tensor)
        )
        return func(*args, **(kwargs or {}))


def test_a_search_on_a_device_waits_for_it_only_where_it_reads_values(as_on_a_device):
    model = random_model(1, closed=False)
    counts = []
    for length in (4, 5, 6, 8):  # the last step of a search reads values as well
        with Readings() as readings:
            decode(model, [0, 1, 2], 5, length)
        counts.append(readings.count)
    assert counts[0] == counts[1] == counts[2] < counts[3]


def test_sources_are_gathered_only_where_the_number_of_prefixes_changes(monkeypatch):
    # Two prefixes from step 1 on, of which the better one lives on after step 6.
    steps = [row(a=0.6, b=0.4), *[row(a=1.0)] * 4, row(a=0.5, end=0.5)]
    model = TableModel([same_for_all(*steps)])
    kept = []

    def select(state: TableState, rows: Tensor, same_sources: bool) -> TableState:
        kept.append(same_sources)
        return whole(state, rows, same_sources)

    whole = TableState.select
    monkeypatch.setattr(TableState, "select", select)
    decode(model, [0, 0], 2, 7)
    assert kept == [False, *[True] * 4, False]
    kept.clear()
    monkeypatch.setattr(search, "reads_values", lambda step, device: step % 3 == 0)
    decode(model, [0, 0], 2, 7)
    assert kept == [False, True, True, False, True, False]  # all slots follow a reading


@pytest.mark.parametrize("bad", [math.nan, -0.5, 2.0])
def test_probabilities_are_checked_where_values_are_read(as_on_a_device, bad):
    a_first = row(a=1.0)
    model = TableModel([same_for_all(a_first, row(end=1.0), row(a=1.0))])
    model.tables[0, 2, EOS] = bad  # what follows the end is computed in vain, and may be anything
    (found,) = decode(model, [0], 2, 7)
    assert found.single
    model.tables[0, 1] = bad
    with pytest.raises(ValueError, match="outside"):
        decode(model, [0], 2, 7)


def test_attention_follows_each_hypothesis_through_the_beam():
    model = random_model(7, closed=True)
    results = beam_search(
        model, *sources([1, 2], [3, 2]), beam_size=4, max_length=6, keep_attention=True
    )
    assert max(len(result.hypotheses) for result in results) > 1
    for kind, width, result in zip([1, 2], [3, 2], results, strict=True):
        for hypothesis in result.hypotheses:
            previous = torch.tensor([2, *hypothesis.tokens])
            stamps = (100 * kind + 10 * torch.arange(len(previous)) + previous).float()
            assert torch.equal(hypothesis.attention, stamps.unsqueeze(1).expand(-1, width))


def test_attention_is_none_unless_asked_for():
    (result,) = decode(random_model(7, closed=True), [0], 4, 6)
    assert all(h.attention is None for h in result.hypotheses)


def test_finished_sentences_cost_no_more_work():
    short = same_for_all(row(end=1.0), row(end=1.0), row(end=1.0))
    long = same_for_all(row(a=1.0), row(a=0.5, b=0.5), row(end=1.0))
    model = TableModel([short, long])
    decode(model, [0, 1, 0, 0], 5, 10)
    assert model.rows_per_step == [4, 1, 2]


@pytest.mark.parametrize("limits", [(0, 5), (5, 0), (-1, 5)])
def test_sizes_below_one_are_refused(limits):
    with pytest.raises(ValueError, match=r"(beam_size|max_length) must be at least 1"):
        decode(random_model(0, closed=True), [0], *limits)


def test_there_is_a_length_for_each_source():
    source, lengths = sources([0, 1])
    with pytest.raises(ValueError, match=r"got \(2, 1\) and \(1,\)"):
        beam_search(random_model(0, closed=True), source, lengths[:1], max_length=3)


def test_no_hypothesis_is_shorter_than_the_least_length():
    first, later = row(a=0.2, b=0.1, end=0.7), row(a=0.3, end=0.7)
    model = TableModel([same_for_all(first, later)])

    def spelled_with(least: int) -> list[tuple[int, ...]]:
        (found,) = beam_search(model, *sources([0]), beam_size=3, max_length=4, min_length=least)
        check_scores(model, 0, found)  # of the model, not divided by the mass that is left
        return [spelled(hypothesis) for hypothesis in found.hypotheses]

    assert spelled_with(0) == spelled_with(1)
    assert (EOS,) in spelled_with(1)
    assert spelled_with(2) == [(A, EOS), (B, EOS), (A, A, EOS)]
    assert spelled_with(4)[0] == (A, A, A, EOS)
    assert all(len(string) >= 3 for string in spelled_with(3))
    with pytest.raises(ValueError, match="min_length 5 exceeds max_length 4"):
        spelled_with(5)


def test_nothing_is_found_where_every_sequence_is_too_short():
    model = TableModel([same_for_all(row(end=1.0))])
    (found,) = beam_search(model, *sources([0]), beam_size=2, max_length=4, min_length=2)
    assert not found.hypotheses
    assert not found.optimal
