"""Every metric: its unit, digits, direction and signature."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version

from repro import __version__
from repro.config.errors import ConfigError

SPLITS = ("train", "dev", "test")
FURTHER_TEST = "test_"
"""How the names of further test sets begin."""


@dataclass(frozen=True)
class Metric:
    """What one number means.

    Attributes:
        name: middle part of ``<split>/<metric>[/<language>]``.
        unit: unit for axis and table heads; empty for a bare number.
        digits: digits after the point that are worth showing.
        higher_is_better: ``None`` where neither direction is better.
        signature: the choices that change the number, as ``key:value`` joined by ``|``.
        description: one sentence.
        part: what the third part of a full name is.
    """

    name: str
    unit: str
    digits: int
    higher_is_better: bool | None
    signature: str
    description: str
    part: str = "language"


def _signed(short: str, choices: str) -> str:
    return f"{short}|{choices}|v:{__version__}"


_INFLECTION = "macro:language|scorer:evalm2018"

_SACREBLEU = f"smooth:exp|sacrebleu:{version('sacrebleu')}"
_ROUGE = f"stem:yes|refs:average|rouge-score:{version('rouge-score')}"


def _rouge_metrics() -> tuple[Metric, ...]:
    """ROUGE of summaries cut to 75 bytes, and of whole ones."""
    kinds = {f"rouge{kind}": ("f1", f"F score of ROUGE-{kind}") for kind in ("1", "2", "L")}
    kinds["rougeW"] = ("f1", "F score of ROUGE-W with weight 1.2")
    kinds |= {f"rougeL_{p}": (p, f"{p.capitalize()} of ROUGE-L") for p in ("precision", "recall")}
    cuts = {"": ("75", "summaries cut to 75 bytes"), "_whole": ("no", "whole summaries")}
    return tuple(
        Metric(
            name + suffix, "%", 2, True,
            _signed(name.split("_")[0], f"score:{part}|bytes:{cut}|{_ROUGE}"),
            f"{words}, mean over {summaries}.",
        )
        for suffix, (cut, summaries) in cuts.items()
        for name, (part, words) in kinds.items()
    )  # fmt: skip


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "accuracy", "%", 2, True, _signed("acc", _INFLECTION),
            "Share of forms that are predicted exactly, averaged over languages.",
        ),
        Metric(
            "levenshtein", "edits", 3, False, _signed("lev", _INFLECTION),
            "Mean edit distance from predicted to gold form, averaged over languages.",
        ),
        Metric(
            "loss", "", 4, False, _signed("loss", "mean:token|forcing:teacher"),
            "Mean loss per target symbol, each predicted from the gold symbols before it.",
        ),
        Metric(
            "certified", "%", 1, True, _signed("cert", "micro:example|search:beam"),
            "Share of examples whose beam held every hypothesis of nonzero probability.",
        ),
        Metric(
            "optimal", "%", 1, True, _signed("optimal", "micro:example|search:beam"),
            "Share of examples whose prediction is proven to be a most probable sequence.",
        ),
        Metric(
            "rule_baseline", "%", 2, True, _signed("acc", _INFLECTION + "|system:rule-baseline"),
            "Accuracy of the shared task's rule baseline, as measured by its own program.",
        ),
        Metric(
            "single", "%", 1, None, _signed("single", "micro:example|search:beam"),
            "Share of examples with all probability mass on one sequence.",
        ),
        Metric(
            "attention_nonzeros", "symbols", 2, None,
            _signed("attnnz", "mean:token|forcing:teacher"),
            "Mean number of source symbols with nonzero attention per target symbol.",
        ),
        Metric(
            "output_nonzeros", "symbols", 2, None, _signed("outnz", "mean:token|forcing:teacher"),
            "Mean number of symbols with nonzero probability per target symbol.",
        ),
        Metric(
            "tokens_per_second", "symbols/s", 0, True, _signed("speed", "count:target|clock:wall"),
            "Target symbols, end symbol included, per second of wall time.",
        ),
        Metric(
            "uas", "%", 2, True, _signed("uas", "micro:word|punctuation:counted|tokens:gold"),
            "Share of words whose head is right, punctuation included, as in CoNLL 2017.",
        ),
        Metric(
            "exact_trees", "%", 2, True, _signed("exact", "micro:sentence|tokens:gold"),
            "Share of sentences whose every head is right.",
        ),
        Metric(
            "tree_loss", "", 4, False, _signed("loss", "mean:sentence"),
            "Mean structured loss of a sentence.",
        ),
        Metric(
            "trees", "trees", 2, None, _signed("trees", "mean:sentence|inference:sparsemap"),
            "Mean number of trees with nonzero weight.",
        ),
        Metric(
            "parents", "heads", 3, None, _signed("parents", "mean:sentence|inference:sparsemap"),
            "Mean number of heads per word with nonzero probability, averaged over sentences.",
        ),
        Metric(
            "single_tree", "%", 1, None, _signed("single", "micro:sentence|inference:sparsemap"),
            "Share of sentences with all weight on a single tree.",
        ),
        Metric(
            "sentences_per_second", "sentences/s", 1, True, _signed("speed", "clock:wall"),
            "Training sentences per second of wall time.",
        ),
        Metric(
            "label_accuracy", "%", 2, True, _signed("acc", "micro:pair"),
            "Share of pairs with the gold label.",
        ),
        Metric(
            "label_recall", "%", 2, True, _signed("recall", "micro:pair"),
            "Share of the pairs of one gold label that are given it.", part="label",
        ),
        Metric(
            "label_loss", "", 4, False, _signed("loss", "mean:pair"),
            "Mean loss of a pair.",
        ),
        Metric(
            "premise_nonzeros", "%", 1, None, _signed("attnnz", "micro:word"),
            "Share of the words of the premises with nonzero attention.",
        ),
        Metric(
            "alignment_nonzeros", "%", 1, None, _signed("alignnz", "micro:cell|directions:both"),
            "Share of the pairs of words with nonzero alignment weight, both directions together.",
        ),
        Metric(
            "pairs_per_second", "pairs/s", 1, True, _signed("speed", "count:pair|clock:wall"),
            "Training pairs per second of wall time.",
        ),
        Metric(
            "inference_share", "", 3, None, _signed("inference", "part:loss-forward|clock:wall"),
            "Share of training time spent in the loss with its structured inference.",
        ),
        Metric(
            "token_accuracy", "%", 2, True, _signed("tokacc", "mean:token|forcing:teacher"),
            "Share of target symbols with the largest score, given the gold symbols before them.",
        ),
        Metric(
            "bleu", "", 2, True, _signed("bleu", f"tok:none|case:mixed|{_SACREBLEU}"),
            "BLEU of tokens as they are.",
        ),
        Metric(
            "bleu_lc", "", 2, True, _signed("bleu", f"tok:none|case:lc|{_SACREBLEU}"),
            "BLEU of tokens in lower case.",
        ),
        Metric(
            "bleu_13a", "", 2, True, _signed("bleu", f"tok:13a|case:lc|{_SACREBLEU}"),
            "BLEU of plain text in lower case.",
        ),
        Metric(
            "rep", "", 2, False, _signed("rep", "n:2|ngrams:1|words:2"),
            "REP-score: repetitions that the reference has not, per 100 reference words.",
        ),
        Metric(
            "drop", "%", 2, False, _signed("drop", "aligner:ibm2|symmetry:grow-diag-final-and"),
            "DROP-score: source words aligned to the reference but not to the translation.",
        ),
        Metric(
            "meteor", "", 2, True, _signed("meteor", "program:meteor-1.5|norm:no"),
            "METEOR 1.5 by its own program.",
        ),
        Metric(
            "length_penalty", "", 1, None, _signed("alpha", "chosen:dev"),
            "Exponent of the length penalty, chosen on validation data.",
        ),
        Metric(
            "coverage_penalty", "", 1, None, _signed("beta", "chosen:dev"),
            "Weight of the coverage penalty, chosen on validation data.",
        ),
        *_rouge_metrics(),
        Metric(
            "tuned_value", "", 6, None, _signed("tuned", "chosen:dev"),
            "Value of the setting that is tuned on validation data.",
        ),
    )
}  # fmt: skip


def metric_of(name: str) -> Metric:
    """The metric of a full name ``<split>/<metric>`` or ``<split>/<metric>/<part>``.

    Returns:
        The metric; for one part, with ``language:<part>`` or ``label:<part>`` in its signature.

    Raises:
        ConfigError: the name has another shape, or an unknown split or metric.
    """
    parts = name.split("/")
    known = parts[0] in SPLITS or parts[0].startswith(FURTHER_TEST)
    if len(parts) not in (2, 3) or not known or parts[-1] == "":
        raise ConfigError(
            f"{name!r} is no metric name: expected <split>/<metric> or <split>/<metric>/<part> "
            f"with a split of {', '.join(SPLITS)}, or one that begins with {FURTHER_TEST!r}"
        )
    if parts[1] not in METRICS:
        raise ConfigError(f"unknown metric {parts[1]!r} in {name!r}: choose {', '.join(METRICS)}")
    metric = METRICS[parts[1]]
    return metric if len(parts) == 2 else _of_part(metric, parts[2])


def _of_part(metric: Metric, name: str) -> Metric:
    short, *choices = metric.signature.split("|")
    kept = [choice for choice in choices if choice != f"macro:{metric.part}"]
    return replace(metric, signature="|".join([short, f"{metric.part}:{name}", *kept]))
