"""Alignments of two sentences from a matrix of scores: word by word, sequential, or matched."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.mappings import ProbabilityMap
from repro.models.layers import length_mask
from repro.structures import (
    ConvergenceWarning,
    LinearChain,
    Matching,
    Solution,
    Structure,
    sparsemap,
)


@dataclass
class Alignment:
    """Weights in both directions; zero wherever one of the words is padding.

    Solutions are the structures behind the weights: none, one of each direction, or one for both.
    """

    premise_to_hypothesis: Tensor  # of the hypothesis' words for each of the premise, (B, m, n)
    hypothesis_to_premise: Tensor  # of the premise's words for each of the hypothesis, (B, n, m)
    lengths: Tensor  # words of premise and hypothesis, (B, 2)
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
        """Align a batch by scores of premise and hypothesis words, ``(B, m, n)``.

        ``lengths``, ``(B, 2)``, are numbers of words of premise and hypothesis.
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
    """Mask like ``scores``, ``(B, m, n)``; true where both words are real."""
    rows = length_mask(lengths[:, 0], scores.shape[1])
    columns = length_mask(lengths[:, 1], scores.shape[2])
    return rows.unsqueeze(2) & columns.unsqueeze(1)


FARTHEST = 2
"""Longer distances share the score of this one, in either direction."""

MAX_ITER = 1000
"""Iterations of the active set method.

Pairs need as many as their mixture has structures where scores are larger than one, and several
times as many while transition scores are tiny and decide among mixtures that are all but equal.
"""


class TransitionScores(nn.Module):
    r"""Nine scores of how an alignment moves through the ``n`` words that are its tags.

    .. math:: \eta_F(i, t_1, t_2) = w_{\mathrm{bin}(t_2 - t_1)}

    with one score for a distance of -2 or less, -1, 0, 1, and 2 or more; two scores for a first
    tag at word 1, or at word 2 or later; two for a last tag before the last word (-2 or less), or
    at it (-1). All are zero at first, where nothing but the alignment scores counts.

    Attributes:
        step: shape ``(5,)``.
        start: shape ``(2,)``, the first word before the others.
        end: shape ``(2,)``, the other words before the last one.

    References:
        Niculae et al. (2018), §5.2, "Sequential alignment".
    """

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Parameter(torch.zeros(2 * FARTHEST + 1))
        self.start = nn.Parameter(torch.zeros(2))
        self.end = nn.Parameter(torch.zeros(2))

    def transitions(self, tags: int) -> Tensor:
        """Scores ``(tags, tags)`` from row to column."""
        word = torch.arange(tags, device=self.step.device)
        distance = (word - word.unsqueeze(1)).clamp(-FARTHEST, FARTHEST)
        return self.step[distance + FARTHEST]

    def starts(self, tags: int) -> Tensor:
        """Scores ``(tags,)`` of the first tag."""
        word = torch.arange(tags, device=self.start.device)
        return self.start[word.clamp(max=1)]

    def ends(self, tags: int, lengths: Tensor) -> Tensor:
        """Scores ``(B, tags)`` of the last tag, for rows with ``lengths`` real tags."""
        word = torch.arange(tags, device=self.end.device)
        return self.end[(word == lengths.unsqueeze(1) - 1).long()]


class StructuredAligner(Aligner):
    """Alignment by SparseMAP.

    Args:
        max_iter: bound on the solver's iterations for each pair. A solution that reaches it is
            taken as it is; ``Alignment.unsolved`` counts them.

    Warns:
        ConvergenceWarning: for the first batch with such a solution, and no later one.
    """

    def __init__(self, max_iter: int = MAX_ITER) -> None:
        super().__init__()
        self.max_iter = max_iter
        self._warned = False

    def _solve(
        self,
        structure: Structure,
        unary: Tensor,
        additional: Tensor | None,
        lengths: Tensor,
        mask: Tensor,
    ) -> Solution:
        """SparseMAP of a batch."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = sparsemap(
                structure, unary, additional, lengths=lengths, mask=mask, max_iter=self.max_iter
            )
        unsolved = int((~solution.converged).sum())
        if unsolved and not self._warned:
            self._warned = True
            warnings.warn(
                f"{unsolved} of {len(lengths)} alignments reached the bound of {self.max_iter}"
                f" iterations at gaps up to {float(solution.gap.max()):.1g}; they are taken as they"
                " are, here and in later batches (model.max_iter)",
                ConvergenceWarning,
                stacklevel=3,
            )
        return solution


class SequentialAligner(StructuredAligner):
    """Tags the words of each sentence with the words of the other; 18 parameters.

    A path prefers, or avoids, to move on monotonously: each direction has its own
    :class:`TransitionScores`. Weights are the SparseMAP marginals of the tags.

    References:
        Niculae et al. (2018), §5.2, "Sequential alignment".
    """

    def __init__(self, max_iter: int = MAX_ITER) -> None:
        super().__init__(max_iter)
        self.premise_to_hypothesis = TransitionScores()
        self.hypothesis_to_premise = TransitionScores()

    def forward(self, scores: Tensor, lengths: Tensor) -> Alignment:
        """Rows of both weight matrices sum to one where their word is real."""
        forth = self._tag(self.premise_to_hypothesis, scores, lengths)
        back = self._tag(self.hypothesis_to_premise, scores.transpose(1, 2), lengths.flip(1))
        return Alignment(forth.marginals, back.marginals, lengths, (forth, back))

    def _tag(self, transitions: TransitionScores, scores: Tensor, lengths: Tensor) -> Solution:
        """Tag words ``(B, m)`` with words ``(B, n)`` given scores ``(B, m, n)``."""
        _, words, tags = scores.shape
        steps = transitions.transitions(tags).to(scores.dtype).expand(max(words - 1, 0), -1, -1)
        unary = LinearChain.with_ends(
            scores,
            transitions.starts(tags).to(scores.dtype),
            transitions.ends(tags, lengths[:, 1]).to(scores.dtype),
            lengths[:, 0],
        )
        allowed = length_mask(lengths[:, 1], tags).unsqueeze(1)
        return self._solve(LinearChain(), unary, steps, lengths[:, 0], allowed)


class MatchingAligner(StructuredAligner):
    """One symmetrical alignment: the SparseMAP mixture of maximal matchings.

    A word of the shorter sentence has total weight one, one of the longer at most one.

    References:
        Niculae et al. (2018), §5.2, "Matching alignment".
    """

    def forward(self, scores: Tensor, lengths: Tensor) -> Alignment:
        """Both weight matrices are each other's transpose."""
        allowed = cell_mask(scores, lengths)
        matching = self._solve(Matching(), scores, None, lengths, allowed)
        both = matching.marginals
        return Alignment(both, both.transpose(1, 2), lengths, (matching,))
