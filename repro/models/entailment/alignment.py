"""Alignments of two sentences from a matrix of scores: word by word, sequential or matching."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.mappings import ProbabilityMap
from repro.models.layers import length_mask
from repro.structures import ConvergenceWarning, LinearChain, Solution, Structure, sparsemap
from repro.structures.problem import copied_together


@dataclass
class Alignment:
    """Alignment weights in both directions, zero wherever one of the words is padding.

    ``solutions`` holds the SparseMAP solutions: none, one per direction, or one for both.
    """

    premise_to_hypothesis: Tensor  # over hypothesis words for each premise word, (B, m, n)
    hypothesis_to_premise: Tensor  # over premise words for each hypothesis word, (B, n, m)
    lengths: Tensor  # number of words of premise and hypothesis, (B, 2), on the CPU
    solutions: tuple[Solution, ...] = ()


class Aligner(nn.Module, ABC):
    """Base class of modules that turn alignment scores into weights."""

    @abstractmethod
    def forward(self, scores: Tensor, lengths: Tensor, host_lengths: Tensor) -> Alignment:
        """Align a batch, given scores of premise and hypothesis words, ``(B, m, n)``.

        ``lengths``, ``(B, 2)``, holds the number of words of premise and hypothesis, on the device
        of the scores; ``host_lengths`` is the same on the CPU, where structures are found.
        """


class WordAligner(Aligner):
    """Alignment of each word on its own, by a mapping of the rows and of the columns of scores.

    References:
        Chen et al. (2017), §3.2; Niculae et al. (2018), §5.2, step 3.
    """

    def __init__(self, mapping: ProbabilityMap) -> None:
        super().__init__()
        self.mapping = mapping

    def forward(self, scores: Tensor, lengths: Tensor, host_lengths: Tensor) -> Alignment:
        """Align a batch; the weights of each real word sum to one."""
        mask = cell_mask(scores, lengths)
        forth = self.mapping(scores, mask=mask)
        back = self.mapping(scores.transpose(1, 2), mask=mask.transpose(1, 2))
        return Alignment(forth, back, host_lengths)


def cell_mask(scores: Tensor, lengths: Tensor) -> Tensor:
    """Return a mask of the shape ``(B, m, n)`` of ``scores``, true where both words are real."""
    rows = length_mask(lengths[:, 0], scores.shape[1])
    columns = length_mask(lengths[:, 1], scores.shape[2])
    return rows.unsqueeze(2) & columns.unsqueeze(1)


FARTHEST = 2
"""Distances are clamped to this magnitude: all longer ones in a direction share one score."""


class TransitionScores(nn.Module):
    r"""Nine learned scores of transitions, where the tags are the ``n`` words of a sentence.

    .. math:: \eta_F(i, t_1, t_2) = w_{\mathrm{bin}(t_2 - t_1)}

    with one score for each distance of -2 or less, -1, 0, 1, and 2 or more. Two further scores are
    for the first tag (word 1, word 2 or later) and two for the last tag (before the last word, the
    last word). All are initialized to zero, so that at first only the alignment scores count.

    Attributes:
        step: scores by distance, shape ``(5,)``.
        start: scores of the first tag, ``[word 1, later words]``.
        end: scores of the last tag, ``[earlier words, last word]``.

    References:
        Niculae et al. (2018), §5.2, "Sequential alignment".
    """

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Parameter(torch.zeros(2 * FARTHEST + 1))
        self.start = nn.Parameter(torch.zeros(2))
        self.end = nn.Parameter(torch.zeros(2))

    def forward(self, tags: int, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores of transitions ``(tags, tags)``, of first tags ``(tags,)`` and last tags.

        The latter are ``(B, tags)``, for rows with ``lengths`` real tags.
        """
        return spread((self.step, self.start, self.end), tags, lengths)


