import pytest
import torch

from repro.data.batching import EncodedPairs, NliBatch, ordered_batches
from repro.data.nli import NliExample
from repro.data.vocabulary import Vocabulary

EXAMPLES = [
    NliExample("a", ("x", "y", "z"), ("x",), 2),
    NliExample("b", ("y",), ("z", "new", "x"), 0),
    NliExample("c", (), ("y", "y"), 1),
]
VOCABULARY = Vocabulary(["<pad>", "<unk>", "<s>", "</s>", "x", "y", "z"])


@pytest.fixture
def pairs() -> EncodedPairs:
    return EncodedPairs(EXAMPLES, VOCABULARY)


def test_collate_pads_both_sentences(pairs):
    batch = pairs.collate([1, 0, 2])
    assert len(batch) == 3
    assert batch.premise.tolist() == [[5, 0, 0], [4, 5, 6], [1, 0, 0]]
    assert batch.hypothesis.tolist() == [[6, 1, 4], [4, 0, 0], [5, 5, 0]]
    assert batch.premise_lengths.tolist() == [1, 3, 1]
    assert batch.hypothesis_lengths.tolist() == [3, 1, 2]
    assert batch.labels.tolist() == [0, 2, 1]
    assert batch.indices.tolist() == [1, 0, 2]
    for name in NliBatch.__dataclass_fields__:
        assert getattr(batch, name).dtype == torch.long


def test_collate_is_as_wide_as_its_longest(pairs):
    batch = pairs.collate([2])
    assert (batch.premise.shape, batch.hypothesis.shape) == ((1, 1), (1, 2))


def test_to_moves_every_field_but_those_read_on_the_host(pairs):
    batch = pairs.collate([0, 1])
    moved = batch.to("meta")
    for name in NliBatch.__dataclass_fields__:
        expected = "cpu" if name in NliBatch.on_host else "meta"
        assert getattr(moved, name).device.type == expected
        assert getattr(moved, name).shape == getattr(batch, name).shape


def test_sort_keys_order_by_premise_then_hypothesis(pairs):
    assert ordered_batches(pairs.sort_keys, 1) == [[2], [1], [0]]
    assert EncodedPairs([], VOCABULARY).sort_keys == []
