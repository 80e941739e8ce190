"""Rules of the papers' claims, applied to published values and to tables built to violate them."""

from collections.abc import Iterator, Mapping
from itertools import product

import pytest
from made_up import record

from repro.config.claims import Bound, Claim, Order, Spread, load_claims
from repro.config.experiment import Experiment, ScalePlan, load_experiment
from repro.evaluation.metrics import metric_of
from repro.report.claims import Verdict, judge
from repro.report.contrasts import MeasuredCells
from repro.results import Measurement

Table = Mapping[tuple[str, str], float]
"""Row and column to a value."""

CLAIMS = {
    f"{paper.paper}/{claim.name}": (paper.paper, claim)
    for paper in load_claims()
    for claim in paper.claims
}
NO_PREDICATE = "as published, no measurement tests it"
NOT_IN_ROWS = "the text prints a value of a configuration that it does not name"
NO_SPEED = "the paper prints no such speed"
A_BOUND = "the text prints a bound, no values"
DRAWN = "the figure draws the values and prints none"
UNPUBLISHED = {
    "malaviya2018/no-slowdown": NO_SPEED,
    "niculae2017/more-interpretable": NO_PREDICATE,
    "niculae2017/translation-three-quarters": A_BOUND,
    "niculae2017/translation-time": A_BOUND,
    "niculae2017/pnorm-slowest": "Table 5 prints times, not speeds",
    "niculae2018/fewer-trees": DRAWN,
    "niculae2018/fewer-ambiguous-arcs": DRAWN,
    "niculae2018/structured-alignment-speed": NO_SPEED,
    "niculae2018/structured-alignment-speeds-up": NO_SPEED,
    "peters2019/best-shared-task-model": NO_PREDICATE,
    "peters2019/single-sequence-medium": NOT_IN_ROWS,
    "peters2019/single-sequence-high": NOT_IN_ROWS,
    "peters2019/certificate-medium": NOT_IN_ROWS,
    "peters2019/certificate-high": NOT_IN_ROWS,
    "peters2019/optimal-output-alpha": DRAWN,
    "peters2019/alpha-above-two": DRAWN,
    "peters2019/attention-alpha-small-effect": DRAWN,
    "peters2019/entmax-speed-morphology": NO_PREDICATE,
}
"""Claims whose rule cannot be applied to printed values, with the reason."""
CONTRADICTED = {
    "malaviya2018/sparse-models-higher-bleu",
    "malaviya2018/sparse-models-higher-meteor",
}
"""Sentences that the paper's own table contradicts, as their reading says on the page."""


def verdict_on(name: str, table: Table) -> Verdict:
    """Apply the rule of a claim to a table, whose values are those of every seed.

    A row that is chosen on validation data is the first one.
    """
    paper, claim = CLAIMS[name]
    experiment = load_experiment(f"{paper}/{claim.artefact}")
    predicate = claim.predicate
    assert predicate is not None
    metrics = {one.name: predicate.metric or one.metric for one in experiment.columns}
    # Ensembles are single values, which no verdict rests on: here they have a spread of zero.
    for one in experiment.columns:
        one.aggregate = "mean"
    experiment.seeds, experiment.tune = [1, 2, 3], None
    experiment.scales = {"full": ScalePlan()}
    records: list[Measurement] = []
    for (row, column), value in table.items():
        values = {metrics[column]: value}
        if isinstance(predicate, Bound) and predicate.choose:
            values[predicate.choose] = float(row == predicate.rows[0])
        records += [
            record(row, column, seed, number, metric)
            for seed in experiment.seeds
            for metric, number in values.items()
        ]
    return judge(paper, claim, experiment, MeasuredCells(experiment, "full", records)).verdict


def test_every_claim_that_is_left_out_exists() -> None:
    assert {*UNPUBLISHED, *CONTRADICTED} <= {*CLAIMS}


@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in UNPUBLISHED])
def test_the_papers_own_values_satisfy_the_rule(name: str) -> None:
    paper, claim = CLAIMS[name]
    published = load_experiment(f"{paper}/{claim.artefact}").published.rows
    table = {
        (row, column): value for row, cells in published.items() for column, value in cells.items()
    }
    wanted = Verdict.FAILS if name in CONTRADICTED else Verdict.HOLDS
    assert verdict_on(name, table) is wanted