def spread(scores: Sequence[Tensor], tags: int, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Assign the scores of a :class:`TransitionScores` to tags; see its ``forward``."""
    step, start, end = scores
    word = torch.arange(tags, device=step.device)
    distance = (word - word.unsqueeze(1)).clamp(-FARTHEST, FARTHEST)
    last = (word == lengths.unsqueeze(1) - 1).long()
    return step[distance + FARTHEST], start[word.clamp(max=1)], end[last]


class SparsemapAligner(Aligner):
    """Base class of aligners by SparseMAP.

    Args:
        structure: kind of structure to select.
        max_iter: limit on the solver's iterations for each solution. Solutions that reach it are
            used as they are. If scores are larger than one, a pair needs about as many iterations
            as its solution has structures; while tiny transition scores decide among mixtures that
            are nearly equal, it needs several times as many.

    Warns:
        ConvergenceWarning: only for the first batch with such a solution.
    """

    def __init__(self, structure: Structure, max_iter: int = 1000) -> None:
        super().__init__()
        self.structure = structure
        self.max_iter = max_iter
        self._warned = False

    def _solve(
        self, unary: Tensor, additional: Tensor | None, host_lengths: Tensor, mask: Tensor
    ) -> Solution:
        """Solve SparseMAP for a batch, warning at most once per aligner."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = sparsemap(
                self.structure,
                unary,
                additional,
                lengths=host_lengths,
                mask=mask,
                max_iter=self.max_iter,
            )
        unsolved = int((~solution.selection.converged).sum())
        if unsolved and not self._warned:
            self._warned = True
            warnings.warn(
                f"{unsolved} of {len(host_lengths)} alignments did not converge (model.max_iter="
                f"{self.max_iter}; gaps up to {solution.selection.gaps.max():.1g}); they are used"
                " as they are, and those of later batches are not reported",
                ConvergenceWarning,
                stacklevel=3,
            )
        return solution


class StructuredAligner(SparsemapAligner):
    """Symmetric alignment by the SparseMAP mixture of structures of word pairs.

    With maximal matchings (Niculae et al. 2018, §5.2, "Matching alignment") the weights of a word
    of the shorter sentence sum to one, those of the longer to at most one. The structure takes
    scores ``(B, m, n)`` and lengths ``(B, 2)``.
    """

    def forward(self, scores: Tensor, lengths: Tensor, host_lengths: Tensor) -> Alignment:
        """Align a batch; the two weight matrices are transposes of each other."""
        solution = self._solve(scores, None, host_lengths, cell_mask(scores, lengths))
        both = solution.marginals
        return Alignment(both, both.transpose(1, 2), host_lengths, (solution,))


class SequentialAligner(SparsemapAligner):
    """Alignment that tags the words of each sentence with the words of the other.

    The :class:`TransitionScores` of each direction, 18 parameters together, can favor or penalize
    monotone alignments. Weights are the SparseMAP marginals of the tags.

    References:
        Niculae et al. (2018), §5.2, "Sequential alignment".
    """

    def __init__(self, max_iter: int = 1000) -> None:
        super().__init__(LinearChain(), max_iter)
        self.premise_to_hypothesis = TransitionScores()
        self.hypothesis_to_premise = TransitionScores()

    def forward(self, scores: Tensor, lengths: Tensor, host_lengths: Tensor) -> Alignment:
        """Align a batch; the weights of each real word sum to one.

        All is computed on the CPU: an accelerator would wait for each transfer.
        """
        parameters = (
            one
            for transitions in (self.premise_to_hypothesis, self.hypothesis_to_premise)
            for one in (transitions.step, transitions.start, transitions.end)
        )
        table, *given = copied_together(torch.device("cpu"), scores, *parameters)
        solutions = (
            self._tag(given[:3], table, host_lengths),
            self._tag(given[3:], table.transpose(1, 2), host_lengths.flip(1)),
        )
        forth, back = copied_together(scores.device, *(one.marginals for one in solutions))
        return Alignment(forth, back, host_lengths, solutions)

    def _tag(self, transitions: Sequence[Tensor], scores: Tensor, lengths: Tensor) -> Solution:
        """Tag words ``(B, m)`` with words ``(B, n)`` given scores ``(B, m, n)``."""
        _, words, tags = scores.shape
        found = spread(transitions, tags, lengths[:, 1])
        steps, starts, ends = (one.to(scores.dtype) for one in found)
        unary = LinearChain.with_ends(scores, starts, ends, lengths[:, 0])
        allowed = length_mask(lengths[:, 1], tags).unsqueeze(1)
        return self._solve(unary, steps.expand(max(words - 1, 0), -1, -1), lengths[:, 0], allowed)
