"""Ensembles: several models decoded as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from repro.decoding.protocol import State, StepModel, StepOutput


@dataclass(frozen=True)
class EnsembleState:
    """States of all members of an ensemble; row ``i`` is the same prefix in each."""

    members: tuple[State, ...]

    def select(self, rows: Tensor, same_sources: bool = False) -> Self:
        """Gather rows in every member."""
        return type(self)(tuple(member.select(rows, same_sources) for member in self.members))


class Ensemble:
    r"""Average the raw probabilities of several models at every step.

    .. math:: p(y_t \mid x, y_{<t}) = \tfrac1M \sum_m p_m(y_t \mid x, y_{<t})

    The support of the average is the union of the members' supports. Attention is averaged too.

    Args:
        models: at least one; they must share both vocabularies, but types of state may differ.

    Raises:
        ValueError: if there is no model, or at a step where vocabulary sizes differ.

    References:
        Peters, Niculae & Martins (2019), Section 4.1, "Accuracy".
    """

    def __init__(self, models: Sequence[StepModel[Any]]) -> None:
        if not models:
            raise ValueError("an ensemble needs at least one model")
        self.models = tuple(models)

    def start(self, source: Tensor, source_lengths: Tensor) -> EnsembleState:
        """Encode a batch with every member; see ``StepModel.start``."""
        return EnsembleState(tuple(model.start(source, source_lengths) for model in self.models))

    def step(self, state: EnsembleState, previous: Tensor) -> StepOutput[EnsembleState]:
        """Advance every member and average; see ``StepModel.step``."""
        pairs = zip(self.models, state.members, strict=True)
        outputs = [model.step(member, previous) for model, member in pairs]
        sizes = [output.probs.shape[-1] for output in outputs]
        if len(set(sizes)) > 1:
            raise ValueError(f"members of an ensemble differ in vocabulary size: {sizes}")
        return StepOutput(
            probs=torch.stack([output.probs for output in outputs]).mean(0),
            attention=torch.stack([output.attention for output in outputs]).mean(0),
            state=EnsembleState(tuple(output.state for output in outputs)),
        )