@pytest.mark.parametrize("name", UNPUBLISHED)
def test_only_rules_without_printed_values_are_left_out(name: str) -> None:
    paper, claim = CLAIMS[name]
    if claim.predicate is None:
        assert claim.as_published
        return
    experiment = load_experiment(f"{paper}/{claim.artefact}")
    own = claim.predicate.metric is None
    columns = claim.predicate.columns or [one.name for one in experiment.columns]
    printed = experiment.published.rows
    rows = (
        [*claim.predicate.better, *claim.predicate.than]
        if isinstance(claim.predicate, Order)
        else claim.predicate.rows
        if isinstance(claim.predicate, Bound)
        else []
    )
    assert not (
        own and all(column in printed.get(row, {}) for row, column in product(rows, columns))
    )


def constructed(claim: Claim, experiment: Experiment, broken: int) -> dict[tuple[str, str], float]:
    """Build a table that violates a rule in the first ``broken`` columns and nowhere else."""
    predicate = claim.predicate
    assert predicate is not None
    names = predicate.columns or [one.name for one in experiment.columns]
    table = {}
    for place, column in enumerate(names):
        metric = predicate.metric or {one.name: one.metric for one in experiment.columns}[column]
        values = column_of(claim, experiment, metric, violated=place < broken)
        table |= {(row, column): value for row, value in values}
    return table


def column_of(
    claim: Claim, experiment: Experiment, metric: str, violated: bool
) -> Iterator[tuple[str, float]]:
    """Yield the rows of a column that just violates a rule, or just satisfies it."""
    match claim.predicate:
        case Order() as order:
            better = metric_of(metric).higher_is_better
            higher = better if order.direction is None else order.direction == "higher"
            sign = -1.0 if higher is False else 1.0
            step = order.by + (-0.01 if violated else 0.01)
            if order.in_turn:
                # A chain whose last row is above the one before it if the rule is violated.
                chain = [*order.better, order.than[-1]]
                assert chain[1:] == order.than
                for n, row in enumerate(chain):
                    last = violated and row == chain[-1]
                    yield row, 50 + sign * (2.01 if last else len(chain) - n)
                return
            if order.better == order.than:
                for n, row in enumerate(order.better):
                    yield row, 50.0 + (n == 0) * -sign * step
                return
            for row in order.than:
                yield row, 50.0
            weak = order.better if order.any else order.better[-1:]
            for row in order.better:
                yield row, 50.0 + sign * (step if row in weak else order.by + 1)
        case Bound() as bound:
            reference = 1.0 if bound.relative_to is None else 200.0
            if bound.relative_to is not None:
                yield bound.relative_to, reference
            limit, sign = (bound.highest, -1) if bound.lowest is None else (bound.lowest, 1)
            assert limit is not None
            for n, row in enumerate(bound.rows):
                side = -1 if violated and n == 0 else 1
                yield row, limit * (1 + sign * side * 0.001) * reference
        case Spread() as spread:
            names = [axis.name for axis in experiment.rows]
            strong = names.index(spread.axis if violated else spread.than)
            for row in experiment.row_labels():
                places = [
                    [*axis.values].index(label)
                    for axis, label in zip(experiment.rows, row.split(" / "), strict=True)
                ]
                yield row, 50 + sum(n * (1.1 if k == strong else 1) for k, n in enumerate(places))


@pytest.mark.parametrize(
    "name", [name for name, (_, claim) in CLAIMS.items() if claim.predicate is not None]
)
def test_a_table_that_just_violates_the_rule_fails_it(name: str) -> None:
    """As few columns as possible violate it, by as little as possible; in no column it holds."""
    paper, claim = CLAIMS[name]
    experiment = load_experiment(f"{paper}/{claim.artefact}")
    predicate = claim.predicate
    assert predicate is not None
    width = len(predicate.columns or experiment.columns)
    broken = width if predicate.average else width - (predicate.at_least or width) + 1
    assert verdict_on(name, constructed(claim, experiment, broken)) is Verdict.FAILS
    tolerated = 0 if predicate.average else broken - 1
    assert verdict_on(name, constructed(claim, experiment, tolerated)) is Verdict.HOLDS
