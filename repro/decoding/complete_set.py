"""Enumeration of all sequences of nonzero probability, if sparse outputs leave finitely many."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from repro.data.vocabulary import Vocabulary
from repro.decoding import search
from repro.decoding.protocol import StateT, StepModel
from repro.decoding.search import Extended, FrozenTree, Hypothesis, PrefixTree

MASS_TOLERANCE = 1e-4
"""Tolerance of a complete set's mass around one: float32 rounding over some dozens of steps."""


@dataclass(frozen=True)
class CompleteSet:
    """Sequences of nonzero probability for one source sentence.

    Attributes:
        hypotheses: finished hypotheses, best first; all of the support if ``finite``.
        finite: whether the enumeration ended within ``max_hypotheses`` and ``max_length``.
    """

    hypotheses: list[Hypothesis]
    finite: bool

    @property
    def mass(self) -> float:
        """Total probability of the hypotheses."""
        return sum(hypothesis.probability for hypothesis in self.hypotheses)

    @property
    def normalized(self) -> bool:
        """Return whether the mass is one, up to rounding (true of a proper model's finite set)."""
        return abs(self.mass - 1.0) <= MASS_TOLERANCE


@torch.no_grad()
def complete_set(
    model: StepModel[StateT],
    source: Tensor,
    source_lengths: Tensor,
    *,
    max_hypotheses: int = 1000,
    max_length: int,
    keep_attention: bool = False,
) -> list[CompleteSet]:
    """Enumerate all sequences of nonzero probability in order of length.

    The enumeration of a sentence is abandoned once it has more than ``max_hypotheses`` live and
    finished hypotheses. The model sees the live prefixes of all sentences at once, up to
    ``B * max_hypotheses`` rows.

    Other arguments are those of :func:`~repro.decoding.beam_search`.

    Returns:
        One set per sentence.

    Raises:
        ValueError: if a size is below one or the model returns no probabilities.

    References:
        Peters, Niculae & Martins (2019), Section 1 and Figure 1.
    """
    search.check_sizes(max_hypotheses=max_hypotheses, max_length=max_length)
    frontier = _Frontier(len(source), max_hypotheses, source.device)
    tree = search.grow(frontier.extend, model, source, source_lengths, max_length, keep_attention)
    return frontier.results(tree)


class _Prefixes(NamedTuple):
    """Sentences, nodes and log-probabilities of ``M`` prefixes of one length, ``(M,)`` each."""

    sentences: Tensor
    nodes: Tensor
    scores: Tensor

    def select(self, rows: Tensor) -> "_Prefixes":
        """Gather prefixes by index or by mask."""
        return _Prefixes(*(column[rows] for column in self))


class _Frontier:
    """Live prefixes of all sentences, and the hypotheses that have finished."""

    def __init__(self, sentences: int, max_hypotheses: int, device: torch.device) -> None:
        self.max_hypotheses = max_hypotheses
        everyone = torch.arange(sentences, device=device)
        scores = torch.zeros(sentences, dtype=torch.float64, device=device)
        self.live = _Prefixes(everyone, torch.full_like(everyone, -1), scores)
        self.finished: list[_Prefixes] = []
        self.finished_counts = torch.zeros_like(everyone)
        self.given_up = torch.zeros_like(everyone, dtype=torch.bool)

    def extend(self, probs: Tensor, attention: Tensor, tree: PrefixTree, reads: bool) -> Extended:
        """Extend every live prefix by every token of nonzero probability; see ``Extend``.

        Values are read in every step: the number of prefixes depends on them.
        """
        search.check_probabilities(probs)
        nonzero = probs > 0
        # Give up sentences that would exceed the limit, before their rows are built.
        total = self.finished_counts + self._count(self.live.sentences, nonzero.sum(1))
        self.given_up |= total > self.max_hypotheses
        rows, tokens = (nonzero & ~self.given_up[self.live.sentences].unsqueeze(1)).nonzero().T
        steps = probs[rows, tokens]
        parents = self.live.select(rows)
        nodes = tree.grow(parents.nodes, tokens, steps, attention[rows])
        scores = parents.scores + search.log_probabilities(steps)
        grown = _Prefixes(parents.sentences, nodes, scores)
        ended = tokens == Vocabulary.EOS
        self.finished.append(grown.select(ended))
        self.finished_counts += self._count(grown.sentences[ended], ended[ended].long())
        before, self.live = self.live.sentences, grown.select(~ended)
        return Extended(rows[~ended], tokens[~ended], torch.equal(before, self.live.sentences))

    def _count(self, sentences: Tensor, amounts: Tensor) -> Tensor:
        """Sum amounts by sentence, ``(B,)`` long."""
        return torch.zeros_like(self.finished_counts).index_add(0, sentences, amounts)

    def results(self, tree: FrozenTree) -> list[CompleteSet]:
        """Read the finished hypotheses of every sentence."""
        infinite = self.given_up.clone()
        infinite[self.live.sentences] = True
        found: list[list[Hypothesis]] = [[] for _ in infinite]
        for prefixes in self.finished:
            columns = (column.tolist() for column in prefixes)
            for sentence, node, score in zip(*columns, strict=True):
                found[sentence].append(tree.hypothesis(node, score, sentence))
        return [
            CompleteSet(sorted(hypotheses, key=lambda h: -h.log_probability), not endless)
            for hypotheses, endless in zip(found, infinite.tolist(), strict=True)
        ]
