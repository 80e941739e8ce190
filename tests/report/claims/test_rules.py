"""Rules of the papers' claims, applied to published values and to tables built to violate them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from statistics import variance

import numpy as np
import pytest
from measured import measurement

from benchmarks.numbers import archive_of
from repro.config.claims import load_claims
from repro.config.experiment import Experiment, ScalePlan, load_experiment
from repro.report.claims import Verdict, is_timed, judge
from repro.report.contrasts import rows_of
from repro.report.table import MeasuredCells
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
    "niculae2017/pnorm-slowest": "Table 5 prints times, not speeds",
    "niculae2018/few-trees": DRAWN,
    "niculae2018/few-ambiguous-arcs": DRAWN,
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


@cache
def artefact_of(name: str) -> Experiment:
    """Return the artefact of a claim, with cells of three seeds at full scale.

    Ensembles become means over seeds: published tables have no values of languages.
    """
    paper, claim = CLAIMS[name]
    experiment = load_experiment(f"{paper}/{claim.artefact}")
    for one in experiment.columns:
        one.aggregate = "mean"
    experiment.tune, experiment.scales = None, {"full": ScalePlan()}
    return experiment


def verdict_on(name: str, table: Table | Mapping[tuple[str, str], Sequence[float]]) -> Verdict:
    """Apply the rule of a claim to a table of values, which are those of every seed, or lists.

    A row that is chosen on validation data is the best one of the table.
    """
    (paper, claim), experiment = CLAIMS[name], artefact_of(name)
    predicate = claim.predicate
    metrics = {one.name: predicate.metric or one.metric for one in experiment.columns}
    records: list[Measurement] = []
    for (row, column), value in table.items():
        values = value if isinstance(value, Sequence) else [value] * 3
        experiment.seeds = [*range(1, len(values) + 1)]
        wanted = {metrics[column]} | ({predicate.choose} if predicate.choose else set())
        records += [
            measurement(row=row, column=column, seed=seed, value=value, metric=metric)
            for seed, value in enumerate(values, start=1)
            for metric in wanted
        ]
    return judge(paper, claim, experiment, MeasuredCells(experiment, "full", records)).verdict


def published_table(name: str) -> Table:
    """Return the printed values of the artefact of a claim."""
    paper, claim = CLAIMS[name]
    rows = load_experiment(f"{paper}/{claim.artefact}").published.rows
    return {(row, column): value for row, found in rows.items() for column, value in found.items()}


def test_every_claim_that_is_left_out_exists():
    assert {*UNPUBLISHED} <= {*CLAIMS}


@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in UNPUBLISHED])
def test_the_papers_own_values_satisfy_the_rule(name):
    predicate = CLAIMS[name][1].predicate
    assert predicate.metric is None  # published values are those of the columns
    assert verdict_on(name, published_table(name)) is Verdict.HOLDS


@pytest.mark.parametrize("name", UNPUBLISHED)
def test_only_rules_without_printed_values_are_left_out(name):
    paper, claim = CLAIMS[name]
    if claim.predicate is None:
        assert claim.as_published
        return
    experiment = load_experiment(f"{paper}/{claim.artefact}")
    own = claim.predicate.metric is None
    columns = claim.predicate.columns or [one.name for one in experiment.columns]
    printed = experiment.published.rows
    rows = rows_of(claim.predicate)
    assert not (
        own and all(column in printed.get(row, {}) for row, column in product(rows, columns))
    )


SPARSE = ("1.5 / 1", "1.5 / 1.5", "1.5 / 2", "2 / 1", "2 / 1.5", "2 / 2")
PAIRS = ("De-En", "Ja-En", "Ro-En")
FRENCH = ("sparsemax", "fusedmax", "oscarmax (as published)")
LANGUAGES = ("en", "zh", "vi", "ro", "ja")


def cells(rows: str | Sequence[str], columns: str | Sequence[str], value: float) -> Table:
    """Return a table of equal values."""
    places = product(*([one] if isinstance(one, str) else one for one in (rows, columns)))
    return dict.fromkeys(places, value)  # type: ignore[arg-type]


METEOR, BLEU = ([f"{pair} {metric}" for pair in PAIRS] for metric in ("METEOR", "BLEU"))
ASSUMED: dict[str, Table] = {
    "malaviya2018/no-slowdown": cells("softmax", BLEU, 100)
    | cells(["sparsemax", "csoftmax (c = 0.2)", "csparsemax (c = 0.2)"], BLEU, 97),
    "niculae2017/translation-three-quarters": cells("softmax", "target words/s", 100)
    | cells(FRENCH, "target words/s", 76),
    "niculae2017/pnorm-slowest": cells(["softmax", *FRENCH], "target words/s", 60)
    | cells("sq-pnorm-max (FISTA)", "target words/s", 28),
    "niculae2018/few-trees": cells("SparseMAP", LANGUAGES, 0.4),
    "niculae2018/few-ambiguous-arcs": cells("SparseMAP", LANGUAGES, 0.8),
    "niculae2018/structured-alignment-speed": cells(
        ["softmax", "sequential", "matching"], ["MultiNLI pairs/s", "SNLI pairs/s"], 100
    ),
    "niculae2018/structured-alignment-speeds-up": cells(
        ["sequential", "matching"],
        ["MultiNLI last ÷ second epoch", "SNLI last ÷ second epoch"],
        1.1,
    ),
    "peters2019/single-sequence-medium": cells(SPARSE, "medium single", 66),
    "peters2019/single-sequence-high": cells(SPARSE, "high single", 81),
    "peters2019/certificate-medium": cells(SPARSE, "medium exact", 79),
    "peters2019/certificate-high": cells(SPARSE, "high exact", 87),
    "peters2019/optimal-output-alpha": cells(["output 1", "output 2"], "accuracy", 60)
    | cells("output 2.25", "accuracy", 58)
    | cells("output 1.33", "accuracy", 62),
    "peters2019/alpha-above-two": cells("output 2", "accuracy", 60)
    | cells("output 2.25", "accuracy", 58),
    "peters2019/attention-alpha-small-effect": cells(
        [f"attention {one}" for one in ("1", "1.25", "1.5", "1.75", "2")], "accuracy", 60
    ),
}
"""Values that agree with sentences for which the paper prints none."""
BEST = "csparsemax (c = 0.2)"
VIOLATIONS: dict[str, Table] = {
    "malaviya2018/sparse-models-higher-bleu": cells("softmax + COVVECTOR", BLEU, 27.6),
    "malaviya2018/sparse-models-higher-meteor": cells("softmax + COVVECTOR", METEOR, 29.9),
    "malaviya2018/csparsemax-less-repetition": cells(BEST, "Ja-En REP", 14.7),
    "malaviya2018/csparsemax-fewer-drops": cells(BEST, "De-En DROP", 7.8),
    "malaviya2018/csparsemax-better-coverage-than-csoftmax": cells(BEST, "Ja-En DROP", 23.6),
    "malaviya2018/csparsemax-better-coverage": cells(BEST, "Ja-En REP", 13.4),
    "malaviya2018/csparsemax-translates-better": cells(BEST, "Ro-En BLEU", 28.3),
    "malaviya2018/csparsemax-higher-meteor": cells(BEST, "De-En METEOR", 30.6),
    "malaviya2018/sparsemax-repeats-less": cells("sparsemax", "De-En REP", 4.1),
    "malaviya2018/csoftmax-repeats-less": cells("csoftmax (c = 0.2)", "Ro-En REP", 3.7),
    "malaviya2018/predicted-fertility-best": cells("GUIDED", "METEOR", 31.8),
    "malaviya2018/exhaustion-helps": cells("PREDICTED, c = 0", "BLEU", 29.9),
    "malaviya2018/no-slowdown": cells(BEST, "Ja-En BLEU", 88),
    "niculae2017/fusedmax-best-entailment": cells("sparsemax", "accuracy", 82.5),
    "niculae2017/oscarmax-above-softmax": cells("softmax", "accuracy", 81.8),
    "niculae2017/entailment-same-speed": cells("fusedmax", "pairs/s", 100),
    "niculae2017/sparse-entailment-faster": cells("fusedmax", "pairs/s", 104),
    "niculae2017/translation-within-one-bleu": cells(
        "oscarmax (as published)", ["WMT17 tr to English", "WMT17 tr from English"], 1
    ),
    "niculae2017/translation-three-quarters": cells("fusedmax", "target words/s", 74),
    "niculae2017/translation-time": cells("fusedmax", "÷ softmax", 0.56),
    "niculae2017/pnorm-slowest": cells("softmax", "target words/s", 27),
    "niculae2017/fusedmax-best-summaries": cells("softmax", "DUC 2004 ROUGE-1", 29.5),
    "niculae2017/fusedmax-above-softmax-summaries": cells("softmax", "DUC 2004 ROUGE-2", 10.5),
    "niculae2017/fusedmax-above-softmax-every-rouge": cells("softmax", "DUC 2003 R-2 cut", 10.3),
    "niculae2018/sparsemap-best-parser": cells("CRF", ["vi", "ro"], 89),
    "niculae2018/few-trees": cells("SparseMAP", LANGUAGES, 1.05),
    "niculae2018/few-ambiguous-arcs": cells("SparseMAP", LANGUAGES, 1.05),
    "niculae2018/structured-alignment-competitive": cells(
        ["sequential", "matching"], "SNLI accuracy", 84.7
    ),
    "niculae2018/structured-alignment-sparse": cells("matching", "SNLI nonzero", 42),
    "niculae2018/matching-sparser": cells("matching", "MultiNLI nonzero", 18),
    "niculae2018/structured-alignment-speed": cells("matching", "SNLI pairs/s", 89),
    "niculae2018/structured-alignment-speeds-up": cells(
        "matching", "MultiNLI last ÷ second epoch", 0.85
    ),
    "peters2019/sparse-output-beats-softmax": cells(SPARSE, "high (avg.)", 90.0),
    "peters2019/sparse-ensembles-beat-softmax": cells(SPARSE, "high (ens.)", 92.0),
    "peters2019/medium-gain": cells("2 / 1.5", "medium (avg.)", 82.5),
    "peters2019/ensemble-gain": cells("2 / 1.5", "high (ens.)", 93.2),
    "peters2019/attention-matters-less": cells(["1 / 2", "1.5 / 2", "2 / 2"], "medium (avg.)", 78),
    "peters2019/single-sequence-medium": cells(SPARSE, "medium single", 60.8),
    "peters2019/single-sequence-high": cells(SPARSE, "high single", 75.8),
    "peters2019/certificate-medium": cells(SPARSE, "medium exact", 73.8),
    "peters2019/certificate-high": cells(SPARSE, "high exact", 81.8),
    "peters2019/entmax-best-translation": cells("sparsemax", ["RO→EN", "EN→RO"], 35),
    "peters2019/sparsemax-behind-softmax": cells("sparsemax", ["EN→RO", "JA→EN"], 27),
    "peters2019/sparsity-order": cells("softmax", "# attended", 5),
    "peters2019/attention-sparse": cells("1.5-entmax", "# attended", 6.8),
    "peters2019/output-sparse": cells("1.5-entmax", "# target words", 21.2),
    "peters2019/optimal-output-alpha": cells("output 1", "accuracy", 62.1),
    "peters2019/alpha-above-two": cells("output 2.25", "accuracy", 60.1),
    "peters2019/attention-alpha-small-effect": cells("attention 2", "accuracy", 58.9),
    "peters2019/bisection-practical": cells("1.5-entmax, bisection", "target words/s", 9_700),
    "peters2019/entmax-speed": cells("1.5-entmax, sorting", "target words/s", 12_300),
}
"""Cells that make a sentence false, in a table that agrees with it otherwise."""


@pytest.mark.parametrize(
    "name", [name for name, (_, claim) in CLAIMS.items() if claim.predicate is not None]
)
def test_a_table_that_violates_the_sentence_fails_the_rule(name):
    table = ASSUMED.get(name) or published_table(name)
    assert verdict_on(name, table) is Verdict.HOLDS
    assert {*VIOLATIONS[name]} <= {*table}
    assert verdict_on(name, {**table, **VIOLATIONS[name]}) is Verdict.FAILS


def test_every_share_is_five_points_from_the_published_one():
    """No limit is chosen with a measured value in hand."""
    printed = {
        "peters2019/single-sequence-medium": 66, "peters2019/single-sequence-high": 81,
        "peters2019/certificate-medium": 79, "peters2019/certificate-high": 87,
        "peters2019/attention-sparse": 100 * 5.55 / 24.25, "peters2019/output-sparse": 16.13,
        "peters2019/bisection-practical": 100 * 10_500 / 14_500,
        "peters2019/entmax-speed": 100 * 13_000 / 14_500,
        "niculae2018/structured-alignment-sparse": 19,
        "niculae2018/structured-alignment-speed": 100, "malaviya2018/no-slowdown": 100,
        "niculae2017/entailment-same-speed": 100,
    }  # fmt: skip
    for name, value in printed.items():
        bound = CLAIMS[name][1].bound
        unit = 100 if bound.relative_to else 1
        limits = (bound.lowest, bound.highest)
        (distance,) = (abs(value - unit * one) for one in limits if one is not None)
        assert distance == pytest.approx(5, abs=0.6), name
    bounds = {name for name, (_, claim) in CLAIMS.items() if claim.bound is not None}
    own = ("translation-three-quarters", "translation-time", "few-", "speeds-up")
    assert {n for n in bounds if not any(part in n for part in own)} == {*printed}


UNMEASURED_DEVIATION = 0.3
"""Standard deviation over seeds of metrics that were never measured with two seeds."""


@cache
def seed_deviations(paper: str, artefact: str) -> Mapping[tuple[str, str], float]:
    """Pool the variance over seeds in all cells of an artefact, by row and metric.

    The strongest scale that has two seeds of a metric counts; ``""`` stands for any row.
    """
    experiment, found = load_experiment(f"{paper}/{artefact}"), dict[tuple[str, str], float]()
    for scale in ("small", "subset", "full"):
        if scale not in experiment.scales:
            continue
        records = archive_of(scale).measurements(experiment)
        parts = defaultdict[tuple[str, str], list[tuple[float, int]]](list)
        for (row, _, metric), runs in MeasuredCells(experiment, scale, records).by_cell.items():
            values = [one.value for one in runs if one.kind == "run"]
            if len(values) > 1:
                for key in ((row, metric), ("", metric)):
                    parts[key].append((variance(values), len(values) - 1))
        for key, pooled in parts.items():
            count = sum(freedom for _, freedom in pooled)
            found[key] = (sum(v * freedom for v, freedom in pooled) / count) ** 0.5
    return found


def power(
    name: str, seeds: int, deviations: Mapping[tuple[str, str], float] | None = None
) -> float:
    """Simulate how often the rule says "holds" if the published values are the true means."""
    (paper, claim), experiment = CLAIMS[name], artefact_of(name)
    table = ASSUMED.get(name) or published_table(name)
    noise = np.random.default_rng(len(name) + seeds)
    predicate = claim.predicate
    metrics = {one.name: predicate.metric or one.metric for one in experiment.columns}
    rows = rows_of(predicate) or experiment.row_labels()
    wanted = predicate.columns or [*metrics]
    measured = seed_deviations(paper, claim.artefact)

    def deviation(row: str, column: str) -> float:
        if deviations is not None:
            return deviations[row, column]
        metric = metrics[column]
        known = [measured.get((key, metric)) for key in (row, "")]
        return next((one for one in known if one is not None), UNMEASURED_DEVIATION)

    cells = [(row, column) for row in rows for column in wanted]
    sizes = {cell: deviation(*cell) for cell in cells}
    verdicts = [
        verdict_on(name, {c: noise.normal(table[c], sizes[c], seeds).tolist() for c in cells})
        for _ in range(DRAWS)
    ]
    return sum(one is Verdict.HOLDS for one in verdicts) / DRAWS


DRAWS = 60
MOST = 500
"""Seeds that are still simulated."""
TIMED = {
    name
    for name, (paper, claim) in CLAIMS.items()
    if is_timed(claim, load_experiment(f"{paper}/{claim.artefact}"))
}
ENSEMBLES = {"peters2019/sparse-ensembles-beat-softmax", "peters2019/ensemble-gain"}
SIMULATED = [
    name
    for name, (_, claim) in CLAIMS.items()
    if claim.predicate is not None and name not in TIMED | ENSEMBLES
]
"""Claims that are tested over seeds."""


@pytest.mark.parametrize("name", SIMULATED)
def test_five_seeds_show_what_the_paper_prints_or_the_claim_names_more(name):
    """A power of 0.8, within the error of the simulation and of the measured deviations."""
    needed = CLAIMS[name][1].seeds_needed
    found = power(name, 5)
    assert found >= 0.7 if needed is None else found <= 0.85
    if needed is not None:
        assert power(name, min(needed, MOST)) >= 0.65 if needed <= MOST else found < 0.2


def test_published_deviations_let_the_rules_of_table_2_decide():
    """Table 2 of Peters et al. prints mean ± standard deviation of three runs."""
    published = load_experiment("peters2019/table2").published
    deviations = {
        (row, column): value
        for row, found in published.deviations.items()
        for column, value in found.items()
    }
    for name in ("entmax-best-translation", "sparsemax-behind-softmax"):
        assert power(f"peters2019/{name}", 3, deviations) >= 0.95
