"""The report as data: one section per artefact, ready for every renderer."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from repro.checksums import DamagedFileError
from repro.config.claims import Reference, load_claims
from repro.config.experiment import Experiment, list_experiments, load_experiment
from repro.errors import visible
from repro.evaluation.metrics import metric_of
from repro.report.breakdown import (
    language_grids,
    runs_grid,
    summary_grid,
    tuning_grid,
    tuning_remarks,
)
from repro.report.cell import COLLAPSE, COLLAPSE_RANGES, FAILED_MARK, MISSING, UNTESTED
from repro.report.claims import ClaimsOfPaper, claims_by_paper, judge_claims
from repro.report.figure_view import FigureView, figure_view
from repro.report.figures import (
    export_figure_data,
    figure_kind,
    read_figure_data,
)
from repro.report.grid import Grid, linked_runs, table_grids
from repro.report.matrix import Line, claims_matrix
from repro.report.provenance import (
    GENERATED_SCALE,
    PAPERS_MODELS,
    SEPARATOR,
    document_banner,
    provenance_items,
    reproduce_command,
    scale_banner,
)
from repro.report.significance import Comparer, compare_rows, significance_grid, significance_note
from repro.report.sweeps import SweepView, sweep_view
from repro.report.table import (
    COLLAPSED,
    DIVERGED,
    EARLIER,
    Table,
    build_table,
    marked_departures,
)
from repro.results import Archive, Measurement, ResultsError, figure_path, run_folder
from repro.results.cells import refuse_unknown_metrics
from repro.results.labels import counted
from repro.results.sweeps import read_sweeps
from repro.results.timed import TimedUpdates

_log = logging.getLogger(__name__)
NOT_RUN = "not run at this scale"
NOT_DRAWN = "not drawn: the folders of its runs are not here"
NEEDS_NO_RUN = "computed by the library, needs no run"
NARROW = 44
"""Largest width, in characters, of grids that are drawn side by side."""
PAGE, GAP = 132, 2
"""Width of a page of text and of the space between two columns, in characters."""
VISIBLE = 3
"""Number of notes below a table that are not folded."""
_DIRECTIONS = {True: "↑", False: "↓", None: ""}
"""Arrows by whether higher values of a metric are better."""


@dataclass(frozen=True)
class Section:
    """Artefact of the report that has results."""

    experiment: Experiment
    state: str  # text that says how complete the artefact is
    # Warning that the values are not comparable with the paper's; blank at full scale and for
    # artefacts that need no run.
    banner: str
    table: Table
    figure: FigureView | None
    facts: tuple[tuple[str, str], ...]  # names and values: command, metric, corpus, device, runs
    notes: tuple[str, ...]  # remarks, those that change how a value is read first
    grids: tuple[Grid, ...] = ()  # main tables, always visible
    details: tuple[Grid, ...] = ()  # further tables, collapsed at first
    signs: tuple[str, ...] = ()  # explanations of the signs in the cells

    @property
    def anchor(self) -> str:
        """ID of the section in a page, the target of links."""
        return self.experiment.anchor

    @property
    def shown(self) -> bool:
        """Return whether it is a table, or a figure that is drawn."""
        return self.figure is not None or self.experiment.kind == "table"

    @property
    def remarks(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Notes below the table, explanations of all signs first, and the notes that fold."""
        every = tuple(filter(None, (" ".join(self.signs), *self.notes)))
        return every[:VISIBLE], every[VISIBLE:]

    @property
    def narrow(self) -> bool:
        """Return whether the grids are narrow enough to be drawn side by side."""
        return all(grid.letters <= NARROW for grid in self.grids)

    @property
    def stacked(self) -> bool:
        """Return whether the published grid is drawn below the measured one, in its columns."""
        return len(self.grids) == 2 and self.grids[1].muted and not self.narrow

    @property
    def parts(self) -> list[tuple[Grid, ...]]:
        """Grids split to the width of a page; stacked ones are split alike and stay together."""
        found = []
        for grids in [self.grids] if self.stacked else [(grid,) for grid in self.grids]:
            rows = tuple(row for grid in grids for row in grid.rows)
            for places in replace(grids[0], rows=rows).parts(PAGE, GAP):
                found.append(tuple(grid.of_columns(places) for grid in grids))
        return found

    @property
    def links(self) -> list[tuple[str, str]]:
        """Names and addresses, relative to the page, of the files that hold its values."""
        name, links = self.experiment.name, []
        if self.experiment.kind == "table":
            links = [(s.upper(), f"tables/{name}.{s}") for s in ("csv", "tex")]
        if self.figure is not None:
            above = "" if self.figure.home == self.table.scale else f"../{self.figure.home}/"
            links += [(s.upper(), f"{above}figures/{name}.{s}") for s in ("svg", "json")]
        return links


