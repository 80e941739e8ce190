import pytest
import torch
from table_models import EOS, TableModel, random_model, row, same_for_all, sources

from repro.decoding import beam_search, forced

A, B, PAD = 4, 5, 0


def test_reads_the_distributions_along_the_target():
    model = TableModel([same_for_all(row(a=0.5, b=0.5), row(b=0.25, end=0.75))])
    target = torch.tensor([[A, B, EOS], [B, EOS, PAD]])
    output = forced(model, *sources([0, 0], [2, 1]), target)
    first, later = torch.tensor(row(a=0.5, b=0.5)), torch.tensor(row(b=0.25, end=0.75))
    assert torch.equal(output.probs[0], torch.stack([first, later, later]))
    assert torch.equal(output.probs[1], torch.stack([first, later, torch.zeros(6)]))
    assert output.attention[0].tolist() == [[2.0, 2.0], [14.0, 14.0], [25.0, 25.0]]
    assert output.attention[1].tolist() == [[2.0, 0.0], [15.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("seed", range(10))
def test_agrees_with_the_steps_of_beam_search(seed):
    model = random_model(seed, closed=True)
    for hypothesis in beam_search(model, *sources([1]), max_length=6)[0].hypotheses:
        target = torch.tensor([[*hypothesis.tokens, EOS]])
        probs = forced(model, *sources([1]), target).probs
        picked = probs.gather(2, target.unsqueeze(2)).flatten()
        assert picked.tolist() == hypothesis.step_probabilities


def test_an_empty_target_is_refused():
    with pytest.raises(ValueError, match=r"target must be \(B, T\)"):
        forced(random_model(0, closed=True), *sources([0]), torch.empty(1, 0, dtype=torch.long))


def test_one_target_per_sentence():
    target = torch.tensor([[EOS], [EOS]])
    with pytest.raises(ValueError, match="2 targets for 1 sentence"):
        forced(random_model(0, closed=True), *sources([0]), target)
