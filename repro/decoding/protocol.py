"""Interface of models to decoding: encode a batch once, then one distribution per row and step.

A *row* is one prefix being extended. Decoding chooses which rows to keep by ``State.select``.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from torch import Tensor


class State(Protocol):
    """Everything a model needs to extend its rows; row ``i`` belongs to prefix ``i``."""

    def select(self, rows: Tensor, same_sources: bool = False) -> Self:
        """Gather rows.

        Args:
            rows: row indices, ``(M,)`` long; a row may appear any number of times or not at all.
            same_sources: whether every row ``i`` is of the same sentence as before. What depends
                on the sentence alone, such as its encoding, then need not be gathered.

        Returns:
            A state of ``M`` rows; the original is unchanged.
        """


StateT = TypeVar("StateT", bound=State)


@dataclass(frozen=True)
class StepOutput(Generic[StateT]):
    """Output of one decoding step over ``N`` rows.

    Attributes:
        probs: distribution over the next token, ``(N, V)`` float32, with exact zeros.
        attention: weights over source positions, ``(N, S)``, zero on padding.
        state: state after reading the previous token, ``N`` rows in the same order.
    """

    probs: Tensor
    attention: Tensor
    state: StateT


class StepModel(Protocol[StateT]):
    """Interface of a sequence-to-sequence model that is run one step at a time."""

    def start(self, source: Tensor, source_lengths: Tensor) -> StateT:
        """Encode a batch.

        Args:
            source: token ids, ``(B, S)`` long.
            source_lengths: number of tokens of each source, the rest is padding, ``(B,)`` long.

        Returns:
            The state before the first target token, one row per sentence.
        """

    def step(self, state: StateT, previous: Tensor) -> StepOutput[StateT]:
        """Read one token per row and predict the next.

        Args:
            state: ``N`` rows.
            previous: last token of each row, ``(N,)`` long; BOS at first.

        Returns:
            The next-token distributions, the attention and the new state; ``state`` is unchanged.
        """