@dataclass(frozen=True)
class Absent:
    """Artefact without results: the reason, and the command to make it (blank if none can)."""

    name: str
    title: str
    reason: str
    command: str

    @property
    def exceptional(self) -> bool:
        """Return whether the artefact is absent for a reason other than not having been run."""
        return self.reason != NOT_RUN


@dataclass(frozen=True)
class PaperView:
    """Part of the report about one paper: its reference, claims and artefacts."""

    name: str
    reference: Reference
    sections: tuple[Section, ...]
    claims: ClaimsOfPaper | None

    @property
    def coverage(self) -> str:
        """Text with the numbers of artefacts with results and of table columns with values."""
        tables = [one.table for one in self.sections if one.experiment.kind == "table"]
        found = sum(len(table.columns_found) for table in tables)
        wanted = sum(len(table.experiment.columns) for table in tables)
        columns = f" · {found} of {wanted} columns of its tables" if wanted else ""
        return f"{counted(sum(one.shown for one in self.sections), 'artefact')}{columns}"


@dataclass(frozen=True)
class Document:
    """Report of one scale."""

    scale: str  # name of the scale
    banner: str  # warning about all values; blank if there is none
    sections: tuple[Section, ...]  # artefacts with results
    absent: tuple[Absent, ...]  # artefacts without results
    claims: tuple[ClaimsOfPaper, ...] = ()  # claims of the papers with their verdicts, by paper
    matrix: Sequence[Line] = ()  # the same claims with their verdicts at every scale
    # Bibliographic references by name of the paper's folder.
    references: Mapping[str, Reference] = field(default_factory=dict)
    sweeps: tuple[SweepView, ...] = ()  # multiruns, the last one first
    # End of each run, ISO 8601; blank if unknown.
    finished: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()  # of each failed run its ID, the cells that lack it, the reason
    left_out: tuple[str, ...] = ()  # files of damaged records, and what is wrong with them

    @property
    def alarms(self) -> list[tuple[str, tuple[str, ...]]]:
        """Titles and lists of what the values lack, for the top of the report."""
        failed = f"{len(self.failures)} of the runs failed"
        damaged = f"{counted(len(self.left_out), 'damaged record')} left out"
        return [one for one in ((failed, self.failures), (damaged, self.left_out)) if one[1]]

    @property
    def papers(self) -> list[PaperView]:
        """Claims and sections grouped by paper, in the order of their names; studies come last."""
        claims = {one.paper: one for one in self.claims}
        found = {*claims, *(section.experiment.paper for section in self.sections)}
        names = sorted(found, key=lambda name: (name not in self.references, name))
        return [
            PaperView(
                name,
                self.references.get(name, Reference(name.capitalize())),
                tuple(one for one in self.sections if one.experiment.paper == name),
                claims.get(name),
            )
            for name in names
        ]

    @property
    def new_sweeps(self) -> tuple[SweepView, ...]:
        """Sweeps whose last run ended after those of all artefacts."""
        swept = {run for view in self.sweeps for run in view.sweep.runs}
        grids = (grid for one in self.sections for grid in (*one.grids, *one.details))
        shown = {run.run_id for _, run in linked_runs(grids)} - swept
        last = max((end for run, end in self.finished.items() if run in shown), default="")
        return tuple(view for view in self.sweeps if view.finished > last)

    @property
    def summary(self) -> str:
        """One line with coverage, models, dates and devices; studies of the suite do not count."""
        shown = dict.fromkeys((absent.name for absent in self.absent), False)
        shown |= {section.experiment.name: section.shown for section in self.sections}
        papers = self.references or {name.split("/")[0] for name in shown}
        counts = [drawn for name, drawn in shown.items() if name.split("/")[0] in papers]
        covered = [f"{sum(counts)} of {len(counts)} tables and figures"] if counts else []
        covered += ["models of the papers"] if self.claims and self.scale in PAPERS_MODELS else []
        texts = (dict(section.facts).get("device", "") for section in self.sections)
        devices = dict.fromkeys(one for text in texts for one in text.split(SEPARATOR) if one)
        days = sorted({end[:10] for end in self.finished.values() if end})
        dates = [f"runs of {' to '.join(dict.fromkeys([days[0], days[-1]]))}"] if days else []
        return SEPARATOR.join([*covered, *dates, *[*devices][:2]])


