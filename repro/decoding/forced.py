"""Forced decoding: next-token distributions of a model along a given target."""

from dataclasses import dataclass

import torch
from torch import Tensor

from repro.data.vocabulary import Vocabulary
from repro.decoding.protocol import StateT, StepModel
from repro.decoding.search import begin, check_probabilities


@dataclass(frozen=True)
class ForcedDecoding:
    """Distributions and attention at each target position, zero on its padding.

    Attributes:
        probs: distributions over the target token, ``(B, T, V)``.
        attention: weights over source positions, ``(B, T, S)``.
    """

    probs: Tensor
    attention: Tensor


@torch.no_grad()
def forced(
    model: StepModel[StateT], source: Tensor, source_lengths: Tensor, target: Tensor
) -> ForcedDecoding:
    """Return the distribution of each target token given those before it, and the attention.

    Targets are token ids, ``(B, T)`` long, ending in EOS and padded with PAD; other arguments are
    those of :func:`~repro.decoding.beam_search`.

    Raises:
        ValueError: if there is not one target per sentence, or the model returns no probabilities.

    References:
        Peters, Niculae & Martins (2019), Figure 2.
    """
    if target.ndim != 2 or not target.numel():
        raise ValueError(f"target must be (B, T) and not empty, got {tuple(target.shape)}")
    if len(target) != len(source):
        raise ValueError(f"{len(target)} targets for {len(source)} sentences")
    state, previous = begin(model, source, source_lengths)
    probs, attention = [], []
    for token, real in zip(target.T, (target != Vocabulary.PAD).T.unsqueeze(2), strict=True):
        output = model.step(state, previous)
        check_probabilities(output.probs)
        probs.append(output.probs.where(real, 0.0))
        attention.append(output.attention.where(real, 0.0))
        state, previous = output.state, token
    return ForcedDecoding(torch.stack(probs, dim=1), torch.stack(attention, dim=1))
