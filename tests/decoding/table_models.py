"""Tiny models given by tables, and what decoding them must yield, in plain Python."""

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.data.vocabulary import Vocabulary
from repro.decoding import StepOutput
from repro.models.layers import length_mask

BOS, EOS = Vocabulary.BOS, Vocabulary.EOS
SYMBOLS = (4, 5)
VOCABULARY = 6
TOLERANCE = 1e-9
"""Tolerance of log-probabilities in float64: two ways to round a sum of a few logarithms"""
FLOAT32_TOLERANCE = 1e-6
"""Tolerance of quantities averaged or normalized in float32"""

Row = list[float]
Table = list[list[Row]]
"""``table[step][previous][token]``; the last step repeats forever"""


@dataclass(frozen=True)
class TableState:
    kinds: Tensor
    mask: Tensor
    step: int

    def select(self, rows: Tensor, same_sources: bool = False) -> "TableState":
        if same_sources:
            return self
        return TableState(self.kinds[rows], self.mask[rows], self.step)


class TableModel:
    """Reads the distribution of sentence kind ``source[:, 0]`` from a table."""

    def __init__(self, tables: list[Table]) -> None:
        self.tables = torch.tensor(tables)
        self.rows_per_step: list[int] = []

    def start(self, source: Tensor, source_lengths: Tensor) -> TableState:
        self.rows_per_step = []
        return TableState(source[:, 0], length_mask(source_lengths, source.shape[1]), 0)

    def step(self, state: TableState, previous: Tensor) -> StepOutput[TableState]:
        assert len(previous) == len(state.kinds)
        self.rows_per_step.append(len(previous))
        step = min(state.step, self.tables.shape[1] - 1)
        stamp = (100 * state.kinds + 10 * state.step + previous).float()
        return StepOutput(
            probs=self.tables[state.kinds, step, previous],
            attention=state.mask * stamp.unsqueeze(1),
            state=TableState(state.kinds, state.mask, state.step + 1),
        )


def sources(kinds: list[int], lengths: list[int] | None = None) -> tuple[Tensor, Tensor]:
    lengths = lengths or [1] * len(kinds)
    source = torch.zeros(len(kinds), max(lengths), dtype=torch.long)
    source[:, 0] = torch.tensor(kinds)
    return source, torch.tensor(lengths)


def row(**weights: float) -> Row:
    """A distribution from names: ``row(a=0.5, b=0.25, end=0.25)``."""
    ids = {"a": SYMBOLS[0], "b": SYMBOLS[1], "end": EOS}
    out = [0.0] * VOCABULARY
    for name, weight in weights.items():
        out[ids[name]] = weight
    return out


def same_for_all(*rows: Row) -> Table:
    """A table whose rows do not depend on the previous token."""
    return [[step] * VOCABULARY for step in rows]


def random_row(rng: random.Random, tokens: list[int], dead: float) -> Row:
    if rng.random() < dead:
        return [0.0] * VOCABULARY
    support = rng.sample(tokens, rng.randint(1, min(3, len(tokens))))
    weights = {token: rng.uniform(0.05, 1.0) for token in support}
    total = sum(weights.values())
    return [weights.get(token, 0.0) / total for token in range(VOCABULARY)]


def random_table(rng: random.Random, *, steps: int, closed: bool, dead: float = 0.0) -> Table:
    """``closed`` tables end every sequence at their last step; others repeat it forever."""
    table = []
    for step in range(steps):
        tokens = [EOS] if closed and step == steps - 1 else [EOS, *SYMBOLS]
        table.append([random_row(rng, tokens, dead) for _ in range(VOCABULARY)])
    return table


def random_model(seed: int, *, closed: bool, dead: float = 0.0, kinds: int = 3) -> TableModel:
    rng = random.Random(seed)
    steps = rng.randint(2, 5)
    tables = [random_table(rng, steps=steps, closed=closed, dead=dead) for _ in range(kinds)]
    return TableModel(tables)


def next_row(model: TableModel, kind: int, prefix: tuple[int, ...]) -> Row:
    step = min(len(prefix), model.tables.shape[1] - 1)
    return model.tables[kind, step, prefix[-1] if prefix else BOS].tolist()


@dataclass(frozen=True)
class Enumeration:
    """All strings of nonzero probability, by brute force."""

    finished: dict[tuple[int, ...], float]  # log-probability of each string, EOS removed
    most_at_once: int  # largest number of finished strings and live prefixes of one length
    live_at_end: int

    def fits(self, beam_size: int) -> bool:
        return bool(self.finished) and not self.live_at_end and self.most_at_once <= beam_size


def enumerate_strings(model: TableModel, kind: int, max_length: int) -> Enumeration:
    live: dict[tuple[int, ...], float] = {(): 0.0}
    finished: dict[tuple[int, ...], float] = {}
    most = 1
    for _ in range(max_length):
        longer = {}
        for prefix, score in live.items():
            for token, p in enumerate(next_row(model, kind, prefix)):
                if p > 0 and token == EOS:
                    finished[prefix] = score + math.log(p)
                elif p > 0:
                    longer[(*prefix, token)] = score + math.log(p)
        live = longer
        most = max(most, len(finished) + len(live))
    return Enumeration(finished, most, len(live))


@dataclass(frozen=True)
class Reference:
    """Result of a beam search written with lists: strings with EOS, best first."""

    strings: list[tuple[int, ...]]
    certified: bool
    optimal: bool


def reference_beam(model: TableModel, kind: int, beam_size: int, max_length: int) -> Reference:
    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    lost = [-math.inf]
    for _ in range(max_length):
        candidates = []
        for prefix, score in beam:
            if prefix[-1:] == (EOS,):
                candidates.append((prefix, score))
                continue
            for token, p in enumerate(next_row(model, kind, prefix)):
                if p > 0:
                    candidates.append(((*prefix, token), score + math.log(p)))
        candidates.sort(key=lambda candidate: -candidate[1])
        beam, dropped = candidates[:beam_size], candidates[beam_size:]
        lost += [score for _, score in dropped]
    finished = [(string, score) for string, score in beam if string[-1:] == (EOS,)]
    lost += [score for string, score in beam if string[-1:] != (EOS,)]
    return Reference(
        strings=[string for string, _ in finished or beam],
        certified=bool(finished) and max(lost) == -math.inf,
        optimal=bool(finished) and max(lost) <= finished[0][1],
    )
