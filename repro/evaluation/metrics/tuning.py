"""What is chosen on validation data."""

from repro.evaluation.metrics.metric import Metric, signed

METRICS = (
    Metric(
        "tuned_value", "", 6, None, signed("tuned", "chosen:dev"),
        "Value of the setting that is tuned on validation data.",
    ),
)  # fmt: skip
