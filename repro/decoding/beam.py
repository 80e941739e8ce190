"""Batched beam search that exploits exact zeros and can certify that its answer is optimal.

The beam of a sentence holds the ``K`` most probable of its hypotheses, finished and live together.
A finished one keeps its place until ``K`` better ones push it out. Probability never rises as a
prefix grows, so a live prefix ranked behind ``K`` finished hypotheses can never overtake them.
Only live prefixes are passed to the model: work shrinks as sentences finish.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.data.vocabulary import Vocabulary
from repro.decoding import search
from repro.decoding.protocol import StateT, StepModel
from repro.decoding.search import Extended, FrozenTree, Hypothesis, PrefixTree

IMPOSSIBLE = float("-inf")
PRINTED = 7
"""Decimals of log-probabilities in the logs of Peters et al. (2019)."""


@dataclass(frozen=True)
class BeamResult:
    """Hypotheses and certificates of beam search for one sentence.

    Attributes:
        hypotheses: best first. Finished ones only, unless none finished within ``max_length``;
            empty if every prefix ran into a row of zeros.
        certified: the beam held every hypothesis of nonzero probability and all of them finished,
            so that ``hypotheses`` is the whole support of the model.
        optimal: nothing that was dropped was more probable than ``hypotheses[0]``, which is thus a
            most probable sequence of the model. Follows from ``certified``.
    """

    hypotheses: list[Hypothesis]
    certified: bool
    optimal: bool

    @property
    def single(self) -> bool:
        """Return whether the search proves that all mass is on one sequence."""
        return self.certified and len(self.hypotheses) == 1

    @property
    def certified_printed(self) -> bool:
        """Return whether printed probabilities of the hypotheses add up to one.

        A log, in which log-probabilities have seven decimals, certifies every single hypothesis,
        but loses about half of the larger sets to rounding.

        References:
            Peters et al. (2019), §4.1: ``Translation.log`` of the released program.
        """
        finished = [one.log_probability for one in self.hypotheses if one.finished]
        return sum(math.exp(round(one, PRINTED)) for one in finished) >= 1


@torch.no_grad()
def beam_search(
    model: StepModel[StateT],
    source: Tensor,
    source_lengths: Tensor,
    *,
    beam_size: int = 5,
    max_length: int,
    keep_attention: bool = False,
    min_length: int = 0,
) -> list[BeamResult]:
    r"""Search for the most probable target sequences of a batch.

    .. math:: \hat y \approx \arg\max_y \sum_t \log p(y_t \mid x, y_{<t})

    Equal scores are ordered by the rank of the parent, then by step probability, then by token id.

    Args:
        model: in evaluation mode; its rows sum to one or are zero throughout.
        source: token ids, ``(B, S)`` long.
        source_lengths: number of tokens of each source, the rest is padding, ``(B,)`` long.
        beam_size: ``K``, hypotheses kept per sentence.
        max_length: largest number of tokens in a hypothesis, EOS included.
        keep_attention: whether hypotheses carry their attention.
        min_length: smallest number of tokens in a hypothesis, EOS included. Shorter ones are
            excluded from the search and from ``certified`` and ``optimal``; probabilities of the
            others are not renormalized.

    Returns:
        One result per sentence, with at most ``K`` hypotheses.

    Raises:
        ValueError: if a size is below one, ``min_length`` exceeds ``max_length``, or the model
            returns no probabilities.

    References:
        Peters, Niculae & Martins (2019), Section 4.1, for the certificate.
    """
    search.check_sizes(beam_size=beam_size, max_length=max_length)
    if min_length > max_length:
        raise ValueError(f"min_length {min_length} exceeds max_length {max_length}")
    beam = _Beam(len(source), beam_size, source.device)
    tree = search.grow(
        beam.extend, model, source, source_lengths, max_length, keep_attention, min_length
    )
    return beam.results(tree)


def greedy(
    model: StepModel[StateT], source: Tensor, source_lengths: Tensor, *, max_length: int
) -> list[BeamResult]:
    """Take the most probable token at every step: beam search with a beam of one."""
    return beam_search(model, source, source_lengths, beam_size=1, max_length=max_length)


class _Beam:
    """Beams of ``B`` sentences; slots are best first and empty ones score ``-inf``.

    On the CPU, and on a device in the steps that read values, the rows of the model's state are the
    live slots. In the other steps of a device they are all slots of the sentences that had a live
    one when values were last read: shapes then do not depend on values.
    """

    def __init__(self, sentences: int, beam_size: int, device: torch.device) -> None:
        shape = (sentences, beam_size)  # (B, K); at first the empty prefix alone in every beam
        self.scores = torch.full(shape, IMPOSSIBLE, dtype=torch.float64, device=device)
        self.scores[:, 0] = 0.0
        self.nodes = torch.full(shape, -1, device=device)  # in the prefix tree
        self.live = self.scores == 0.0
        # The best log-probability of anything ever dropped, (B,).
        self.dropped = torch.full_like(self.scores[:, 0], IMPOSSIBLE)
        # Flat indices: the slots of the sentences still searched, and the slot of each state row.
        self.slots = torch.arange(sentences * beam_size, device=device)
        self.rows = self.slots[::beam_size]
        self.padded = False  # whether some rows may not be live
        self.seen: list[Tensor] = []  # smallest and largest probability of steps not yet checked

    def extend(self, probs: Tensor, attention: Tensor, tree: PrefixTree, reads: bool) -> Extended:
        """Extend every live prefix by every token and keep the best ``K``; see ``Extend``."""
        beams, beam_size = self.scores.shape
        alive = self.live.view(-1, 1)[self.rows] if self.padded else None  # (N, 1)
        if alive is not None:
            probs = probs.where(alive, 0.0)
        self.seen.append(torch.stack(torch.aminmax(probs)))
        # Candidates for K slots, and one more for the best that is dropped: tokens (N, W), and
        # scores (B K, W), which have finished hypotheses in column 0.
        width = min(beam_size + 1, probs.shape[1])
        tokens = search.most_probable(probs, width)
        scores = self.scores.new_full((beams * beam_size, width), IMPOSSIBLE)
        scores[:, 0] = self.scores.flatten()
        steps = search.log_probabilities(probs.gather(1, tokens))
        steps += self.scores.view(-1, 1)[self.rows]
        if alive is not None:
            steps = steps.where(alive, scores[self.rows])
        scores.index_copy_(0, self.rows, steps)
        ranked, order = scores.view(beams, -1).sort(dim=1, descending=True, stable=True)
        self.dropped = torch.maximum(self.dropped, ranked[:, beam_size])
        self.scores, order = ranked[:, :beam_size].contiguous(), order[:, :beam_size]
        slots = order // width
        grown = (self.live.gather(1, slots) & (self.scores > IMPOSSIBLE)).flatten()
        kept = grown.nonzero().squeeze(1) if reads else self.slots  # (M,)
        # The row of the model's state that each slot's prefix extends.
        row_of_slot = torch.zeros_like(self.nodes).flatten()
        row_of_slot.index_copy_(0, self.rows, torch.arange(len(self.rows), device=probs.device))
        rows = row_of_slot.view_as(slots).gather(1, slots).flatten()[kept]
        last = tokens[rows, (order % width).flatten()[kept]]
        nodes = self.nodes.gather(1, slots).flatten()
        new = tree.grow(nodes[kept], last, probs[rows, last], attention[rows])
        nodes.index_copy_(0, kept, new.where(grown[kept], nodes[kept]))
        continues = grown[kept] & (last != Vocabulary.EOS)
        live = torch.zeros_like(grown).index_copy_(0, kept, continues)
        self.nodes, self.live = nodes.view_as(slots), live.view_as(slots)
        # Rows that are all slots stay those of the same sentences.
        same_sources, before = self.padded and not reads, self.rows
        self.rows, self.padded = kept, not reads
        if reads:
            search.check_probabilities(torch.stack(self.seen))
            self.seen.clear()
            searched = self.live.any(1, keepdim=True).expand_as(slots).flatten()
            self.slots = searched.nonzero().squeeze(1)
            self.rows, rows, last = kept[continues], rows[continues], last[continues]
            same_sources = torch.equal(self.rows // beam_size, before // beam_size)
        return Extended(rows, last, same_sources)

    def results(self, tree: FrozenTree) -> list[BeamResult]:
        """Read the hypotheses of every sentence and what is proven about them."""
        unfinished = self.scores.masked_fill(~self.live, IMPOSSIBLE).amax(1)
        best_lost = torch.maximum(self.dropped, unfinished).tolist()
        # Return the finished hypotheses of a beam, or the live ones if none finished.
        finished_slots = ~self.live & (self.scores > IMPOSSIBLE)
        anything = finished_slots.any(1, keepdim=True)
        wanted = torch.where(anything, finished_slots, self.live).tolist()
        scores, nodes = self.scores.tolist(), self.nodes.tolist()
        results = []
        for sentence, lost in enumerate(best_lost):
            slots = zip(nodes[sentence], scores[sentence], wanted[sentence], strict=True)
            found = [tree.hypothesis(node, score, sentence) for node, score, want in slots if want]
            finished = bool(found) and found[0].finished
            optimal = finished and lost <= found[0].log_probability
            results.append(BeamResult(found, finished and lost == IMPOSSIBLE, optimal))
        return results
