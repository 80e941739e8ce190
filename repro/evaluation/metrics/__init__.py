"""Every metric: its unit, digits, direction and signature.

One module for each family; a new task may add one, found by its ``METRICS``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from repro.config.errors import ConfigError
from repro.config.paths import extended
from repro.evaluation.metrics.metric import Metric, signed
from repro.evaluation.sufficient_statistics import Form

__all__ = ["FURTHER_TEST", "METRICS", "SPLITS", "Metric", "form_of", "metric_of", "signed"]

__path__ += extended(__name__)

SPLITS = ("train", "dev", "test")
FURTHER_TEST = "test_"
"""How the names of further test sets begin."""


def _joined(metrics: Iterator[Metric]) -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for metric in metrics:
        if metric.name in found:
            raise ValueError(f"metric {metric.name!r} stands twice")
        found[metric.name] = metric
    return found


def _declared() -> Iterator[Metric]:
    for module in iter_modules(__path__):
        yield from getattr(import_module(f"{__name__}.{module.name}"), "METRICS", ())


METRICS: Mapping[str, Metric] = _joined(_declared())
"""Name to metric, joined from the modules of this package."""


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


def form_of(name: str) -> Form | None:
    """How the metric of a full name is computed from sums; None if it is not, or of a part."""
    parts = name.split("/")
    metric = METRICS.get(parts[1]) if len(parts) == 2 else None
    return None if metric is None else metric.of_sums


def _of_part(metric: Metric, name: str) -> Metric:
    short, *choices = metric.signature.split("|")
    kept = [choice for choice in choices if choice != f"macro:{metric.part}"]
    return replace(metric, signature="|".join([short, f"{metric.part}:{name}", *kept]))
