"""Short descriptions of runs for lists and displays."""

from collections.abc import Iterable, Mapping
from typing import Any

from repro.results.frame import text_of
from repro.results.record import Record


def run_title(settings: Mapping[str, Any], corpus: str, members: int = 0) -> str:
    """Describe a run by its task, choices, corpus and seed; an ensemble by its size."""
    choices = []
    for group, word in (("mapping", ""), ("structure", ""), ("loss", "loss ")):
        if (name := settings.get(f"{group}.name")) is not None:
            alpha = settings.get(f"{group}.alpha")
            choices.append(f"{word}{name}" + ("" if alpha is None else f" {text_of(alpha)}"))
    last = f"ensemble of {members}" if members else f"seed {settings.get('seed')}"
    return f"{settings.get('task.name')}: {', '.join(filter(None, [*choices, corpus, last]))}"


def corpus_label(corpus: str, fingerprint: str) -> str:
    """Name a corpus and its content, by the first digits of its fingerprint."""
    return f"{corpus} {fingerprint[:12]}"


def main_metric(record: Record) -> str:
    """Return the test metric that training monitors, else the first to be maximized."""
    from repro.evaluation.metrics import METRICS

    monitor = record.settings.get("training.monitor")
    higher = [f"test/{name}" for name, one in METRICS.items() if one.higher_is_better]
    wanted = (f"test/{monitor}", *higher, f"dev/{monitor}", *record.metrics)
    return next(name for name in wanted if name in record.metrics)


def main_first(names: Iterable[str], main: str | None) -> list[str]:
    """Sort names of metrics: the main one, those of the test set, the others."""
    return sorted(names, key=lambda name: (name != main, not name.startswith("test/"), name))


def result_text(record: Record) -> str:
    """Format the main metric of a record; empty if it has no metric."""
    if not record.metrics:
        return ""
    name = main_metric(record)
    return f"{name} {record.metrics[name]:.2f}"


def counted(number: int, noun: str) -> str:
    """Join a number and its noun, in the plural unless the number is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def age_text(seconds: float) -> str:
    """Format a duration that has passed in its largest unit, as ``3 h ago``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "now"
