"""Recompute every committed verdict from the records, without the code that makes the reports.

The artefacts say which configuration each cell has; reading the records, choosing runs, and the
tests are written here a second time.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from html import unescape
from itertools import product
from math import inf, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from scipy import stats

from repro.config.claims import Bound, Claim, Order, Predicate, Spread, load_claims
from repro.config.experiment import Column, Experiment, load_experiment
from repro.config.planning import planned

RESULTS = Path(__file__).parents[3] / "results"
SCALES = ("small", "subset", "full")
SPEEDS = ("tokens_per_second", "pairs_per_second", "epoch_minutes", "speed_gain")
FEWER_IS_BETTER = ("rep", "drop")
IN_POINTS = (
    "accuracy", "label_accuracy", "token_accuracy", "uas", "bleu", "rouge", *FEWER_IS_BETTER,
)  # fmt: skip
"""Beginnings of the names of metrics in which a baseline can be too far from the paper's."""

Values = dict[tuple[Any, ...], float]
"""Values of a cell by seed, or by language, and by the version of the numbers."""
Cell = Callable[[str, Column, str], Values]
"""Values of a row, a column and a metric; empty if there are none."""


class Outcome(NamedTuple):
    """p-values of a statement and of its contrary, and the margin that decides its sign."""

    true: float
    false: float
    margin: float