def build_document(archive: Archive, names: Collection[str] | None = None) -> Document:
    """Collect records, figure data and published values of every experiment.

    An artefact of damaged runs is left out; a warning names the file.

    Args:
        archive: the records.
        names: artefacts whose figure data and paired tests are updated from the folders of their
            runs, if these exist; None for all.

    Raises:
        ResultsError: a file of results is malformed.
        ConfigError: an experiment file is malformed.
    """
    comparer, scale = Comparer(archive.results_dir, archive.scale), archive.scale
    experiments = [load_experiment(name) for name in list_experiments()]
    for experiment in experiments:
        refuse_unknown_metrics(experiment)
    updates = TimedUpdates(archive)
    parts = [
        _part(archive, updates, comparer, one, names is None or one.name in names)
        for one in experiments
    ]
    sweeps = [sweep_view(archive, comparer, one) for one in read_sweeps(archive.results_dir, scale)]
    comparer.save()
    judged = judge_claims(archive)
    references = {one.paper: one.reference for one in load_claims() if one.reference}
    sections = [part for part in parts if isinstance(part, Section)]
    # Studies of the suite's own come after the papers.
    sections.sort(key=lambda part: part.experiment.paper not in references)
    generated = scale == GENERATED_SCALE
    exact = bool(sections) and all(section.experiment.computed for section in sections)
    return Document(
        scale=scale,
        banner="" if exact else document_banner(scale),
        sections=tuple(sections),
        absent=tuple(part for part in parts if isinstance(part, Absent)),
        claims=tuple(claims_by_paper(judged)),
        # Invented languages decide no claim, and to judge other scales takes 300 configurations.
        matrix=() if generated else claims_matrix(archive.results_dir, {scale: judged}),
        references=references,
        sweeps=tuple(sorted(sweeps, key=lambda view: view.finished, reverse=True)),
        finished={record.run_id: record.finished for record in archive.records},
        failures=tuple(_failures(archive)),
        left_out=archive.left_out,
    )


def _failures(archive: Archive) -> Iterator[str]:
    """Describe each failed run."""
    places = defaultdict[str, list[str]](list)
    for name in list_experiments() if archive.failures else ():
        experiment = load_experiment(name)
        if archive.scale in experiment.scales:
            for (row, column), folders in archive.failed_cells(experiment).items():
                for folder in folders:
                    places[folder.run_id].append(f"{name} ({row}, {column})")
    for folder, _ in archive.failures:
        cells = "; ".join(places[folder.run_id])
        parts = (visible(folder.run_id), f"in {cells}:" if cells else "", folder.error)
        yield " ".join(filter(None, parts))


def sweep_document(archive: Archive, name: str) -> Document:
    """Build the report of a single sweep.

    Raises:
        ResultsError: there is no sweep of this name.
    """
    comparer = Comparer(archive.results_dir, archive.scale)
    sweeps = read_sweeps(archive.results_dir, archive.scale, name)
    views = tuple(sweep_view(archive, comparer, sweep) for sweep in sweeps)
    comparer.save()
    return Document(archive.scale, scale_banner(archive.scale), (), (), sweeps=views)


def _part(
    archive: Archive,
    updates: TimedUpdates,
    comparer: Comparer,
    experiment: Experiment,
    renewed: bool,
) -> Section | Absent:
    results_dir, scale = archive.results_dir, archive.scale
    name, title = experiment.name, experiment.title
    changed = archive.changed.get(name, ())
    command = reproduce_command(experiment, scale, changed)
    if scale not in experiment.scales:
        return Absent(name, title, f"has no {scale} scale", "")
    try:
        records = [] if experiment.computed else archive.measurements(experiment)
        failed = archive.failed_cells(experiment)
        if not (records or failed or experiment.computed):
            return Absent(name, title, NOT_RUN, command)
        undrawn = _gather(archive, experiment, records, renewed)
        home = _home(results_dir, scale, experiment)
        valid = home != scale or archive.figure_shows(name, {one.run_id for one in records})
        data = read_figure_data(results_dir, home, name) if valid else None
        figure = None if data is None else figure_view(results_dir, scale, experiment, data, home)
        if not experiment.computed:
            comparisons = compare_rows(experiment, records, scale, comparer, compute=renewed)
            shown = updates.shown(experiment)
            table = build_table(experiment, shown, scale, comparisons, failed)
            return build_section(table, records, figure, undrawn, changed)
        if figure is None:
            return Absent(name, title, NEEDS_NO_RUN, command)
        origin = figure.data.origin
        assert origin is not None
        return Section(
            experiment=experiment,
            state="computed",
            banner="",
            table=build_table(experiment, [], scale),
            figure=figure,
            facts=(("command", command), ("shown", figure.run), *vars(origin).items()),
            notes=(*experiment.notes, *experiment.scales[scale].notes),
        )
    except DamagedFileError as error:
        _log.warning("%s: %s", name, error)
        return Absent(name, title, "its stored results are damaged", command)


