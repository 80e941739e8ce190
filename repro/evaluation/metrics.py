"""Every metric: its unit, digits, direction and signature."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from repro import __version__
from repro.config.errors import ConfigError

SPLITS = ("train", "dev", "test")


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
    """

    name: str
    unit: str
    digits: int
    higher_is_better: bool | None
    signature: str
    description: str


def _signed(short: str, choices: str) -> str:
    return f"{short}|{choices}|v:{__version__}"


_INFLECTION = "macro:language|scorer:evalm2018"

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
            "inference_share", "", 3, None, _signed("inference", "part:loss-forward|clock:wall"),
            "Share of training time spent in the loss with its structured inference.",
        ),
        Metric(
            "tuned_value", "", 6, None, _signed("tuned", "chosen:dev"),
            "Value of the setting that is tuned on validation data.",
        ),
    )
}  # fmt: skip


def metric_of(name: str) -> Metric:
    """The metric of a full name ``<split>/<metric>`` or ``<split>/<metric>/<language>``.

    Returns:
        The metric; for one language, with ``language:<language>`` in its signature.

    Raises:
        ConfigError: the name has another shape, or an unknown split or metric.
    """
    parts = name.split("/")
    if len(parts) not in (2, 3) or parts[0] not in SPLITS or parts[-1] == "":
        raise ConfigError(
            f"{name!r} is no metric name: expected <split>/<metric> or <split>/<metric>/<language> "
            f"with a split of {', '.join(SPLITS)}"
        )
    if parts[1] not in METRICS:
        raise ConfigError(f"unknown metric {parts[1]!r} in {name!r}: choose {', '.join(METRICS)}")
    metric = METRICS[parts[1]]
    return metric if len(parts) == 2 else _of_language(metric, parts[2])


def _of_language(metric: Metric, language: str) -> Metric:
    short, *choices = metric.signature.split("|")
    kept = [choice for choice in choices if choice != "macro:language"]
    return replace(metric, signature="|".join([short, f"language:{language}", *kept]))
