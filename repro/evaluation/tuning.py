"""Choice of the best value of a tuned setting, judged on validation data."""

from collections.abc import Mapping

from repro.config.errors import ConfigError
from repro.evaluation.metrics import metric_of


def best_value(measured: Mapping[float, float], metric: str) -> float:
    """The value of the setting with the best measurement; ties go to the smaller value.

    Args:
        measured: value of the setting to value of the metric, at least one.
        metric: full name; says which direction is better.

    Raises:
        ConfigError: neither direction of the metric is better.
    """
    higher = metric_of(metric).higher_is_better
    if higher is None:
        raise ConfigError(f"tune.metric is {metric!r}; expected a metric with a better direction")
    sign = -1.0 if higher else 1.0
    return min(measured, key=lambda value: (sign * measured[value], value))
