"""Small vocabularies, sentences and batches."""

import pytest
import torch
from torch import Tensor

from repro.data.batching import EncodedPairs, NliBatch
from repro.data.nli import NliExample
from repro.data.vocabulary import SPECIALS, Vocabulary

WORDS = list("abcdefgh")
SENTENCES = [("abcd", "ea"), ("b", "cdefg"), ("gfedcba", "h"), ("ac", "ca")]


@pytest.fixture
def pairs() -> EncodedPairs:
    examples = [
        NliExample(str(row), tuple(premise), tuple(hypothesis), row % 3)
        for row, (premise, hypothesis) in enumerate(SENTENCES)
    ]
    return EncodedPairs(examples, Vocabulary([*SPECIALS, *WORDS]))


@pytest.fixture
def batch(pairs: EncodedPairs) -> NliBatch:
    return pairs.collate([0, 1, 2, 3])


@pytest.fixture
def vectors() -> Tensor:
    generator = torch.Generator().manual_seed(5)
    matrix = torch.randn(len(SPECIALS) + len(WORDS), 6, generator=generator)
    matrix[0] = 0
    return matrix
