"""Loop that every search over prefixes runs, and the tree of prefixes that it grows."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from repro.data.vocabulary import Vocabulary
from repro.decoding.protocol import StateT, StepModel


@dataclass(frozen=True)
class Hypothesis:
    """Decoded sequence.

    Attributes:
        tokens: token ids, without EOS.
        log_probability: sum of the log-probabilities of all steps, EOS included; natural log.
        finished: whether it ended in EOS.
        step_probabilities: probability of each token, then of EOS if finished.
        attention: ``(T, S)``, a row per entry of ``step_probabilities`` and a column per real
            source token, on the CPU; None unless requested.
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
    """Append-only tree of prefixes, each identified by the index of its node; -1 is the empty one.

    Nodes stay on the device while the tree grows; ``freeze`` copies them to the host.
    """

    def __init__(self) -> None:
        self._levels: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self._size = 0

    def grow(self, parents: Tensor, tokens: Tensor, probs: Tensor, attention: Tensor) -> Tensor:
        """Add ``M`` prefixes, each one token longer than its parent, and return their nodes.

        Nodes, tokens and the tokens' probabilities after their parents have shape ``(M,)``, the
        attention of the step that produced them ``(M, S)``, or ``(M, 0)`` to keep none.
        """
        self._levels.append((parents, tokens, probs, attention))
        nodes = torch.arange(self._size, self._size + len(tokens), device=tokens.device)
        self._size += len(tokens)
        return nodes

    def freeze(self, source_lengths: Tensor | None) -> "FrozenTree":
        """Copy the tree to the host; ``source_lengths`` are None if no attention was kept."""
        parents, tokens, probs, attention = map(torch.cat, zip(*self._levels, strict=True))
        lists = parents.tolist(), tokens.tolist(), probs.tolist()
        lengths = None if source_lengths is None else source_lengths.tolist()
        return FrozenTree(*lists, attention.cpu(), lengths)


@dataclass(frozen=True)
class FrozenTree:
    """Prefix tree on the host, from which hypotheses are read; lists and attention are by node."""

    parents: list[int]
    tokens: list[int]
    probs: list[float]
    attention: Tensor
    source_lengths: list[int] | None  # of each sentence; None if no attention was kept

    def hypothesis(self, leaf: int, log_probability: float, sentence: int) -> Hypothesis:
        """Read the sequence that ends in ``leaf``; it is finished if its last token is EOS."""
        path = []
        while leaf >= 0:
            path.append(leaf)
            leaf = self.parents[leaf]
        path.reverse()
        tokens = [self.tokens[node] for node in path]
        finished = tokens[-1] == Vocabulary.EOS
        attention = None
        if self.source_lengths is not None:
            attention = self.attention[path][:, : self.source_lengths[sentence]]
        return Hypothesis(
            tokens=tokens[:-1] if finished else tokens,
            log_probability=log_probability,
            finished=finished,
            step_probabilities=[self.probs[node] for node in path],
            attention=attention,
        )


class Extended(NamedTuple):
    """Live prefixes after a step, in the order of their sentences."""

    rows: Tensor  # the row that each came from, (M,)
    last: Tensor  # its last token, (M,)
    same_sources: bool  # whether row i is of the same sentence as in the step before, for all i


Extend = Callable[[Tensor, Tensor, PrefixTree, bool], Extended]
"""Callable that extends the live prefixes by one token.

It takes next-token distributions ``(N, V)``, a row per live prefix; the attention of the same rows,
``(N, S)``, or ``(N, 0)`` to keep none; the tree, to which it adds the prefixes to keep; and whether
values may be read. If so, it raises ValueError if a distribution since the last reading was not
one; if not, prefixes that are not live may be among those that it returns, and are ignored in the
next step.
"""

READ_EVERY = 8
"""Steps of a search on a device between two in which values are read, which waits for the device.

A search computes up to ``READ_EVERY - 1`` steps in vain after its last prefix has ended.
"""


def grow(
    extend: Extend,
    model: StepModel[StateT],
    source: Tensor,
    source_lengths: Tensor,
    max_length: int,
    keep_attention: bool,
    min_length: int = 0,
) -> FrozenTree:
    """Run a search until no prefix is live or ``max_length`` steps are done.

    ``extend`` is a method of a search that starts from one empty prefix per sentence, and updates
    its state in place; the other arguments are those of :func:`~repro.decoding.beam_search`.

    Returns:
        The tree of all prefixes that the search kept.
    """
    tree = PrefixTree()
    state, previous = begin(model, source, source_lengths)
    for step in range(1, max_length + 1):
        output = model.step(state, previous)
        probs = output.probs
        if step < min_length:  # forbid EOS, without renormalizing the rest
            probs = probs.clone()
            probs[:, Vocabulary.EOS] = 0.0
        attention = output.attention if keep_attention else output.attention[:, :0]
        reads = step == max_length or reads_values(step, source.device)
        rows, previous, same_sources = extend(probs, attention, tree, reads)
        if not len(rows):
            break
        state = output.state.select(rows, same_sources)
    return tree.freeze(source_lengths if keep_attention else None)


def reads_values(step: int, device: torch.device) -> bool:
    """Return whether a search reads values in a step, which on a device waits for the device."""
    return device.type == "cpu" or step % READ_EVERY == 0


def check_sizes(**sizes: int) -> None:
    """Raise ValueError naming the first size that is below one."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def begin(
    model: StepModel[StateT], source: Tensor, source_lengths: Tensor
) -> tuple[StateT, Tensor]:
    """Encode a batch; return the first state and the first previous tokens, BOS, ``(B,)``.

    Raises:
        ValueError: if there is no sentence or not one length for each.
    """
    if source.ndim != 2 or not len(source) or source_lengths.shape != source.shape[:1]:
        shapes = f"{tuple(source.shape)} and {tuple(source_lengths.shape)}"
        raise ValueError(f"source must be (B, S) and its lengths (B,) with B >= 1, got {shapes}")
    previous = torch.full((len(source),), Vocabulary.BOS, device=source.device)
    return model.start(source, source_lengths), previous


def log_probabilities(probs: Tensor) -> Tensor:
    """Take logarithms safely: float64, ``-inf`` for an exact zero, never above zero."""
    return probs.double().log().clamp(max=0.0)


def check_probabilities(probs: Tensor) -> None:
    """Raise ValueError if an entry is NaN, negative or above one by more than rounding."""
    least, most = torch.stack(torch.aminmax(probs)).tolist()
    if not 0 <= least <= most <= 1 + 1e-4:
        raise ValueError("the model returned probabilities outside [0, 1] or NaN")


def most_probable(probs: Tensor, count: int) -> Tensor:
    """Find the most probable tokens of each row; of equal ones, the lowest ids come first.

    Nonnegative floats compare like their bit patterns, so probability and id are packed into one
    unique integer key. ``topk`` of probabilities would break ties depending on the device.

    Returns:
        Token ids, ``(N, count)`` long, most probable first, of probabilities ``(N, V)`` in float32.
    """
    lower_first = torch.arange(probs.shape[1] - 1, -1, -1, device=probs.device)
    keys = probs.float().contiguous().view(torch.int32).long().clamp_(min=0)
    keys.bitwise_left_shift_(32).bitwise_or_(lower_first)
    return probs.shape[1] - 1 - (keys.topk(count, dim=1).values & 0xFFFFFFFF)
