"""Alignments of two sentences from a matrix of scores: word by word, sequential, or matched."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from repro.mappings import ProbabilityMap
from repro.models.entailment.recurrence import length_mask
from repro.structures import Solution


@dataclass
class Alignment:
    """Weights in both directions; zero wherever one of the words is padding.

    Attributes:
        premise_to_hypothesis: weights of the hypothesis' words for each word of the premise,
            shape ``(B, m, n)``.
        hypothesis_to_premise: weights of the premise's words for each word of the hypothesis,
            shape ``(B, n, m)``.
        lengths: words of premise and hypothesis, shape ``(B, 2)``.
        solutions: the structures behind the weights: none, one of each direction, or one for both.
    """

    premise_to_hypothesis: Tensor
    hypothesis_to_premise: Tensor
    lengths: Tensor
    solutions: tuple[Solution, ...] = ()

    @property
    def cells(self) -> Tensor:
        """Number of weights of each pair, both directions together, shape ``(B,)``."""
        return 2 * self.lengths.prod(1)

    @property
    def unsolved(self) -> int:
        """Number of solutions that stopped at the bound on the solver's iterations."""
        return sum(int((~solution.converged).sum()) for solution in self.solutions)

    @property
    def nonzeros(self) -> Tensor:
        """Number of nonzero weights, shape ``(B,)``."""
        forth = (self.premise_to_hypothesis != 0).sum((1, 2))
        return forth + (self.hypothesis_to_premise != 0).sum((1, 2))


class Aligner(nn.Module, ABC):
    """Turns alignment scores into weights."""

    @abstractmethod
    def forward(self, scores: Tensor, lengths: Tensor) -> Alignment:
        """Align a batch.

        Args:
            scores: scores of premise word and hypothesis word, shape ``(B, m, n)``.
            lengths: words of premise and hypothesis, shape ``(B, 2)``.
        """


class WordAligner(Aligner):
    """Each word by itself, with any mapping: rows for the premise, columns for the hypothesis.

    References:
        Chen et al. (2017), §3.2; Niculae et al. (2018), §5.2, step 3.
    """

    def __init__(self, mapping: ProbabilityMap) -> None:
        super().__init__()
        self.mapping = mapping

    def forward(self, scores: Tensor, lengths: Tensor) -> Alignment:
        """Rows of both weight matrices sum to one where their word is real."""
        mask = cell_mask(scores, lengths)
        forth = self.mapping(scores, mask=mask)
        back = self.mapping(scores.transpose(1, 2), mask=mask.transpose(1, 2))
        return Alignment(forth, back, lengths)


def cell_mask(scores: Tensor, lengths: Tensor) -> Tensor:
    """Bool, like ``scores`` ``(B, m, n)``; true where both words are real."""
    rows = length_mask(lengths[:, 0], scores.shape[1])
    columns = length_mask(lengths[:, 1], scores.shape[2])
    return rows.unsqueeze(2) & columns.unsqueeze(1)
