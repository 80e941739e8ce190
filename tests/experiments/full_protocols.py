"""Settings of the four papers at full scale, written from the papers and not from ``conf/``.

Every setting of a run is listed here with its source: printed in the paper, left open by it,
or a departure that is documented. "KG" is Kiperwasser & Goldberg (2016).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """The value of a setting, and why it is that one.

    Attributes:
        value: at full scale.
        origin: place in the paper, or what decides where the paper is silent or departed from.
        printed: what the paper prints, if ``value`` departs from it.
    """

    value: Any
    origin: str
    printed: Any = None


Settings = dict[str, Setting]


def printed(place: str, **values: Any) -> Settings:
    """Settings that the paper states; ``__`` stands for a dot in a key."""
    return {key.replace("__", "."): Setting(value, place) for key, value in values.items()}


def silent(reason: str, **values: Any) -> Settings:
    """Settings that the paper leaves open."""
    return printed(f"silent: {reason}", **values)


def departs(key: str, value: Any, paper: Any, reason: str) -> Settings:
    """A setting that the paper states differently."""
    return {key: Setting(value, f"departs: {reason}", paper)}


@dataclass(frozen=True)
class Protocol:
    """Settings of one artefact: of all cells, and what rows and columns change.

    Attributes:
        base: every setting of every cell that no row or column changes.
        rows: row to its own settings.
        columns: column to its own settings.
        seeds: seeds of every cell.
        tuned: the setting that is tuned, with its grid and the factor by which it grows.
    """

    base: Settings
    rows: Mapping[str, Settings]
    columns: Mapping[str, Settings]
    seeds: Sequence[int]
    tuned: tuple[str, tuple[float, ...], float | None] | None = None


# ---- Mappings and losses ------------------------------------------------------------------------

GAMMA = printed("Niculae & Blondel (2017), §2: γ = 1", mapping__gamma=1.0)
SOFTMAX = GAMMA | printed("row", mapping__name="softmax")
SPARSEMAX = GAMMA | printed("row", mapping__name="sparsemax")
FUSEDMAX = GAMMA | printed(
    "Niculae & Blondel (2017), §3.2", mapping__name="fusedmax", mapping__lam=0.1
)
OSCARMAX_ROW = GAMMA | printed(
    "Niculae & Blondel (2017), §3.2", mapping__name="oscarmax", mapping__lam=0.01
)
OSCARMAX = OSCARMAX_ROW | departs(
    "mapping.variant", "exact", "paper", "the exact mapping in a row of its own"
)
OSCARMAX_PAPER = OSCARMAX_ROW | printed("supplement, erratum", mapping__variant="paper")
PNORM_ROW = GAMMA | printed(
    "Niculae & Blondel (2017), §4.2, §2", mapping__name="sq_pnorm_max", mapping__p=1.5,
    mapping__tolerance=0.01,
)  # fmt: skip
PNORM = PNORM_ROW | departs("mapping.solver", "exact", "fista", "the exact mapping")
PNORM_FISTA = PNORM_ROW | printed("Niculae & Blondel (2017), B.4", mapping__solver="fista")
CROSS_ENTROPY = printed("softmax output", loss__name="softmax", loss__label_smoothing=0.0)


def entmax_row(output: float, attention: float, solver: str = "exact") -> Settings:
    """α-entmax with one α for the output and one for the attention."""
    return printed(
        "Peters et al. (2019), §4", loss__alpha=output, mapping__alpha=attention,
        mapping__solver=solver, loss__solver=solver,
    )  # fmt: skip


def bounded(name: str, exhaustion: float = 0.2) -> Settings:
    """A constrained mapping with the exhaustion bonus c."""
    return printed(
        "Malaviya et al. (2018), §4", mapping__name=name, mapping__exhaustion=exhaustion
    ) | silent("as in the released program", mapping__detach_exhaustion=True)


ENTMAX = printed(
    "Peters et al. (2019), §4", mapping__name="entmax", loss__name="entmax",
    loss__label_smoothing=0.0,
)  # fmt: skip

# ---- Sequence-to-sequence models ----------------------------------------------------------------

LSTM = silent(
    "OpenNMT's defaults", model__name="seq2seq", model__init_range=0.1,
    training__max_grad_norm=5.0, training__weight_decay=0.0, training__patience=None,
    precision="fp32", model__embedding_dropout=0.0, model__attention="general",
)  # fmt: skip
NO_OUTPUT_BIAS = silent("the papers' programs have none", model__output_bias=False)
PRINTED_OUTPUT_BIAS = departs(
    "model.output_bias", False, True, "Peters et al. (2019), §2, print b; their program has none"
)
ADAM = printed(
    "Peters et al. (2019), §4", training__optimizer="adam", training__learning_rate=0.001,
    training__decay=0.5, training__schedule="decay_if_loss_increases", training__batch_size=64,
    decoding__beam_size=5, model__layers=2, model__dropout=0.3,
) | PRINTED_OUTPUT_BIAS | printed(
    "Peters et al. (2019), §2: bidirectional", model__bidirectional=True
)  # fmt: skip
SEARCH = silent(
    "nothing is rescored or replaced", decoding__length_penalty=0.0, decoding__coverage_penalty=0.0,
    decoding__tune_penalties=False, decoding__replace_unknown=False, decoding__min_length=0,
    decoding__batch_size=64,
)  # fmt: skip
TEXT = silent(
    "OpenNMT's defaults", data__vocabulary=50_000, data__shared=False, data__max_length=50,
    decoding__max_length=100, data__max_test_length=None, model__coverage_vector=False,
    model__coverage_of="query",
) | silent("selection by the toolkit's accuracy", training__monitor="token_accuracy")  # fmt: skip
PLAIN_TEXT = silent("whole corpora", data__check_size=True, data__strip_diacritics="none")
BY_EPOCHS = silent(
    "bounded by epochs", training__max_steps=None, training__validate_every_steps=None,
)  # fmt: skip

MORPHOLOGY = ENTMAX | LSTM | ADAM | BY_EPOCHS | printed(
    "Peters et al. (2019), §4.1", task__name="morphology", data__corpus="sigmorphon2018",
    task__languages=None, model__embedding_size=300, model__hidden_size=300,
) | silent(
    "docs/papers/peters2019.md", training__min_learning_rate=1e-6, training__monitor="accuracy",
    decoding__max_length=60, decoding__batch_size=256, decoding__max_hypotheses=200,
)  # fmt: skip
HIGH = printed(
    "Peters et al. (2019), §4.1: every epoch", task__setting="high", training__validate_every=1
) | silent("not stated", training__max_epochs=30)
MEDIUM = printed(
    "Peters et al. (2019), §4.1: every ten epochs", task__setting="medium",
    training__validate_every=10,
) | silent("not stated", training__max_epochs=300)  # fmt: skip

NMT_PETERS = ENTMAX | LSTM | ADAM | SEARCH | TEXT | PLAIN_TEXT | printed(
    "Peters et al. (2019), §4.2", task__name="nmt", model__embedding_size=500,
    model__hidden_size=500, training__max_steps=100_000,
) | silent(
    "steps bound the training", training__max_epochs=None, training__min_learning_rate=0.0,
    training__validate_every=1, data__lowercase=False, task__tuned_metric="bleu",
)  # fmt: skip


def joint(corpus: str, source: str, target: str, validated: int) -> Settings:
    """A pair of Peters et al. (2019) with a joint segmentation."""
    return printed(
        "Peters et al. (2019), §4.2", data__corpus=corpus, data__source=source,
        data__target=target, data__merges=32_000, data__joint=True,
        training__validate_every_steps=validated,
    )  # fmt: skip


def romanian(source: str, target: str, stripped: str) -> Settings:
    """A direction of Romanian: separate segmentations, no diacritics, 120k steps."""
    return printed(
        "Peters et al. (2019), §4.2", data__corpus="wmt16_ro", data__source=source,
        data__target=target, data__merges=25_000, data__joint=False,
        data__strip_diacritics=stripped, training__max_steps=120_000,
        training__validate_every_steps=10_000,
    )  # fmt: skip


GERMAN = joint("iwslt2017", "de", "en", 5_000)

OPENNMT = printed(
    "Niculae & Blondel (2017), C.3", training__optimizer="sgd", training__learning_rate=1.0,
    training__decay=0.5, training__schedule="decay_after_epoch", training__max_epochs=13,
    training__batch_size=64, training__max_grad_norm=5.0, model__init_range=0.1,
    model__embedding_size=500, model__hidden_size=500, model__dropout=0.3,
    training__monitor="token_accuracy",
) | silent(
    "\"after the 8th\": the first halving follows epoch 8", training__decay_from=8
) | silent("the default then", model__layers=2) | NO_OUTPUT_BIAS | silent(
    "none", training__min_learning_rate=0.0, training__validate_every=1,
)  # fmt: skip
LARGE_WORDS = printed(
    "Niculae & Blondel (2017), C.3", data__lowercase=True, data__vocabulary=50_000,
    data__max_length=50, model__bidirectional=False, data__merges=0,
) | silent("no subwords", data__joint=True) | silent(
    "OpenNMT's default", decoding__beam_size=5
)  # fmt: skip

NMT_NICULAE = (
    LSTM | TEXT | SEARCH | PLAIN_TEXT | BY_EPOCHS | CROSS_ENTROPY | OPENNMT | LARGE_WORDS
    | printed("Niculae & Blondel (2017), C.3", task__name="nmt", data__max_test_length=100)
    | silent("nothing is tuned", task__tuned_metric="bleu")
)  # fmt: skip
SUMMARIES = (
    LSTM | TEXT | SEARCH | PLAIN_TEXT | BY_EPOCHS | CROSS_ENTROPY | OPENNMT | LARGE_WORDS
    | printed("Niculae & Blondel (2017), C.4", task__name="summarization", data__corpus="gigaword")
    | departs("data.max_test_length", None, 100, "no example of the test sets is left out")
    | departs("decoding.max_length", 50, None, "longer than any title")
)  # fmt: skip
NMT_MALAVIYA = (
    LSTM | TEXT | SEARCH | PLAIN_TEXT | BY_EPOCHS | CROSS_ENTROPY | OPENNMT
    | printed(
        "Malaviya et al. (2018), §5", task__name="nmt", data__merges=32_000, data__joint=True,
        training__max_epochs=13, model__layers=2, model__embedding_size=500,
        model__hidden_size=500, model__dropout=0.3, training__optimizer="sgd",
        decoding__coverage_floor=0.1, decoding__penalty_grid=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
    )
    | printed("Malaviya et al. (2018), §2: Bi-LSTM", model__bidirectional=True)
    | silent("the released script", decoding__beam_size=10, decoding__min_length=2)
    | silent("nothing is tuned", task__tuned_metric="bleu")
)  # fmt: skip
FERTILITIES = printed(
    "Malaviya et al. (2018), §4", model__fertility__margin=1.0, model__fertility__value=2.0,
    model__fertility__strategy="predicted", model__fertility__training_bounds="aligned",
) | silent(
    "the released program", model__fertility__links="forward", model__fertility__least=1,
    model__fertility__classes=10, model__fertility__first_class_weight=0.5,
    model__fertility__embedding_size=256, model__fertility__hidden_size=512,
    model__fertility__layers=2, model__fertility__dropout=0.2, model__fertility__epochs=10,
    model__fertility__batch_size=64, model__fertility__learning_rate=0.001,
)  # fmt: skip


def pair(corpus: str, source: str, target: str) -> Settings:
    """A corpus and its direction."""
    return printed("tables", data__corpus=corpus, data__source=source, data__target=target)


def penalised(base: Settings) -> Settings:
    """COVPENALTY: a search that is tuned by the measure of the table."""
    return base | printed(
        "Malaviya et al. (2018), §5", decoding__tune_penalties=True, task__tuned_metric="bleu_lc"
    )


def coverage(base: Settings) -> Settings:
    """COVVECTOR."""
    return base | printed("Malaviya et al. (2018), §5", model__coverage_vector=True)


LOWER = silent("Ranzato et al. (2016); the released scripts", data__lowercase=True)
CASED = silent("the released scripts", data__lowercase=False)
DE_EN = pair("iwslt2014", "de", "en") | LOWER
JA_EN = pair("kftt", "ja", "en") | LOWER
RO_EN = pair("wmt16_ro", "ro", "en") | CASED

# ---- Natural language inference and parsing -----------------------------------------------------

PAIRS = silent(
    "as provided", data__corpus="nli", data__lowercase=False, data__tokenization="provided",
    data__check_size=True, data__min_count=1, data__glove="glove.840B.300d.txt",
    data__text=[], data__max_words=None, model__vectors="glove", model__embedding_std=0.1,
    training__max_grad_norm=5.0, training__min_learning_rate=0.0, training__batch_size=32,
    training__validate_every=1, training__monitor="label_accuracy", precision="fp32",
)  # fmt: skip
SNLI = PAIRS | BY_EPOCHS | CROSS_ENTROPY | printed(
    "Niculae & Blondel (2017), C.2", task__name="snli", data__source="snli",
    data__tokenization="provided", data__check_size=True, model__vector_size=300,
    model__trainable_vectors=False, model__vectors="glove", model__dropout=0.1,
    training__optimizer="adam", training__learning_rate=3e-4, training__max_epochs=200,
) | silent(
    "ours", model__name="attention_classifier", model__hidden_size=100, training__decay=1.0,
    training__schedule="decay_if_loss_increases", training__patience=None,
)  # fmt: skip
L2 = ("training.weight_decay", (0.0, 1e-4, 3e-4, 1e-3), None)
ESIM = PAIRS | BY_EPOCHS | CROSS_ENTROPY | SOFTMAX | printed(
    "Niculae et al. (2018), §5.2", task__name="nli_alignment", model__name="esim",
    training__optimizer="sgd", training__decay=0.9, training__schedule="decay_if_not_best",
) | silent(
    "Chen et al. (2017), §4", model__vector_size=300, model__hidden_size=300, model__dropout=0.5,
    model__trainable_vectors=True, training__batch_size=32,
) | silent(
    "ours", training__max_epochs=30, training__patience=7, training__weight_decay=0.0,
    model__max_iter=1000,
)  # fmt: skip
RATES = ("training.learning_rate", (2**-6, 2**-5, 2**-4, 2**-3), 2.0)
ALIGNMENTS = {
    "softmax": printed("§5.2", model__alignment="words"),
    "sequential": printed("§5.2", model__alignment="sequential"),
    "matching": printed("§5.2", model__alignment="matching"),
}
MULTINLI = printed("§5.2", data__source="multinli")
SNLI_SOURCE = printed("§5.2", data__source="snli")

PARSING = BY_EPOCHS | printed(
    "Niculae et al. (2018), §5.1", task__name="parsing", data__corpus="universal_dependencies",
    data__release="2.0", training__optimizer="adam",
) | printed(
    "KG, whose configuration §5.1 takes", model__name="parser", model__word_size=100,
    model__tag_size=25, model__lstm_size=125, model__layers=2, model__arc_size=100,
    model__word_dropout=0.25,
) | silent(
    "the released program", task__tags="upos", task__reduction="sum", training__batch_size=16,
    training__max_epochs=50, training__max_grad_norm=5.0, task__candidate_iterations=100,
    task__train_single_root=False,
) | silent(
    "ours", training__patience=10, training__decay=1.0,
    training__schedule="decay_if_loss_increases", training__min_learning_rate=0.0,
    training__weight_decay=0.0, training__validate_every=1, training__monitor="uas",
    task__single_root=True, precision="fp32", data__check_size=True,
)  # fmt: skip
PARSING_RATES = ("training.learning_rate", (5e-4, 1e-3, 2e-3, 4e-3, 8e-3), 2.0)


def structured(name: str, **values: Any) -> Settings:
    """A structured loss."""
    return printed("Niculae et al. (2018), §4", loss__name=name, **values)


SPARSEMAP = structured("sparsemap") | silent("the released program", loss__max_iter=100)


def treebank(language: str) -> Settings:
    """A treebank of release 2.0."""
    return printed("Table 1", data__treebank=f"UD_{language}")


# ---- Artefacts ----------------------------------------------------------------------------------

ONE_RUN, THREE_RUNS = [1], [1, 2, 3]
ALPHAS = {
    f"{name} / {other}": entmax_row(output, attention)
    for name, output in (("1", 1.0), ("1.5", 1.5), ("2", 2.0))
    for other, attention in (("1", 1.0), ("1.5", 1.5), ("2", 2.0))
}
SAME_ALPHA = {
    "softmax": entmax_row(1.0, 1.0),
    "1.5-entmax": entmax_row(1.5, 1.5),
    "sparsemax": entmax_row(2.0, 2.0),
}
SOLVERS = {
    "softmax": entmax_row(1.0, 1.0),
    "1.5-entmax": entmax_row(1.5, 1.5),
    "1.5-entmax, sorting": entmax_row(1.5, 1.5, "sort"),
    "1.5-entmax, bisection": entmax_row(1.5, 1.5, "bisection"),
}
EIGHTHS = [1 + step / 8 for step in range(11)]
"""Values of α in Figure 4 of Peters et al. (2019), which prints no grid; its axes end at 2.25."""
SWEEP = {
    **{f"attention {a:g}": entmax_row(1.5, a) for a in EIGHTHS},
    **{f"output {a:g}": entmax_row(a, 1.5) for a in (*EIGHTHS, 1.33)},
}
MAPPINGS = {
    "softmax": SOFTMAX, "sparsemax": SPARSEMAX, "fusedmax": FUSEDMAX, "oscarmax": OSCARMAX,
    "oscarmax (as published)": OSCARMAX_PAPER, "sq-pnorm-max": PNORM,
    "sq-pnorm-max (FISTA)": PNORM_FISTA,
}  # fmt: skip


def mappings(*names: str) -> dict[str, Settings]:
    """Rows of mappings."""
    return {name: MAPPINGS[name] for name in names}


def every(settings: Settings, *columns: str) -> dict[str, Settings]:
    """Columns of the same settings."""
    return dict.fromkeys(columns, settings)


FOUR = mappings("softmax", "sparsemax", "fusedmax", "oscarmax")
FIVE = mappings("softmax", "sparsemax", "fusedmax", "oscarmax", "sq-pnorm-max")
SNLI_ROWS = mappings("softmax", "sparsemax", "fusedmax", "oscarmax", "oscarmax (as published)")
SIX = SNLI_ROWS | mappings("sq-pnorm-max")
FRENCH = pair("benchmark_fr", "fr", "en")
GIGAWORD = {"Gigaword": printed("C.4")}
MARGINS = ("model.fertility.margin", (0.0, 1.0, 2.0), None)
CONSTRAINED = {
    "csoftmax (c = 0.2)": bounded("csoftmax") | FERTILITIES,
    "csparsemax (c = 0.2)": bounded("csparsemax") | FERTILITIES,
}
TABLE_4 = {
    f"{corpus} {language} {way} English": pair(name, *sides)
    for corpus, names in {
        "BENCHMARK": {key: f"benchmark_{key}" for key in ("fr", "it", "nl", "sv")},
        "BENCHMARK+": {key: f"benchmark_{key}" for key in ("fr", "it")},
        "WMT16": {key: f"wmt16_{key}" for key in ("ro", "de", "fi")},
        "WMT17": {key: f"wmt17_{key}" for key in ("lv", "tr")},
    }.items()
    for language, name in names.items()
    for way, sides in {"from": ("en", language), "to": (language, "en")}.items()
}


def fertility(strategy: str, **values: Any) -> Settings:
    """Csparsemax with a fertility strategy."""
    changed = printed("Malaviya et al. (2018), §4", model__fertility__strategy=strategy, **values)
    return bounded("csparsemax") | FERTILITIES | changed


def columns_of(summary_set: str, metrics: str) -> list[str]:
    """Names of columns of a table of summaries."""
    return [f"{summary_set} {metric}" for metric in metrics.split(", ")]


def summary_columns(metrics: str) -> dict[str, Settings]:
    """Every column of Tables 6 and 7, which change nothing."""
    sets = ("DUC 2003", "DUC 2004", "Gigaword")
    return every({}, *(name for one in sets for name in columns_of(one, metrics)))


ROUGE_6 = "R-1 cut, R-2 cut, R-L cut, R-W1.2 cut, R-1 whole, R-2 whole, R-L whole, R-W1.2 whole"
ROUGE_7 = "P cut, R cut, F1 cut, P whole, R whole, F1 whole"
PARSER_LOSSES = {
    "Structured SVM": structured("structured_svm", loss__cost=1.0),
    "CRF": structured("crf"),
    "margin CRF": structured("margin_crf", loss__cost=1.0),
    "SparseMAP": SPARSEMAP,
    "m-SparseMAP": structured("margin_sparsemap", loss__cost=1.0)
    | silent("the released program", loss__max_iter=100),
}
TRANSLATED = {"DE→EN": GERMAN}
SUMMARY_SCORES = "ROUGE-1, ROUGE-2, ROUGE-L"

PROTOCOLS = {
    "peters2019/table1": Protocol(
        MORPHOLOGY, ALPHAS,
        every(HIGH, "high (avg.)", "high (ens.)") | every(MEDIUM, "medium (avg.)", "medium (ens.)"),
        THREE_RUNS,
    ),
    "peters2019/section4_1": Protocol(
        MORPHOLOGY, ALPHAS,
        every(HIGH, "high single", "high exact")
        | every(MEDIUM, "medium single", "medium exact"),
        THREE_RUNS,
    ),
    "peters2019/figure1": Protocol(
        MORPHOLOGY, {name: row for name, row in ALPHAS.items() if not name.startswith("1 /")},
        {"high": HIGH}, THREE_RUNS,
    ),
    "peters2019/table2": Protocol(
        NMT_PETERS, SAME_ALPHA,
        {
            "DE→EN": GERMAN, "EN→DE": joint("iwslt2017", "en", "de", 5_000),
            "JA→EN": joint("kftt", "ja", "en", 10_000), "EN→JA": joint("kftt", "en", "ja", 10_000),
            "RO→EN": romanian("ro", "en", "source"), "EN→RO": romanian("en", "ro", "target"),
        },
        THREE_RUNS,
    ),
    "peters2019/table3": Protocol(
        NMT_PETERS, SAME_ALPHA, every(GERMAN, "# attended", "# target words"), THREE_RUNS
    ),
    "peters2019/figure2": Protocol(
        NMT_PETERS, {"attention 2, output 1.5": entmax_row(1.5, 2.0)}, TRANSLATED, THREE_RUNS
    ),
    "peters2019/figure4": Protocol(NMT_PETERS, SWEEP, {"accuracy": GERMAN}, THREE_RUNS),
    "peters2019/figure5": Protocol(
        NMT_PETERS, {"1.5": entmax_row(1.5, 1.5)}, TRANSLATED, THREE_RUNS
    ),
    "peters2019/figure6": Protocol(NMT_PETERS, SOLVERS, {"target words/s": GERMAN}, THREE_RUNS),
    "peters2019/section4_2": Protocol(
        NMT_PETERS, SOLVERS, every(GERMAN, "target words/s", "÷ softmax"), THREE_RUNS
    ),
    "niculae2017/table1": Protocol(SNLI, SNLI_ROWS, {"accuracy": {}}, THREE_RUNS, L2),
    "niculae2017/table3": Protocol(
        SNLI | silent("only time counts", training__weight_decay=0.0), SNLI_ROWS,
        every({}, "pairs/s", "pairs/s ÷ softmax", "minutes per epoch"), THREE_RUNS,
    ),
    "niculae2017/figure3": Protocol(SNLI, FOUR, {"SNLI": {}}, ONE_RUN, L2),
    "niculae2017/figure6": Protocol(SNLI, FOUR, {"SNLI": {}}, ONE_RUN, L2),
    "niculae2017/table2": Protocol(
        SUMMARIES, SIX,
        every({}, *(n for s in ("DUC 2004", "Gigaword") for n in columns_of(s, SUMMARY_SCORES))),
        ONE_RUN,
    ),
    "niculae2017/table6": Protocol(SUMMARIES, SIX, summary_columns(ROUGE_6), ONE_RUN),
    "niculae2017/table7": Protocol(SUMMARIES, SIX, summary_columns(ROUGE_7), ONE_RUN),
    "niculae2017/figure1": Protocol(
        SUMMARIES, mappings("softmax", "sparsemax", "fusedmax"), GIGAWORD, ONE_RUN
    ),
    **{
        f"niculae2017/figure{number}": Protocol(SUMMARIES, FIVE, GIGAWORD, ONE_RUN)
        for number in (7, 8, 9)
    },
    "niculae2017/table4": Protocol(NMT_NICULAE, SIX, TABLE_4, ONE_RUN),
    "niculae2017/table5": Protocol(
        NMT_NICULAE, MAPPINGS, every(FRENCH, "target words/s", "÷ softmax", "minutes per epoch"),
        ONE_RUN,
    ),
    "niculae2017/section4_2": Protocol(
        NMT_NICULAE, MAPPINGS,
        every(FRENCH, "target words/s ÷ softmax", "time of an epoch ÷ softmax", "BLEU"), ONE_RUN,
    ),
    "niculae2017/figure4": Protocol(
        NMT_NICULAE, mappings("softmax", "fusedmax", "oscarmax"), {"French to English": FRENCH},
        ONE_RUN,
    ),
    "niculae2017/appendix_c3": Protocol(
        NMT_NICULAE, FIVE, {"French to English": FRENCH}, ONE_RUN
    ),
    "malaviya2018/table1": Protocol(
        NMT_MALAVIYA,
        {
            "softmax": SOFTMAX, "softmax + COVPENALTY": penalised(SOFTMAX),
            "softmax + COVVECTOR": coverage(SOFTMAX), "sparsemax": SPARSEMAX,
            "sparsemax + COVPENALTY": penalised(SPARSEMAX),
            "sparsemax + COVVECTOR": coverage(SPARSEMAX), **CONSTRAINED,
        },
        {
            f"{name} {metric}": column
            for name, column in {"De-En": DE_EN, "Ja-En": JA_EN, "Ro-En": RO_EN}.items()
            for metric in ("BLEU", "METEOR", "REP", "DROP")
        } | {"De-En METEOR of NLTK": DE_EN},
        ONE_RUN, MARGINS,
    ),
    "malaviya2018/table2": Protocol(
        NMT_MALAVIYA,
        {
            "CONSTANT, f = 2": fertility("constant", model__fertility__value=2.0),
            "CONSTANT, f = 3": fertility("constant", model__fertility__value=3.0),
            "GUIDED": fertility("guided"),
            "PREDICTED, c = 0": fertility("predicted") | bounded("csparsemax", 0.0),
            "PREDICTED, c = 0.2": fertility("predicted"),
        },
        every(DE_EN, "BLEU", "METEOR", "METEOR of NLTK"), ONE_RUN, MARGINS,
    ),
    "malaviya2018/figure2": Protocol(
        NMT_MALAVIYA, {"softmax": SOFTMAX, "csparsemax": bounded("csparsemax") | FERTILITIES},
        {"De-En": DE_EN}, ONE_RUN,
    ),
    "malaviya2018/appendix_b": Protocol(
        NMT_MALAVIYA,
        {
            "softmax": SOFTMAX, "sparsemax": SPARSEMAX,
            **{name: bounded(name) | FERTILITIES for name in ("csoftmax", "csparsemax")},
        },
        {"De-En": DE_EN}, ONE_RUN,
    ),
    "niculae2018/table1": Protocol(
        PARSING, PARSER_LOSSES,
        {
            "en": treebank("English"), "zh": treebank("Chinese"), "vi": treebank("Vietnamese"),
            "ro": treebank("Romanian"), "ja": treebank("Japanese"),
        },
        THREE_RUNS, PARSING_RATES,
    ),
    "niculae2018/figure3": Protocol(
        PARSING, {"SparseMAP": SPARSEMAP}, {"en": treebank("English")}, ONE_RUN, PARSING_RATES
    ),
    "niculae2018/figure4": Protocol(
        PARSING, {"SparseMAP": SPARSEMAP}, {"zh": treebank("Chinese")}, ONE_RUN, PARSING_RATES
    ),
    "niculae2018/table2": Protocol(
        ESIM, ALIGNMENTS,
        every(MULTINLI, "MultiNLI accuracy", "MultiNLI nonzero")
        | every(SNLI_SOURCE, "SNLI accuracy", "SNLI nonzero"),
        THREE_RUNS, RATES,
    ),
    "niculae2018/section5_2": Protocol(
        ESIM, ALIGNMENTS,
        every(
            MULTINLI, "MultiNLI pairs/s", "MultiNLI time of an epoch ÷ softmax",
            "MultiNLI last ÷ second epoch",
        )
        | every(
            SNLI_SOURCE, "SNLI pairs/s", "SNLI time of an epoch ÷ softmax",
            "SNLI last ÷ second epoch",
        ),
        THREE_RUNS, RATES,
    ),
    "niculae2018/figure5": Protocol(ESIM, ALIGNMENTS, {"SNLI": SNLI_SOURCE}, ONE_RUN, RATES),
}  # fmt: skip
"""Every artefact that has runs."""
