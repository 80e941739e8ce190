from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repro.data.batching import (
    POOL_BATCHES,
    EncodedPairs,
    collate,
    collate_trees,
    epoch_batches,
    ordered_batches,
    word_batches,
)
from repro.data.dependencies.trees import Tree
from repro.data.nli import NliExample
from repro.data.pair import Pair
from repro.data.vocabulary import SPECIALS, Vocabulary

PAIRS = [Pair([4, 5, 6], [7]), Pair([8], [9, 10]), Pair([4, 4], [])]
EXAMPLES = [
    NliExample("a", ("x", "y", "z"), ("x",), 2),
    NliExample("b", ("y",), ("z", "new", "x"), 0),
    NliExample("c", (), ("y", "y"), 1),
]
VOCABULARY = Vocabulary([*SPECIALS, "x", "y", "z"])
TREES = [Tree([7, 8], [5, 6], [2, 0]), Tree([9], [5], [0])]
lengths_lists = st.lists(st.integers(1, 20), max_size=60)


def test_collate_pads_and_ends_targets():
    batch = collate(PAIRS, [1, 0, 2])
    assert len(batch) == 3
    assert batch.source.tolist() == [[8, 0, 0], [4, 5, 6], [4, 4, 0]]
    assert batch.target.tolist() == [[9, 10, 3], [7, 3, 0], [3, 0, 0]]
    assert batch.source_lengths.tolist() == [1, 3, 2]
    assert batch.indices.tolist() == [1, 0, 2]
    assert {batch.source.dtype, batch.target.dtype, batch.indices.dtype} == {torch.long}


def test_mask_is_true_on_real_symbols():
    batch = collate(PAIRS, [0, 1])
    assert batch.source_mask.tolist() == [[True, True, True], [True, False, False]]


def test_collate_pads_both_sentences():
    pairs = EncodedPairs(EXAMPLES, VOCABULARY)
    batch = pairs.collate([1, 0, 2])
    assert len(batch) == 3
    assert batch.premise.tolist() == [[5, 0, 0], [4, 5, 6], [1, 0, 0]]
    assert batch.hypothesis.tolist() == [[6, 1, 4], [4, 0, 0], [5, 5, 0]]
    assert batch.premise_lengths.tolist() == [1, 3, 1]
    assert batch.hypothesis_lengths.tolist() == [3, 1, 2]
    assert batch.labels.tolist() == [0, 2, 1]
    assert batch.indices.tolist() == [1, 0, 2]
    assert {tensor.dtype for tensor in vars(batch).values()} == {torch.long}
    short = pairs.collate([2])  # as wide as its longest sentence
    assert (short.premise.shape, short.hypothesis.shape) == ((1, 1), (1, 2))


def test_sort_keys_order_by_premise_then_hypothesis():
    pairs = EncodedPairs(EXAMPLES, VOCABULARY)
    assert ordered_batches(pairs.sort_keys, 1) == [[2], [1], [0]]
    assert EncodedPairs([], VOCABULARY).sort_keys == []


@pytest.mark.parametrize(
    "batch",
    [
        replace(collate(PAIRS, [0, 1]), fertility=torch.ones(2, 3)),
        EncodedPairs(EXAMPLES, VOCABULARY).collate([0, 1]),
        collate_trees(TREES, [0, 1]),
    ],
    ids=["pairs", "sentences", "trees"],
)
def test_to_moves_every_field_but_those_read_on_the_host(batch):
    moved = batch.to("meta")
    for name, tensor in vars(batch).items():
        expected = "cpu" if name in batch.on_host else "meta"
        assert getattr(moved, name).device.type == expected
        assert getattr(moved, name).shape == tensor.shape
    assert collate(PAIRS, [0, 1]).to("meta").fertility is None


def test_the_root_comes_first_and_padding_last():
    batch = collate_trees(TREES, [1, 0])
    assert batch.words.tolist() == [[Vocabulary.BOS, 9, 0], [Vocabulary.BOS, 7, 8]]
    assert batch.tags.tolist() == [[Vocabulary.BOS, 5, 0], [Vocabulary.BOS, 5, 6]]
    assert batch.heads.tolist() == [[-1, 0, -1], [-1, 2, 0]]
    assert (batch.lengths.tolist(), batch.indices.tolist()) == ([1, 2], [1, 0])
    assert batch.host_lengths.tolist() == [1, 2]


@given(lengths_lists, st.integers(1, 7), st.integers(0, 99), st.integers(0, 9))
def test_epoch_holds_every_example_once(lengths, batch_size, seed, epoch):
    batches = epoch_batches(lengths, batch_size, seed, epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert batches == epoch_batches(lengths, batch_size, seed, epoch)


def test_epoch_order_depends_on_seed_and_epoch_alone():
    lengths = [3, 1, 4, 1, 5, 9, 2, 6] * 8
    torch.manual_seed(0)
    first = epoch_batches(lengths, 4, seed=1, epoch=0)
    torch.manual_seed(1)
    assert first == epoch_batches(lengths, 4, seed=1, epoch=0)
    assert first != epoch_batches(lengths, 4, seed=1, epoch=1)
    assert first != epoch_batches(lengths, 4, seed=2, epoch=0)


def test_epoch_batches_are_bucketed_but_shuffled():
    lengths = list(range(1, POOL_BATCHES * 4 + 1))
    batches = epoch_batches(lengths, 4, seed=0, epoch=0)
    assert all(max(batch) - min(batch) == 3 for batch in batches)
    assert batches != sorted(batches)


def test_epoch_mixes_lengths_beyond_one_pool():
    lengths = [1] * (POOL_BATCHES * 2) + [2] * (POOL_BATCHES * 2)
    batches = epoch_batches(lengths, 2, seed=0, epoch=0)
    mixed = [batch for batch in batches if len({lengths[index] for index in batch}) == 2]
    assert len(batches) == 2 * POOL_BATCHES
    assert len(mixed) <= 2


@given(lengths_lists, st.integers(1, 7))
def test_ordered_batches_rise_in_length(lengths, batch_size):
    batches = ordered_batches(lengths, batch_size)
    flat = [index for batch in batches for index in batch]
    assert flat == sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    assert all(len(batch) == batch_size for batch in batches[:-1])


def test_no_epoch_of_a_run_is_drawn_like_another_epoch_of_another_seed():
    pairs = [(seed, epoch) for seed in range(3) for epoch in range(3)]
    drawn = {str(epoch_batches([1] * 64, 4, seed, epoch)) for seed, epoch in pairs}
    assert len(drawn) == len(pairs)


@given(st.lists(st.integers(1, 30), min_size=1), st.integers(1, 60))
def test_evaluation_batches_hold_everything_once_and_keep_to_the_size(lengths, words):
    batches = word_batches(lengths, words)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= words
