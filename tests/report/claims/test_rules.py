"""Rules of the papers' claims, applied to published values and to tables built to violate them."""

from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from made_up import record

from repro.config.claims import Bound, load_claims
from repro.config.experiment import ScalePlan, load_experiment
from repro.report.claims import Verdict, judge
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


def published_table(name: str) -> Table:
    """Return the printed values of the artefact of a claim."""
    paper, claim = CLAIMS[name]
    rows = load_experiment(f"{paper}/{claim.artefact}").published.rows
    return {(row, column): value for row, found in rows.items() for column, value in found.items()}


def test_every_claim_that_is_left_out_exists() -> None:
    assert {*UNPUBLISHED, *CONTRADICTED} <= {*CLAIMS}


@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in UNPUBLISHED])
def test_the_papers_own_values_satisfy_the_rule(name: str) -> None:
    predicate = CLAIMS[name][1].predicate
    assert predicate is not None
    assert predicate.metric is None  # published values are those of the columns
    wanted = Verdict.FAILS if name in CONTRADICTED else Verdict.HOLDS
    assert verdict_on(name, published_table(name)) is wanted


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
    "malaviya2018/sparse-models-higher-bleu": published_table("malaviya2018/no-slowdown")
    | cells("softmax + COVVECTOR", BLEU, 26)
    | cells("sparsemax + COVVECTOR", BLEU, 27),
    "malaviya2018/sparse-models-higher-meteor": published_table("malaviya2018/no-slowdown")
    | cells("sparsemax + COVVECTOR", METEOR, 29.5),
    "malaviya2018/no-slowdown": cells("softmax", BLEU, 100)
    | cells(
        ["sparsemax", "csoftmax (c = 0.2)", "csparsemax (c = 0.2)"],
        BLEU,
        95,
    ),
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
    "malaviya2018/sparse-models-higher-bleu": cells("softmax + COVVECTOR", BLEU, 26.98),
    "malaviya2018/sparse-models-higher-meteor": cells("softmax + COVVECTOR", METEOR, 29.44),
    "malaviya2018/csparsemax-less-repetition": cells(BEST, "Ro-En REP", 2.5),
    "malaviya2018/csparsemax-fewer-drops": cells(BEST, "De-En DROP", 5.9),
    "malaviya2018/csparsemax-better-coverage-than-csoftmax": cells(BEST, "Ja-En DROP", 22.8),
    "malaviya2018/csparsemax-better-coverage": cells(
        BEST, ["De-En REP", "Ro-En REP", "Ro-En DROP"], 24
    ),
    "malaviya2018/csparsemax-translates-better": cells(BEST, "Ro-En BLEU", 29.6),
    "malaviya2018/csparsemax-higher-meteor": cells(BEST, "De-En METEOR", 31.4),
    "malaviya2018/sparsemax-repeats-less": cells("sparsemax", "De-En REP", 3.4),
    "malaviya2018/csoftmax-repeats-less": cells("csoftmax (c = 0.2)", "Ro-En REP", 2.5),
    "malaviya2018/predicted-fertility-best": cells("GUIDED", "METEOR", 31.8),
    "malaviya2018/exhaustion-helps": cells("PREDICTED, c = 0", "BLEU", 29.9),
    "malaviya2018/no-slowdown": cells(BEST, "Ja-En BLEU", 75),
    "niculae2017/fusedmax-best-entailment": cells("sparsemax", "accuracy", 82.5),
    "niculae2017/oscarmax-above-softmax": cells("softmax", "accuracy", 81.8),
    "niculae2017/entailment-same-speed": cells("fusedmax", "pairs/s", 95),
    "niculae2017/sparse-entailment-faster": cells("fusedmax", "pairs/s", 104),
    "niculae2017/translation-within-one-bleu": cells(
        "oscarmax (as published)", "WMT17 tr to English", 1
    ),
    "niculae2017/translation-three-quarters": cells("fusedmax", "target words/s", 74),
    "niculae2017/translation-time": cells("fusedmax", "minutes per epoch", 211),
    "niculae2017/pnorm-slowest": cells("softmax", "target words/s", 27),
    "niculae2017/fusedmax-best-summaries": cells("softmax", "DUC 2004 ROUGE-1", 28.5),
    "niculae2017/fusedmax-above-softmax-summaries": cells("softmax", "DUC 2004 ROUGE-2", 10),
    "niculae2017/fusedmax-above-softmax-every-rouge": cells("softmax", "DUC 2003 R-2 cut", 9),
    "niculae2018/sparsemap-best-parser": cells("CRF", "ro", 87.7),
    "niculae2018/few-trees": cells("SparseMAP", "ja", 1.05),
    "niculae2018/few-ambiguous-arcs": cells("SparseMAP", "vi", 1.05),
    "niculae2018/structured-alignment-competitive": cells("sequential", "SNLI accuracy", 85.4),
    "niculae2018/structured-alignment-sparse": cells("matching", "SNLI nonzero", 26),
    "niculae2018/matching-sparser": cells("matching", "MultiNLI nonzero", 14),
    "niculae2018/structured-alignment-speed": cells("matching", "SNLI pairs/s", 75),
    "niculae2018/structured-alignment-speeds-up": cells(
        "matching", "MultiNLI last ÷ second epoch", 0.95
    ),
    "peters2019/sparse-output-beats-softmax": cells("2 / 2", "high (avg.)", 93.1),
    "peters2019/sparse-ensembles-beat-softmax": cells("2 / 2", "high (ens.)", 93.1),
    "peters2019/medium-gain": cells("2 / 1.5", "medium (avg.)", 84.5),
    "peters2019/ensemble-gain": cells("2 / 1.5", "high (ens.)", 94.6),
    "peters2019/attention-matters-less": cells(["1 / 2", "1.5 / 2", "2 / 2"], "medium (avg.)", 80),
    "peters2019/single-sequence-medium": cells(SPARSE[0], "medium single", 58),
    "peters2019/single-sequence-high": cells(SPARSE[0], "high single", 73),
    "peters2019/certificate-medium": cells(SPARSE[0], "medium exact", 73),
    "peters2019/certificate-high": cells(SPARSE[0], "high exact", 78),
    "peters2019/entmax-best-translation": cells("sparsemax", "RO→EN", 30.2),
    "peters2019/sparsemax-behind-softmax": cells("sparsemax", "EN→RO", 28.2),
    "peters2019/sparsity-order": cells("softmax", "# attended", 5),
    "peters2019/attention-sparse": cells("1.5-entmax", "# attended", 6.3),
    "peters2019/output-sparse": cells("1.5-entmax", "# target words", 200),
    "peters2019/optimal-output-alpha": cells("output 1", "accuracy", 62.1),
    "peters2019/alpha-above-two": cells("output 2.25", "accuracy", 60.1),
    "peters2019/attention-alpha-small-effect": cells("attention 2", "accuracy", 58.9),
    "peters2019/bisection-practical": cells("1.5-entmax, bisection", "target words/s", 8_500),
    "peters2019/entmax-speed": cells("1.5-entmax, sorting", "target words/s", 12_000),
}
"""Cells that make a sentence false, in a table that agrees with it otherwise."""


@pytest.mark.parametrize(
    "name",
    [name for name, (_, claim) in CLAIMS.items() if claim.predicate is not None],
)
def test_a_table_that_violates_the_sentence_fails_the_rule(name: str) -> None:
    table = ASSUMED.get(name) or published_table(name)
    assert verdict_on(name, table) is Verdict.HOLDS
    assert {*VIOLATIONS[name]} <= {*table}
    assert verdict_on(name, {**table, **VIOLATIONS[name]}) is Verdict.FAILS