def _home(results_dir: Path, scale: str, experiment: Experiment) -> str:
    """Return the scale whose folder holds a figure: one of the library may be another scale's."""
    name = experiment.name
    if not experiment.computed or figure_path(results_dir, scale, name, "json").exists():
        return scale
    found = {path.parents[2].name for path in results_dir.glob(f"*/figures/{name}.json")}
    # A committed report must not lead to generated results, which are not committed.
    return min(found, key=lambda one: (one == GENERATED_SCALE, one), default=scale)


def _gather(
    archive: Archive, experiment: Experiment, records: Sequence[Measurement], renewed: bool
) -> str:
    """Write missing data of a figure, or renew them; return why it cannot be drawn."""
    results_dir, scale, name = archive.results_dir, archive.scale, experiment.name
    if experiment.computed or experiment.drawing is None:
        return ""
    here = archive.figure_shows(name, {one.run_id for one in records})
    if here and not renewed:
        return ""
    shown = archive.figure_run(name) if archive.changed.get(name) and not here else None
    if shown and not run_folder(results_dir, scale, shown).path.exists():
        problem = f"figures/{name}.json shows runs that are gone, of other settings"
        return f"not drawn: {problem}; remove it first"
    # A figure of ``experiments/examples`` needs only the runs that it shows; others need all.
    kind = figure_kind(experiment.drawing.name)
    own = kind.shows_own(scale)
    folders = (run_folder(results_dir, scale, run) for run in {one.run_id for one in records})
    if not own and not all(kind.has_what_it_reads(folder, scale) for folder in folders):
        return NOT_DRAWN
    try:
        export_figure_data(archive, experiment, records)
    except ResultsError as error:
        if renewed and not own:
            raise
        return NOT_DRAWN if own else f"not drawn: {error}"
    return ""


def build_section(
    table: Table,
    records: Sequence[Measurement],
    figure: FigureView | None = None,
    undrawn: str = NOT_DRAWN,
    changed: Sequence[str] = (),
) -> Section:
    """Lay out one artefact from all its measurements at the scale of the table, in any order.

    ``changed`` are the settings in which its runs differ from what the artefact states.
    """
    experiment, scale = table.experiment, table.scale
    grids, shown = tuple(table_grids(table)), experiment.kind == "table"
    everywhere = all(EARLIER in one.marks for row in table.rows for one in row.cells if one.found)
    details = [
        significance_grid(table),
        summary_grid(table, records),
        *language_grids(table, records),
        tuning_grid(experiment, records, scale),
        runs_grid(table, records),
    ]
    folded = tuple(filter(None, details))
    lacking = [one.name for one in experiment.columns if one.name not in table.columns_found]
    notes = [
        f"Changed settings: {', '.join(changed)}." if changed else "",
        f"No value at this scale: {', '.join(lacking)}." if shown and lacking else "",
        *experiment.scales[scale].notes,
        *experiment.notes,
        *tuning_remarks(experiment, records, scale),
        "Speeds: updates of all rows timed in turn, ± over repetitions." * bool(table.timed_on),
        "Speeds of whole runs depend on what else the machine did then; no claim is judged by them."
        * table.whole_runs,
    ]
    # What concerns every value is said once, in a note.
    for mark in (EARLIER * everywhere, UNTESTED * (not table.comparisons)):
        if mark:
            grids, folded = (tuple(one.without(mark) for one in part) for part in (grids, folded))
    return Section(
        experiment=experiment,
        state=_state(table, records) if shown else undrawn if figure is None else "drawn",
        banner=scale_banner(scale),
        table=table,
        grids=grids if shown else (),
        details=(*(() if shown else grids), *folded),
        figure=figure,
        facts=(
            ("command", reproduce_command(experiment, scale, changed)),
            *([] if figure is None else [("shown", figure.run)]),
            *_metric_facts(table),
            *([("timed", " · ".join(table.timed_on))] if table.timed_on else []),
            *provenance_items(records),
        ),
        signs=tuple(filter(None, _signs(table, records, everywhere))),
        notes=tuple(filter(None, notes)),
    )