def flat(content: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in content.items():
        inner = flat(value, f"{above}{key}.") if isinstance(value, dict) else {above + key: value}
        found |= inner
    return found


@cache
def records(scale: str) -> list[dict[str, Any]]:
    paths = sorted((RESULTS / scale / "records").glob("*.json"))
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return [{**one, "flat": flat(one["config"])} for one in found]


def lower_is_better(metric: str) -> bool:
    return metric.partition("/")[2].startswith(FEWER_IS_BETTER)


def best(values: Mapping[Any, float], metric: str) -> Any:
    return (min if lower_is_better(metric) else max)(values, key=lambda one: values[one])


def may_fit(settings: Mapping[str, Any], overrides: Sequence[str]) -> bool:
    """Return whether no override contradicts the settings of a run."""
    last = dict(item.split("=", 1) for item in overrides)
    last["task.name"] = last.pop("task")
    return all(settings.get(key, ...) in (..., parsed(text)) for key, text in last.items())


def unordered(value: Any) -> Any:
    """Sort a list: corpora read languages in an order of their own."""
    return sorted(value, key=str) if isinstance(value, list) else value


@cache
def parsed(text: str) -> Any:
    return yaml.safe_load(text)


@cache
def runs(scale: str, artefact: str, row: str, column: str) -> list[dict[str, Any]]:
    """Return the records of a cell: of one tuned value and of the newest version."""
    experiment = load_experiment(artefact)
    own = experiment.row_overrides_at(scale).get(row)
    further = [one.overrides for one in experiment.columns_at(scale) if one.name == column]
    if own is None or not further:
        return []
    plan, seeds = experiment.scales[scale].overrides, experiment.seeds_at(scale, column)
    overrides = [*experiment.base, f"scale={scale}", *plan, *own, *further[0]]
    if not any(may_fit(one["flat"], overrides) for one in records(scale)):
        return []  # composing takes a tenth of a second
    wanted = {key: unordered(one) for key, one in planned(overrides).settings.items()}
    tune = experiment.tuning_of(row)
    for key in ("seed", *([tune.key] if tune else [])):
        del wanted[key]
    fitting = [
        one
        for one in records(scale)
        if one["kind"] == "run"
        and one["seed"] in seeds
        and all(unordered(one["flat"].get(key, ...)) == value for key, value in wanted.items())
    ]
    fitting.sort(key=lambda one: (one["epoch"], one["finished"], one["run_id"]))
    by_run = {(one["seed"], one["flat"][tune.key] if tune else None): one for one in fitting}
    if tune:
        tried = {
            value: one["metrics"][tune.metric]
            for (seed, value), one in by_run.items()
            if seed == seeds[0]
        }
        by_run = {key: one for key, one in by_run.items() if key[1] == best(tried, tune.metric)}
    newest = max((one["epoch"] for one in by_run.values()), default=None)
    return [one for one in by_run.values() if one["epoch"] == newest]


def recorded(scale: str, experiment: Experiment) -> Cell:
    """Return the values of the runs, or of the languages of an ensemble, of each cell."""

    def cell(row: str, column: Column, metric: str) -> Values:
        found = runs(scale, experiment.name, row, column.name)
        if column.aggregate != "ensemble":
            return {
                (one["seed"], one["epoch"]): one["metrics"][metric]
                for one in found
                if metric in one["metrics"]
            }
        members = sorted(one["run_id"] for one in found)
        return {
            (name, one["epoch"]): value
            for one in records(scale)
            if one["kind"] == "ensemble" and sorted(one["members"]) == members
            for name, value in one["metrics"].items()
            if name.startswith(f"{metric}/")
        }

    return cell


def timed(scale: str, experiment: Experiment) -> Cell:
    """Return the speeds of updates timed in turn."""
    path = RESULTS / scale / "speeds" / f"{experiment.name}.json"
    found = json.loads(path.read_text(encoding="utf-8"))["columns"] if path.exists() else {}

    def cell(row: str, column: Column, metric: str) -> Values:
        known = SPEEDS[3:] if column.metric.endswith(SPEEDS[3:]) else SPEEDS[:2]
        # A column without a record of its own shows the ratios of one with the same runs.
        columns = experiment.columns if column.metric.endswith(SPEEDS[:2]) else ()
        alike = [one.name for one in columns if one.overrides == column.overrides]
        (speeds,) = [found[one] for one in (column.name, *alike) if one in found][:1] or [{}]
        speeds = speeds.get(row, []) if metric.endswith(known) else []
        return {(n,): value for n, value in enumerate(speeds)}

    return cell


def published(experiment: Experiment) -> Cell:
    def cell(row: str, column: Column, metric: str) -> Values:
        value = experiment.published.rows.get(row, {}).get(column.name)
        own = metric == column.metric and column.aggregate != "ensemble"
        return {(1,): value} if own and value is not None else {}

    return cell


def mean(values: Iterable[float]) -> float:
    return float(np.mean([*values]))


def paired(cells: Sequence[Values]) -> bool:
    return len(cells) > 1 and len(cells[0]) > 2 and all({*one} == {*cells[0]} for one in cells)


def t_test(margin: float, parts: Sequence[tuple[float, float]]) -> Outcome:
    """Test a margin by variances with degrees of freedom (Welch, Satterthwaite)."""
    total = sum(one for one, _ in parts)
    if total == 0:
        return Outcome(float(margin <= 0), float(margin > 0), margin)
    freedom = total**2 / sum(one**2 / many for one, many in parts)
    p = float(stats.t.sf(margin / sqrt(total), freedom))
    return Outcome(p, 1 - p, margin)


def contrast(columns: Sequence[Sequence[tuple[float, Values]]], limit: float) -> Outcome:
    """Test that a weighted sum of cells, given by column, exceeds a limit."""
    every = [one for column in columns for one in column]
    margin = sum(weight * mean(cell.values()) for weight, cell in every) - limit
    if min(len(cell) for _, cell in every) < 2:
        return Outcome(1.0, 1.0, margin)
    parts = []
    for group in [every] if paired([cell for _, cell in every]) else columns:
        samples = [[weight * value for value in cell.values()] for weight, cell in group]
        if paired([cell for _, cell in group]):
            keys = [*group[0][1]]
            samples = [[sum(weight * cell[key] for weight, cell in group) for key in keys]]
        parts += [(float(np.var(one, ddof=1)) / len(one), len(one) - 1) for one in samples]
    return t_test(margin, parts)


def together(tests: Sequence[Outcome], of: int | None = None) -> Outcome:
    """Test that all statements are true, by Bonferroni's correction if one is not."""
    complete = of is None or len(tests) == of
    return Outcome(
        max(one.true for one in tests) if complete else 1.0,
        min(1.0, len(tests) * min(one.false for one in tests)),
        min(one.margin for one in tests),
    )


def ordered(rule: Order, cell: Cell, columns: Sequence[Column], metric: str) -> Outcome:
    higher = not lower_is_better(metric) if rule.direction is None else rule.direction == "higher"
    sign = 1.0 if higher else -1.0
    names = [*dict.fromkeys([*rule.better, *rule.than])]

    def compared(better: Sequence[Sequence[str]], than: Sequence[Sequence[str]]) -> Outcome:
        terms = []
        for column, these, those in zip(columns, better, than, strict=True):
            weights = defaultdict[str, float](float)
            for rows, share in ((these, sign), (those, -sign)):
                for row in rows:
                    weights[row] += share / len(rows) / len(columns)
            of = rule.metric or column.metric
            terms.append([(weight, cell(row, column, of)) for row, weight in weights.items()])
        return contrast(terms, rule.by)

    if rule.mean:
        return compared([rule.better] * len(columns), [rule.than] * len(columns))
    if rule.choose:
        choose = rule.choose
        better, than = (
            [[chosen(cell, x, rows, choose)] for x in columns] for rows in (rule.better, rule.than)
        )
        return compared(better, than)
    pairs = [*(zip if rule.in_turn else product)(rule.better, rule.than)]
    tests = [compared([[a]] * len(columns), [[b]] * len(columns)) for a, b in pairs if a != b]
    joint = together(tests)
    cells = [[cell(row, x, rule.metric or x.metric) for x in columns] for row in names]
    if len(tests) < 2 or joint.margin >= 0 or not paired([one for row in cells for one in row]):
        return joint
    # Tukey's range test, on rows by seeds.
    table = np.array([[mean(one[key] for one in row) for key in cells[0][0]] for row in cells])
    residuals = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    error = np.sqrt((residuals**2).sum() / freedom / table.shape[1])
    q = -joint.margin / error if error else inf
    return joint._replace(false=float(stats.studentized_range.sf(q, len(names), freedom)))


def chosen(cell: Cell, column: Column, rows: Sequence[str], metric: str) -> str:
    return str(best({row: mean(cell(row, column, metric).values()) for row in rows}, metric))


def bounded(rule: Bound, cell: Cell, columns: Sequence[Column]) -> Outcome:
    tests = []
    picked = [[row] * len(columns) for row in rule.rows]
    if rule.choose:
        picked = [[chosen(cell, one, rule.rows, rule.choose) for one in columns]]
    for rows, (limit, sign) in product(picked, ((rule.lowest, 1.0), (rule.highest, -1.0))):
        if limit is None:
            continue
        terms = []
        for row, column in zip(rows, columns, strict=True):
            metric, share = rule.metric or column.metric, sign / len(columns)
            if rule.relative_to is None:
                terms.append([(share, cell(row, column, metric))])
                continue
            # Of a / b > limit, the sum a - limit * b is tested, in units of b.
            other = cell(rule.relative_to, column, metric)
            unit = share / mean(other.values())
            terms.append([(unit, cell(row, column, metric)), (-limit * unit, other)])
        tests.append(contrast(terms, 0.0 if rule.relative_to else sign * limit))
    return together(tests)


def spread(rule: Spread, cell: Cell, columns: Sequence[Column], experiment: Experiment) -> Outcome:
    names = [axis.name for axis in experiment.rows]
    axes = [names.index(rule.axis), names.index(rule.than)]
    shape = [len(axis.values) for axis in experiment.rows]
    margins, parts = [], []
    for column in columns:
        found = [
            [*cell(row, column, rule.metric or column.metric).values()]
            for row in experiment.row_labels()
        ]
        grid = np.array([mean(one) for one in found]).reshape(shape)
        labels = [np.moveaxis(grid, n, 0).reshape(shape[n], -1).mean(1) for n in axes]
        low, high = (np.std(one, ddof=1) for one in labels)
        margins.append(float(high - low))
        if min(map(len, found)) > 1:
            freedom = sum(len(one) - 1 for one in found)
            noise = sum(float(np.var(one) * len(one)) for one in found) / freedom
            of_a_cell = noise / float(stats.hmean([len(one) for one in found]))
            # Of the squared effect of k labels, noise makes 1 / (k - 1) of the variance of a mean.
            error = sum(of_a_cell * shape[n] / len(found) / (shape[n] - 1) for n in axes)
            parts.append((error / len(columns) ** 2, freedom))
    if len(parts) < len(columns):
        return Outcome(1.0, 1.0, mean(margins))
    return t_test(mean(margins), parts)


def judged(rule: Predicate, cell: Cell, columns: Sequence[Column], of: Experiment) -> Outcome:
    if isinstance(rule, Order):
        return ordered(rule, cell, columns, rule.metric or columns[0].metric)
    if isinstance(rule, Bound):
        return bounded(rule, cell, columns)
    assert isinstance(rule, Spread)
    return spread(rule, cell, columns, of)


def complete(rule: Predicate, cell: Cell, column: Column, experiment: Experiment) -> bool:
    """Return whether a column has a value in each row that a rule needs."""
    rows = experiment.row_labels()
    if isinstance(rule, Order):
        rows = [*rule.better, *rule.than]
    if isinstance(rule, Bound):
        rows = [*rule.rows, *([rule.relative_to] if rule.relative_to else [])]
    metrics = {rule.metric or column.metric, rule.choose or rule.metric or column.metric}
    return all(cell(row, column, metric) for row, metric in product(rows, metrics))


def far_below(cell: Cell, columns: Sequence[Column], experiment: Experiment) -> bool:
    """Return whether the baseline of a column is over five points worse than the paper's."""
    for column in columns:
        row = experiment.baseline or ""
        printed = experiment.published.rows.get(row, {}).get(column.name)
        found = cell(row, column, column.metric)
        if printed is None or not found or not column.metric.split("/")[1].startswith(IN_POINTS):
            continue
        gap = printed - mean(found.values())
        if (-gap if lower_is_better(column.metric) else gap) > 5:
            return True
    return False


def outcome(claim: Claim, experiment: Experiment, scale: str, cell: Cell) -> tuple[str, str]:
    """Return the sign of a verdict, and that of the values without their spread."""
    rule = claim.predicate
    if rule is None or scale not in experiment.scales:
        return "·", "·"
    names = rule.columns or [one.name for one in experiment.columns]
    planned_here = [one for one in experiment.columns_at(scale) if one.name in names]
    measured = [one for one in planned_here if complete(rule, cell, one, experiment)]
    if not measured:
        return "·", "·"
    groups = defaultdict[str, list[Column]](list)
    for one in measured if rule.each else planned_here:
        groups[(rule.metric or one.metric).partition("/")[2]].append(one)
    tests = []
    for group in groups.values():
        if found := [one for one in group if one in measured]:
            test = judged(rule, cell, found, experiment)
            tests.append(test if found == group else test._replace(true=1.0, false=1.0))
    joint = together(tests, len(groups))
    value = "●" if joint.margin > 0 else "✕"
    if far_below(cell, measured, experiment) or min(joint.true, joint.false) >= 0.05:
        return "○", value
    return ("●" if joint.true < 0.05 else "✕"), value


def committed(scale: str) -> dict[str, list[str]]:
    """Return the signs of the first table of a report by the claim's text and place."""
    found = {}
    for line in (RESULTS / scale / "report.md").read_text(encoding="utf-8").splitlines():
        cells = [unescape(one).strip(" *") for one in line.split("|")[1:-1]]
        if len(cells) == 6 and {*cells[1:5]} <= {*"●✕○·"}:
            found[cells[0]] = cells[1:5]
    return found


CLAIMS = [(paper, claim) for paper in load_claims() for claim in paper.claims]


def is_about_speed(rule: Predicate | None, experiment: Experiment) -> bool:
    columns = experiment.columns
    if rule and rule.columns:
        columns = [one for one in columns if one.name in rule.columns]
    return any(((rule and rule.metric) or one.metric).endswith(SPEEDS) for one in columns)


@cache
def expected() -> dict[str, list[str]]:
    """Return the signs of all claims, of the published values first."""
    found = {}
    for paper, claim in CLAIMS:
        experiment = load_experiment(f"{paper.paper}/{claim.artefact}")
        source = timed if is_about_speed(claim.predicate, experiment) else recorded
        cells = {one: source(one, experiment) for one in SCALES}
        signs = [outcome(claim, experiment, one, cell)[0] for one, cell in cells.items()]
        of_paper = outcome(claim, experiment, "full", published(experiment))[1]
        authors = paper.reference.authors if paper.reference else paper.paper
        found[f"{claim.text} ({authors}, {claim.place})"] = [of_paper, *signs]
    return found


@pytest.mark.parametrize("page", SCALES)
def test_every_committed_verdict_follows_from_the_records(page):
    assert committed(page) == expected()
    assert len(expected()) == len(CLAIMS)


@pytest.mark.parametrize("scale", SCALES)
def test_recorded_shares_follow_from_the_sums_of_their_sentences(scale):
    recorded_metrics = {one["run_id"]: one["metrics"] for one in records(scale)}
    paths = sorted((RESULTS / scale / "statistics").glob("*.npz"))
    assert paths
    for path in paths:
        with np.load(path, allow_pickle=False) as sums:
            for metric in ("test/uas", "test/rep", "test/drop", "test/accuracy"):
                if metric in sums.files and sums[metric].shape[1] == 2:
                    hits, total = sums[metric].sum(0)
                    value = recorded_metrics[path.stem][metric]
                    assert 100 * hits / total == pytest.approx(value), (path.name, metric)
