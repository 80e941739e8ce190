"""The drawings that an experiment can name: what a run kept, what to show of it, how to draw it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from matplotlib.figure import Figure

from repro.report.accuracy_over_time import (
    describe_times,
    draw_times,
    gather_times,
    remark_times,
)
from repro.report.alignment_grids import (
    describe_alignments,
    draw_alignments,
    gather_alignment,
    remark_alignments,
)
from repro.report.alpha_sweep import describe_sweep, draw_sweep, gather_sweep, remark_sweep
from repro.report.attention import describe_attention, draw_attention, remark_attention
from repro.report.attention_panels import (
    describe_attention_panels,
    draw_attention_panels,
    remark_attention_panels,
)
from repro.report.choose import choose_attention, choose_lattice
from repro.report.curves import ShownRun
from repro.report.dependency_arcs import (
    describe_dependency_arcs,
    draw_dependency_arcs,
    remark_dependency_arcs,
)
from repro.report.examples import attention_example, lattice_example
from repro.report.forced_decoding import describe_forced, draw_forced, remark_forced
from repro.report.forced_steps import choose_forced
from repro.report.lattice import describe_lattice, draw_lattice, remark_lattice
from repro.report.panel_choice import (
    gather_longer_summary,
    gather_sentences,
    gather_shorter_summary,
    remark_longer_summary,
    remark_shorter_summary,
)
from repro.report.parses import choose_parses, parsed_sentence
from repro.report.premise_attention import (
    describe_premises,
    draw_premises,
    gather_premises,
    remark_premises,
)
from repro.report.sparsity_over_training import (
    choose_sparsity,
    describe_sparsity,
    draw_sparsity,
    read_sparsity,
    remark_sparsity,
)
from repro.report.translations import (
    describe_translations,
    draw_translations,
    gather_translations,
    remark_translations,
)
from repro.results import ResultsError, RunFolder

LONGEST_SUMMARIZED, LONGEST_TRANSLATED, LONGEST_OF_MANY = 24, 14, 10
"""Symbols of a source that fit beside and below the panels of other runs."""

Row = dict[str, Any]


@dataclass(frozen=True)
class DrawingSpec:
    """One kind of figure.

    Attributes:
        read: rows that a run kept for it.
        choose: position of the row to show, given the lemmas preferred.
        draw: the figure of one row.
        describe: the figure in words, for those who cannot see it.
        remark: what a reader must know before believing the caption; usually blank.
    """

    read: Callable[[RunFolder], list[Row]]
    choose: Callable[[Sequence[Row], Sequence[str]], int]
    draw: Callable[[Mapping[str, Any]], Figure]
    describe: Callable[[Mapping[str, Any]], str]
    remark: Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class ComparisonSpec:
    """One kind of figure that shows several runs: the best one of each row of the experiment.

    Attributes:
        read: rows that a run kept for it.
        gather: the example to draw, from the rows of each run by the label of its row, given the
            texts preferred.
        draw: the figure of the example.
        describe: the figure in words, for those who cannot see it.
        remark: what a reader must know before believing the caption.
    """

    read: Callable[[RunFolder], list[Row]]
    gather: Callable[[Mapping[str, Sequence[Row]], Sequence[str]], Row]
    draw: Callable[[Mapping[str, Any]], Figure]
    describe: Callable[[Mapping[str, Any]], str]
    remark: Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class SeriesSpec:
    """One kind of figure that shows all runs of the experiment.

    Attributes:
        gather: what is drawn, from the runs and the metric that the experiment names.
        draw: the figure of it.
        describe: the figure in words, for those who cannot see it.
        remark: what a reader must know before believing the caption.
    """

    gather: Callable[[Sequence[ShownRun], str], Row]
    draw: Callable[[Mapping[str, Any]], Figure]
    describe: Callable[[Mapping[str, Any]], str]
    remark: Callable[[Mapping[str, Any]], str]


Spec = DrawingSpec | ComparisonSpec | SeriesSpec


def _choose_attention(rows: Sequence[Row], prefer: Sequence[str]) -> int:
    return choose_attention([attention_example(row) for row in rows], prefer)


def _choose_lattice(rows: Sequence[Row], prefer: Sequence[str]) -> int:
    return choose_lattice([lattice_example(row) for row in rows], prefer)


def _choose_parses(rows: Sequence[Row], prefer: Sequence[str]) -> int:
    return choose_parses([parsed_sentence(row) for row in rows], prefer)


def _premises(count: int) -> ComparisonSpec:
    return ComparisonSpec(
        read=RunFolder.read_attention,
        gather=partial(gather_premises, count=count),
        draw=draw_premises,
        describe=describe_premises,
        remark=remark_premises,
    )


def _panels(
    gather: Callable[[Mapping[str, Sequence[Row]], Sequence[str]], Row],
    remark: Callable[[Mapping[str, Any]], str] = remark_attention_panels,
) -> ComparisonSpec:
    return ComparisonSpec(
        read=RunFolder.read_attention,
        gather=gather,
        draw=draw_attention_panels,
        describe=describe_attention_panels,
        remark=remark,
    )


DRAWINGS: dict[str, Spec] = {
    "attention": DrawingSpec(
        read=RunFolder.read_attention,
        choose=_choose_attention,
        draw=draw_attention,
        describe=describe_attention,
        remark=remark_attention,
    ),
    "lattice": DrawingSpec(
        read=RunFolder.read_hypotheses,
        choose=_choose_lattice,
        draw=draw_lattice,
        describe=describe_lattice,
        remark=remark_lattice,
    ),
    "dependency_arcs": DrawingSpec(
        read=RunFolder.read_candidates,
        choose=_choose_parses,
        draw=draw_dependency_arcs,
        describe=describe_dependency_arcs,
        remark=remark_dependency_arcs,
    ),
    "premise_attention": _premises(1),
    "premise_attention_of_three": _premises(3),
    "alignment_grids": ComparisonSpec(
        read=RunFolder.read_attention,
        gather=gather_alignment,
        draw=draw_alignments,
        describe=describe_alignments,
        remark=remark_alignments,
    ),
    "sparsity_over_training": DrawingSpec(
        read=read_sparsity,
        choose=choose_sparsity,
        draw=draw_sparsity,
        describe=describe_sparsity,
        remark=remark_sparsity,
    ),
    "forced_decoding": DrawingSpec(
        read=RunFolder.read_forced,
        choose=choose_forced,
        draw=draw_forced,
        describe=describe_forced,
        remark=remark_forced,
    ),
    "attention_to_summarized": _panels(
        partial(gather_sentences, count=1, longest=LONGEST_SUMMARIZED)
    ),
    "attention_to_two_summarized": _panels(
        partial(gather_sentences, count=2, longest=LONGEST_SUMMARIZED)
    ),
    "attention_to_translated": _panels(
        partial(gather_sentences, count=1, longest=LONGEST_TRANSLATED)
    ),
    "attention_to_six_translated": _panels(
        partial(gather_sentences, count=6, longest=LONGEST_OF_MANY)
    ),
    "longer_summary": _panels(
        partial(gather_longer_summary, longest=LONGEST_SUMMARIZED), remark_longer_summary
    ),
    "shorter_summary": _panels(
        partial(gather_shorter_summary, longest=LONGEST_SUMMARIZED), remark_shorter_summary
    ),
    "translations": ComparisonSpec(
        read=RunFolder.read_attention,
        gather=gather_translations,
        draw=draw_translations,
        describe=describe_translations,
        remark=remark_translations,
    ),
    "alpha_sweep": SeriesSpec(
        gather=gather_sweep,
        draw=draw_sweep,
        describe=describe_sweep,
        remark=remark_sweep,
    ),
    "accuracy_over_time": SeriesSpec(
        gather=gather_times,
        draw=draw_times,
        describe=describe_times,
        remark=remark_times,
    ),
}


@cache
def registered_drawings() -> dict[str, Spec]:
    """Every drawing by name: those above, and the ``DRAWINGS`` of other modules of the package.

    Raises:
        ValueError: two modules claim the same name.
    """
    found: dict[str, Spec] = {}
    for module in iter_modules(import_module("repro.report").__path__):
        declared = getattr(import_module(f"repro.report.{module.name}"), "DRAWINGS", {})
        twice = found.keys() & declared.keys()
        if twice:
            raise ValueError(f"repro.report.{module.name}: drawings {sorted(twice)} stand twice")
        found |= declared
    return found


def drawing(name: str) -> Spec:
    """Look up a drawing.

    Raises:
        ResultsError: there is none of this name.
    """
    drawings = registered_drawings()
    if name not in drawings:
        raise ResultsError(f"no drawing {name!r}; choose from: {', '.join(drawings)}")
    return drawings[name]