def _state(table: Table, records: Sequence[Measurement]) -> str:
    """Say how much of a table is measured."""
    runs, lacking = len({one.run_id for one in records if one.kind == "run"}), table.incomplete
    columns = f"{len(table.columns_found)} of {len(table.experiment.columns)} columns"
    incomplete = f", {counted(lacking, 'cell')} incomplete" if lacking else ""
    return f"{counted(runs, 'run')}, {columns}{incomplete}"


def _signs(table: Table, records: Sequence[Measurement], everywhere: bool) -> Iterator[str]:
    """Explain the marks of a table; ``everywhere`` is whether all values are from earlier code."""
    columns = table.experiment.columns
    cells = [
        (f"{row.label}, {column.name}", cell)
        for row in table.rows
        for column, cell in zip(columns, row.cells, strict=True)
    ]
    yield significance_note(table)
    for mark, departure in marked_departures(table.experiment, table.scale):
        if any(mark in cell.marks for _, cell in cells if cell.found):
            yield f"{mark} {departure.reason}"
    if any(0 < cell.found < cell.wanted for _, cell in cells):
        yield (
            "(n/N): only n of the N seeds of the column have been run with one version of the code."
        )
    if failed := [place for place, cell in cells if cell.failed]:
        yield f"{FAILED_MARK} a run failed: {'; '.join(failed)}."
    shown = {run.run_id for _, cell in cells for run in cell.runs}
    if earlier := {one.epoch for one in records if one.earlier and one.run_id in shown}:
        values = "Every value was" if everywhere else EARLIER
        yield (
            f"{values} computed by an earlier version of the code (numeric epoch "
            f"{', '.join(map(str, sorted(earlier)))}); --fresh repeats these runs."
        )
    if diverged := dict.fromkeys(record.run_id for record in records if record.diverged):
        yield f"{DIVERGED} the training diverged: {', '.join(diverged)}."
    if collapsed := [place for place, cell in cells if COLLAPSED in cell.marks]:
        yield (
            f"{COLLAPSED} a seed collapsed: it lies more than {COLLAPSE:g} points, and more than "
            f"{COLLAPSE_RANGES:g} times the range of the others, below every other one "
            f"({'; '.join(collapsed)})."
        )


def _metric_facts(table: Table) -> list[tuple[str, str]]:
    """Describe the cells of a table and how their metrics and tests are computed."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(column.metric for column in table.experiment.columns):
        metric = metric_of(name)
        marks = ", ".join(filter(None, (metric.unit, _DIRECTIONS[metric.higher_is_better])))
        alike[f"{metric.description}{f' ({marks})' if marks else ''}"].append(name)
    facts = [(", ".join(names), text) for text, names in alike.items()]
    seeds = ", ".join(str(seed) for seed in table.seeds)
    spread = "mean ± sample standard deviation over"
    cells = f"{spread} the seeds {seeds}" if len(table.seeds) > 1 else f"one run, seed {seeds}"
    if table.timed_on:
        of_runs = any(run.run_id for row in table.rows for cell in row.cells for run in cell.runs)
        cells = f"{cells}; speeds, {spread} repetitions" if of_runs else f"{spread} repetitions"
    shown = [n for n, one in enumerate(table.experiment.columns) if one.name in table.columns_found]
    if any(not row.cells[n].found for row in table.rows for n in shown):
        cells += f"; {MISSING} without runs"
    # Merge signatures that differ in their first part alone: `rouge1, rouge2|bytes:75`.
    firsts: dict[str, list[str]] = defaultdict(list)
    for signature in table.signatures:
        first, _, rest = signature.split(": ", 1)[1].partition("|")
        firsts[rest].append(first)
    joint = (
        "|".join(filter(None, (", ".join(dict.fromkeys(names)), rest)))
        for rest, names in firsts.items()
    )
    facts += [("cells", cells), ("signature", SEPARATOR.join(joint))]
    tests = dict.fromkeys(one.signature for one in table.comparisons)
    facts += [("paired tests", SEPARATOR.join(tests))] if tests else []
    source = table.experiment.published.source
    return [*facts, *([("published values", source)] if source else [])]
