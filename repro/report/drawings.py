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
    REPETITIONS,
    STRIPS,
    PanelStyle,
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
from repro.report.forced_steps import choose_forced, forced_example
from repro.report.lattice import describe_lattice, draw_lattice, remark_lattice
from repro.report.panel_choice import (
    gather_longer_summary,
    gather_sentences,
    gather_shorter_summary,
    remark_summaries,
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


def no_names(row: Row) -> Sequence[str]:
    """Rows that ``drawing.prefer`` cannot ask for have no names."""
    return ()


@dataclass(frozen=True)
class DrawingSpec:
    """One kind of figure.

    Attributes:
        read: rows that a run kept for it.
        choose: position of the row to show, given the texts preferred.
        draw: the figure of one row; of several under ``sentences`` where ``count`` is above 1.
        describe: the figure in words, for those who cannot see it.
        remark: what a reader must know before believing the caption; usually blank.
        names: texts by which ``drawing.prefer`` may ask for a row.
        rule: how ``choose`` chooses among rows that nobody asked for, in words.
        count: rows that are shown, if there are so many.
    """

    read: Callable[[RunFolder], list[Row]]
    choose: Callable[[Sequence[Row], Sequence[str]], int]
    draw: Callable[[Mapping[str, Any]], Figure]
    describe: Callable[[Mapping[str, Any]], str]
    remark: Callable[[Mapping[str, Any]], str]
    names: Callable[[Row], Sequence[str]] = no_names
    rule: str = ""
    count: int = 1


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
        rule: how ``gather`` chooses among examples that nobody asked for, in words.
    """

    read: Callable[[RunFolder], list[Row]]
    gather: Callable[[Mapping[str, Sequence[Row]], Sequence[str]], Row]
    draw: Callable[[Mapping[str, Any]], Figure]
    describe: Callable[[Mapping[str, Any]], str]
    remark: Callable[[Mapping[str, Any]], str]
    rule: str = ""


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


def _attention_names(row: Row) -> Sequence[str]:
    return attention_example(row).names


def _lattice_names(row: Row) -> Sequence[str]:
    return lattice_example(row).names


def _parse_names(row: Row) -> Sequence[str]:
    return parsed_sentence(row).names


def _forced_names(row: Row) -> Sequence[str]:
    return forced_example(row).names


def _choose_parses(rows: Sequence[Row], prefer: Sequence[str]) -> int:
    return choose_parses([parsed_sentence(row) for row in rows], prefer)


def _premises(count: int) -> ComparisonSpec:
    return ComparisonSpec(
        read=RunFolder.read_attention,
        gather=partial(gather_premises, count=count),
        draw=draw_premises,
        describe=describe_premises,
        remark=remark_premises,
        rule="the longest premise of at most 24 words about which every model is right",
    )


def _panels(count: int, longest: int, style: PanelStyle = STRIPS) -> ComparisonSpec:
    """The longest sources that fit."""
    return _chosen_panels(
        partial(gather_sentences, count=count, longest=longest),
        f"the longest source of at most {longest} symbols",
        partial(remark_attention_panels, style=style),
        style,
    )


def _chosen_panels(
    gather: Callable[[Mapping[str, Sequence[Row]], Sequence[str]], Row],
    rule: str,
    remark: Callable[[Mapping[str, Any]], str],
    style: PanelStyle = STRIPS,
) -> ComparisonSpec:
    return ComparisonSpec(
        read=RunFolder.read_attention,
        gather=gather,
        draw=partial(draw_attention_panels, style=style),
        describe=describe_attention_panels,
        remark=remark,
        rule=rule,
    )


DRAWINGS: dict[str, Spec] = {
    "attention": DrawingSpec(
        read=RunFolder.read_attention,
        choose=_choose_attention,
        draw=draw_attention,
        describe=describe_attention,
        remark=remark_attention,
        names=_attention_names,
        rule="the longest source of at most 30 symbols that is predicted correctly",
    ),
    "lattice": DrawingSpec(
        read=RunFolder.read_hypotheses,
        choose=_choose_lattice,
        draw=draw_lattice,
        describe=describe_lattice,
        remark=remark_lattice,
        names=_lattice_names,
        rule="the most even complete set of two to four hypotheses with the gold form",
    ),
    "dependency_arcs": DrawingSpec(
        read=RunFolder.read_candidates,
        choose=_choose_parses,
        draw=draw_dependency_arcs,
        describe=describe_dependency_arcs,
        remark=remark_dependency_arcs,
        names=_parse_names,
        rule="at most 14 words and two to four candidates, the gold tree among them and not the "
        "heaviest, the most even weights",
        count=2,
    ),
    "premise_attention": _premises(1),
    "premise_attention_of_three": _premises(3),
    "alignment_grids": ComparisonSpec(
        read=RunFolder.read_attention,
        gather=gather_alignment,
        draw=draw_alignments,
        describe=describe_alignments,
        remark=remark_alignments,
        rule="a neutral pair of at most 14 by 12 words that every model predicts correctly, the "
        "most cells",
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
        names=_forced_names,
        rule="of translations of at most 16 symbols with nonzero probability the one where single "
        "continuations and choices take turns most often",
    ),
    "attention_to_summarized": _panels(1, LONGEST_SUMMARIZED),
    "attention_to_two_summarized": _panels(2, LONGEST_SUMMARIZED),
    "attention_to_translated": _panels(1, LONGEST_TRANSLATED),
    "attention_to_two_translated": _panels(2, LONGEST_TRANSLATED, REPETITIONS),
    "attention_to_six_translated": _panels(6, LONGEST_OF_MANY),
    "longer_summary": _chosen_panels(
        partial(gather_longer_summary, longest=LONGEST_SUMMARIZED),
        f"of sources of at most {LONGEST_SUMMARIZED} words the one whose summary by fusedmax "
        "exceeds the longest of the others the most",
        remark_summaries,
    ),
    "shorter_summary": _chosen_panels(
        partial(gather_shorter_summary, longest=LONGEST_SUMMARIZED),
        f"of sources of at most {LONGEST_SUMMARIZED} words the one whose summaries by fusedmax and "
        "oscarmax fall short of the shortest of the others the most",
        remark_summaries,
    ),
    "translations": ComparisonSpec(
        read=RunFolder.read_attention,
        gather=gather_translations,
        draw=draw_translations,
        describe=describe_translations,
        remark=remark_translations,
        rule="of sources of at most 24 symbols the one where the best translation finds most words "
        "of the reference that the worst one lacks",
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
