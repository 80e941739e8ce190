"""Interface of sequence-to-sequence models to tasks, which know nothing else of a model."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from repro.data.vocabulary import Vocabulary
from repro.decoding.protocol import StepModel
from repro.mappings import ProbabilityMap
from repro.models.seq2seq.attention import AttentionNormalizer
from repro.models.seq2seq.fertility import Fertility


@dataclass(frozen=True)
class TranslatorParts:
    """Parts that a task gives to a model besides its configuration.

    Attributes:
        source_size: number of source symbols.
        target_size: number of target symbols.
        normalizer: turns attention scores into weights, by its ``mapping``.
        output_mapping: turns output scores into probabilities; the loss trains the scores.
        fertility: upper bounds of the cumulative attention, for a bounded normalizer; only models
            configured by a ``TranslatorConfig`` get them.
    """

    source_size: int
    target_size: int
    normalizer: AttentionNormalizer
    output_mapping: ProbabilityMap
    fertility: Fertility | None = None


@dataclass
class TeacherForced:
    """Scores and attention of a batch, given the gold symbols before each target symbol.

    The attention of several heads is their mean, and so are its scores.
    """

    scores: Tensor  # before the output mapping, (batch, target, vocabulary)
    attention: Tensor  # (batch, target, source)
    attention_scores: Tensor  # before the attention's mapping, (batch, target, source)


class Translator(nn.Module, StepModel[Any], ABC):
    """Sequence-to-sequence model that is trained on gold prefixes and decoded step by step.

    A module of ``repro.models`` declares models in its ``MODELS``: the name in a ``model``
    configuration to a function of this configuration and :class:`TranslatorParts`.
    """

    @abstractmethod
    def forward(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target: Tensor,
        fertility: Tensor | None = None,
    ) -> TeacherForced:
        """Score every target symbol given the gold symbols before it.

        Args:
            source: padded ids, ``(batch, source)``.
            source_lengths: number of real source symbols, ``(batch,)``.
            target: padded ids, ``(batch, target)``, ending in ``</s>``.
            fertility: replaces the bounds of :attr:`TranslatorParts.fertility`, like ``source``;
                None for models without bounds.
        """


class LinearTranslator(Translator):
    """Translator whose scores are a linear layer, which the loss may compute in parts."""

    scores: nn.Linear

    def forward(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target: Tensor,
        fertility: Tensor | None = None,
    ) -> TeacherForced:
        """Apply ``scores`` to the outputs."""
        outputs, *attention = self.outputs(source, source_lengths, target, fertility)
        return TeacherForced(self.scores(outputs), *attention)

    @abstractmethod
    def outputs(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target: Tensor,
        fertility: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inputs of ``scores``, ``(batch, target, size)``, and attention and its scores.

        The arguments are those of ``forward``.
        """


def shifted(target: Tensor) -> Tensor:
    """Return the symbol before each symbol of ``target``, ``(batch, target)``, at first BOS."""
    begin = target.new_full((target.shape[0], 1), Vocabulary.BOS)
    return torch.cat([begin, target[:, :-1]], dim=1)
