"""Metrics that tasks measure themselves: loss, attention, speed, chosen settings."""

from repro.evaluation.metrics.metric import Metric, signature

METRICS = (
    Metric(
        "loss", "", 4, False, signature("loss", "mean:token|forcing:teacher"),
        "Mean loss per target symbol, each predicted from the gold symbols before it.",
    ),
    Metric(
        "attention_nonzeros", "symbols", 2, None,
        signature("attnnz", "mean:token|forcing:teacher"),
        "Mean number of source symbols with nonzero attention per target symbol.",
    ),
    Metric(
        "attention_spread", "", 3, None, signature("spread", "mean:token|forcing:teacher"),
        "Standard deviation of the attention scores of a target symbol over the source symbols, "
        "averaged over target symbols.",
    ),
    Metric(
        "output_nonzeros", "symbols", 2, None, signature("outnz", "mean:token|forcing:teacher"),
        "Mean number of symbols with nonzero probability per target symbol.",
    ),
    Metric(
        "tokens_per_second", "symbols/s", 0, True, signature("speed", "count:target|clock:wall"),
        "Target symbols, end symbol included, per second of wall time.",
    ),
    Metric(
        "epoch_minutes", "min", 1, False, signature("time", "clock:wall"),
        "Minutes of training in an epoch, without validation and compilation.",
    ),
    Metric(
        "speed_gain", "", 2, None, signature("speedgain", "rows:last/second|clock:wall"),
        "Speed of training in the last epoch, or between the last validations, divided by that in "
        "the second.",
    ),
    Metric(
        "token_accuracy", "%", 2, True, signature("tokacc", "mean:token|forcing:teacher"),
        "Share of target symbols with the largest score, given the gold symbols before them.",
    ),
    Metric(
        "length_penalty", "", 1, None, signature("alpha", "chosen:dev"),
        "Exponent of the length penalty, chosen on validation data.",
    ),
    Metric(
        "coverage_penalty", "", 1, None, signature("beta", "chosen:dev"),
        "Weight of the coverage penalty, chosen on validation data.",
    ),
)  # fmt: skip
