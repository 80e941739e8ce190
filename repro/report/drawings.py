"""The drawings that an experiment can name: what a run kept, what to show of it, how to draw it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from repro.report.alignment_grids import (
    describe_alignments,
    draw_alignments,
    gather_alignment,
    remark_alignments,
)
from repro.report.attention import describe_attention, draw_attention, remark_attention
from repro.report.choose import choose_attention, choose_lattice
from repro.report.dependency_arcs import (
    describe_dependency_arcs,
    draw_dependency_arcs,
    remark_dependency_arcs,
)
from repro.report.examples import attention_example, lattice_example
from repro.report.lattice import describe_lattice, draw_lattice, remark_lattice
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
from repro.results import ResultsError, RunFolder

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


DRAWINGS: dict[str, DrawingSpec | ComparisonSpec] = {
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
}


def drawing(name: str) -> DrawingSpec | ComparisonSpec:
    """Look up a drawing.

    Raises:
        ResultsError: there is none of this name.
    """
    if name not in DRAWINGS:
        raise ResultsError(f"no drawing {name!r}; choose from: {', '.join(DRAWINGS)}")
    return DRAWINGS[name]
