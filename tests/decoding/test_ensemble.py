from dataclasses import dataclass

import pytest
import torch
from table_models import FLOAT32_TOLERANCE, TableModel, random_model, row, same_for_all, sources
from torch import Tensor

from repro.decoding import Ensemble, StepOutput, beam_search

A, B = 4, 5


@dataclass(frozen=True)
class Rows:
    count: int
    width: int

    def select(self, rows: Tensor, same_sources: bool = False) -> "Rows":
        return Rows(len(rows), self.width)


class Constant:
    """Model with another kind of state: one distribution for everything."""

    def __init__(self, probs: list[float]) -> None:
        self.probs = torch.tensor(probs)

    def start(self, source: Tensor, source_lengths: Tensor) -> Rows:
        return Rows(*source.shape)

    def step(self, state: Rows, previous: Tensor) -> StepOutput[Rows]:
        probs = self.probs.expand(state.count, -1)
        return StepOutput(probs, torch.zeros(state.count, state.width), state)


@pytest.mark.parametrize("copies", [1, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_a_model_with_itself_is_itself(seed, copies):
    model = random_model(seed, closed=True)
    limits = {"beam_size": 4, "max_length": 6, "keep_attention": True}
    alone = beam_search(model, *sources([0, 1, 2]), **limits)
    assert beam_search(Ensemble([model] * copies), *sources([0, 1, 2]), **limits) == alone


def test_probabilities_and_attention_are_averaged_at_each_step():
    members = [random_model(seed, closed=True) for seed in (1, 2, 3)]
    source, lengths = sources([0, 2, 1], [2, 3, 1])
    ensemble = Ensemble(members)
    state, previous = ensemble.start(source, lengths), torch.tensor([2, 2, 2])
    states = [member.start(source, lengths) for member in members]
    for following in ([1, 0, 0, 2], [3, 1]):
        output = ensemble.step(state, previous)
        each = [m.step(s, previous) for m, s in zip(members, states, strict=True)]
        probs = sum(one.probs for one in each) / 3
        attention = sum(one.attention for one in each) / 3
        torch.testing.assert_close(output.probs, probs, rtol=0, atol=FLOAT32_TOLERANCE)
        torch.testing.assert_close(output.attention, attention)
        rows = torch.tensor(following)
        previous = torch.tensor([A, B, A, B])[: len(rows)]
        state = output.state.select(rows)
        states = [one.state.select(rows) for one in each]


def test_the_average_of_probabilities_is_not_the_product():
    first = TableModel([same_for_all(row(a=1.0), row(end=1.0))])
    second = TableModel([same_for_all(row(b=0.75, end=0.25), row(end=1.0))])
    (result,) = beam_search(Ensemble([first, second]), *sources([0]), max_length=4)
    assert [h.tokens for h in result.hypotheses] == [[A], [B], []]
    assert [h.step_probabilities[0] for h in result.hypotheses] == [0.5, 0.375, 0.125]
    assert result.certified


def test_members_may_differ_in_kind():
    table = TableModel([same_for_all(row(a=1.0), row(end=1.0))])
    ensemble = Ensemble([table, Constant(row(end=1.0))])
    (result,) = beam_search(ensemble, *sources([0]), max_length=4, keep_attention=True)
    assert [h.tokens for h in result.hypotheses] == [[], [A]]
    assert result.hypotheses[1].attention.tolist() == [[2 / 2], [14 / 2]]


def test_members_must_share_the_vocabulary_size():
    ensemble = Ensemble([random_model(0, closed=True), Constant([0.25] * 4)])
    with pytest.raises(ValueError, match=r"differ in vocabulary size: \[6, 4\]"):
        beam_search(ensemble, *sources([0]), max_length=4)


def test_no_model_is_refused():
    with pytest.raises(ValueError, match="at least one model"):
        Ensemble([])
