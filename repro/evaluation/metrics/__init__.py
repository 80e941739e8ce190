"""Registry of metrics: meaning, computation, unit, digits, direction and signature.

Modules of this folder and of those of ``REPRO_EXTENSIONS`` declare their metrics in ``METRICS``.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.config.errors import ConfigError
from repro.config.paths import declared_in, extended
from repro.evaluation.metrics.metric import Metric, signature, without_versions
from repro.evaluation.sufficient_statistics import GROUPS, Formula, split_groups

KeyT = TypeVar("KeyT", float, str)

__all__ = [
    "FURTHER_TEST",
    "METRICS",
    "SPLITS",
    "Evaluation",
    "Metric",
    "best_value",
    "formula_of",
    "is_current",
    "is_metric",
    "metric_of",
    "score_outputs",
    "signature",
    "without_versions",
]

__path__ += extended(__name__)

SPLITS = ("train", "dev", "test")
FURTHER_TEST = "test_"
"""Prefix of the names of further test sets."""


METRICS: Mapping[str, Metric] = declared_in(__name__, __path__, "METRICS", Metric)
"""Metrics of all modules of this package, by name."""


class Evaluation(NamedTuple):
    """Metrics of a split and their sufficient statistics, both by full metric name."""

    values: dict[str, float]
    statistics: dict[str, NDArray[np.number]]

    def update(self, other: "Evaluation") -> None:
        """Add the metrics of another split."""
        self.values.update(other.values)
        self.statistics.update(other.statistics)


def score_outputs(split: str, outputs: object) -> Evaluation:
    """Compute every metric that accepts these outputs of a split; see :attr:`Metric.outputs`."""
    found = Evaluation({}, {})
    for metric in METRICS.values():
        counted = metric.count(outputs)
        if counted is None or metric.from_sums is None:
            continue
        rows, name = np.asarray(counted.rows, np.float64), f"{split}/{metric.name}"
        groups = split_groups(rows, counted.groups)
        by_group = {group: float(metric.from_sums(part.sum(0))) for group, part in groups.items()}
        if metric.recorded != "parts":
            found.values[name] = float(np.mean(list(by_group.values())))
            found.statistics[name] = rows
            if counted.groups is not None:
                numbers = {group: number for number, group in enumerate(groups)}
                found.statistics[name + GROUPS] = np.array([numbers[g] for g in counted.groups])
        by_part = by_group
        if counted.parts is not None:
            parts = split_groups(rows, counted.parts).items()
            by_part = {part: float(metric.from_sums(inside.sum(0))) for part, inside in parts}
        if metric.recorded != "whole" and None not in by_part:
            found.values.update({f"{name}/{part}": value for part, value in by_part.items()})
    return found


def metric_of(name: str) -> Metric:
    """Return the metric with the full name ``<split>/<metric>`` or ``<split>/<metric>/<part>``.

    Returns:
        The metric; if a part is named, with ``language:<part>`` or ``label:<part>`` in its
        signature.

    Raises:
        ConfigError: the name has another format, or an unknown split or metric.
    """
    parts = name.split("/")
    known = parts[0] in SPLITS or parts[0].startswith(FURTHER_TEST)
    if len(parts) not in (2, 3) or not known or parts[-1] == "":
        raise ConfigError(
            f"{name!r} is not a metric name: expected <split>/<metric> or <split>/<metric>/<part> "
            f"with a split of {', '.join(SPLITS)}, or one that begins with {FURTHER_TEST!r}"
        )
    if parts[1] not in METRICS:
        raise ConfigError(f"unknown metric {parts[1]!r} in {name!r}: choose {', '.join(METRICS)}")
    metric = METRICS[parts[1]]
    if len(parts) == 2:
        return metric
    short, *choices = metric.signature.split("|")
    kept = [choice for choice in choices if choice != f"macro:{metric.part}"]
    return replace(metric, signature="|".join([short, f"{metric.part}:{parts[2]}", *kept]))


@cache
def is_metric(name: str) -> bool:
    """Return whether :func:`metric_of` knows a full name."""
    try:
        metric_of(name)
    except ConfigError:
        return False
    return True


@cache
def is_current(name: str, text: str) -> bool:
    """Return whether a metric has a signature today, apart from versions."""
    return without_versions(text) == without_versions(metric_of(name).signature)


def formula_of(name: str) -> Formula | None:
    """Return the map from sums to a metric; ``None`` if it has none or ``name`` is a part."""
    parts = name.split("/")
    metric = METRICS.get(parts[1]) if len(parts) == 2 else None
    return None if metric is None or metric.recorded == "parts" else metric.from_sums


def best_value(measured: Mapping[KeyT, float], metric: str) -> KeyT:
    """Return the value of a setting, or the row, with the best measurement.

    Of several with the best one, it is the smallest value, or the first row by name.

    Args:
        measured: measured metric by value of the setting or by row, at least one.
        metric: full name, which tells whether it is maximized or minimized.

    Raises:
        ConfigError: neither direction of the metric is better.
    """
    higher = metric_of(metric).higher_is_better
    if higher is None:
        raise ConfigError(
            f"cannot choose by {metric!r}; expected a metric that is maximized or minimized"
        )
    sign = -1.0 if higher else 1.0
    return min(measured, key=lambda value: (sign * measured[value], value))
