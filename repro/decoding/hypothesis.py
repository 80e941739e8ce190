"""Hypotheses and the tree of prefixes they are read from."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from repro.data.vocabulary import Vocabulary


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence.

    Attributes:
        tokens: token ids, without EOS.
        log_probability: sum of the log-probabilities of all steps, EOS included; natural log.
        finished: whether it ended in EOS.
        step_probabilities: probability of each token, then of EOS if finished.
        attention: ``(T, S)``, a row per entry of ``step_probabilities`` and a column per real
            source token, on the CPU; None unless asked for.
    """

    tokens: list[int]
    log_probability: float
    finished: bool
    step_probabilities: list[float]
    attention: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def probability(self) -> float:
        """Probability of the whole sequence."""
        return math.exp(self.log_probability)


class PrefixTree:
    """Append-only tree of prefixes; a node is a prefix, named by a number, and -1 is the empty one.

    Nodes stay on the device while the tree grows; ``freeze`` brings them over once.
    """

    def __init__(self) -> None:
        self._parents: list[Tensor] = []
        self._tokens: list[Tensor] = []
        self._probs: list[Tensor] = []
        self._attention: list[Tensor] = []
        self._size = 0

    def grow(self, parents: Tensor, tokens: Tensor, probs: Tensor, attention: Tensor) -> Tensor:
        """Add ``M`` prefixes, each one token longer than its parent.

        Args:
            parents: nodes, ``(M,)`` long.
            tokens: last token of each new prefix, ``(M,)`` long.
            probs: probability of that token after its parent, ``(M,)``.
            attention: attention of the step that produced it, ``(M, S)``; ``(M, 0)`` to keep none.

        Returns:
            The new nodes, ``(M,)`` long.
        """
        self._parents.append(parents)
        self._tokens.append(tokens)
        self._probs.append(probs)
        self._attention.append(attention)
        nodes = torch.arange(self._size, self._size + len(tokens), device=tokens.device)
        self._size += len(tokens)
        return nodes

    def freeze(self, source_mask: Tensor | None) -> "FrozenTree":
        """Bring the tree to the host; ``source_mask`` is None where no attention was kept."""
        return FrozenTree(
            parents=torch.cat(self._parents).tolist(),
            tokens=torch.cat(self._tokens).tolist(),
            probs=torch.cat(self._probs).tolist(),
            attention=torch.cat(self._attention).cpu(),
            source_mask=None if source_mask is None else source_mask.cpu(),
        )


@dataclass(frozen=True)
class FrozenTree:
    """A prefix tree on the host, from which hypotheses are read.

    Attributes:
        parents: parents of each node.
        tokens: last token of each node.
        probs: probability of that token.
        attention: ``(nodes, S)``.
        source_mask: ``(B, S)`` bool, True on real tokens; None if no attention was kept.
    """

    parents: list[int]
    tokens: list[int]
    probs: list[float]
    attention: Tensor
    source_mask: Tensor | None

    def hypothesis(self, leaf: int, log_probability: float, sentence: int) -> Hypothesis:
        """Read the sequence that ends in ``leaf``; it is finished if its last token is EOS."""
        path = []
        while leaf >= 0:
            path.append(leaf)
            leaf = self.parents[leaf]
        path.reverse()
        tokens = [self.tokens[node] for node in path]
        finished = tokens[-1] == Vocabulary.EOS
        return Hypothesis(
            tokens=tokens[:-1] if finished else tokens,
            log_probability=log_probability,
            finished=finished,
            step_probabilities=[self.probs[node] for node in path],
            attention=self._attention(path, sentence),
        )

    def _attention(self, path: list[int], sentence: int) -> Tensor | None:
        """Attention along a path, over the real source tokens of its sentence."""
        if self.source_mask is None:
            return None
        return self.attention[path][:, self.source_mask[sentence]]
