"""Provenance of the values of one artefact: corpora, machines, versions, commits, runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro.config.experiment import Experiment
from repro.results import Measurement

FULL_SCALE = "full"
GENERATED_SCALE = "demo"
SHORT_HASH = 12
SEPARATOR = " · "
"""Between values of one fact."""
SCALE_MEANING = {
    GENERATED_SCALE: "generated corpora, minutes on a CPU",
    "small": "the real corpora at a reduced protocol",
}


@dataclass(frozen=True)
class Provenance:
    """Distinct origins of the records of one artefact.

    Attributes:
        corpora: name and beginning of the fingerprint.
        runs: number of different runs.
        ensembles: number of different ensembles.
        wall_time: seconds of all runs together.
    """

    corpora: tuple[str, ...]
    devices: tuple[str, ...]
    versions: tuple[str, ...]
    commits: tuple[str, ...]
    runs: int
    ensembles: int
    wall_time: float


def provenance_of(records: Sequence[Measurement]) -> Provenance:
    """Collect what the records say; a run that fills several cells counts once."""
    runs = {record.run_id: record.wall_time for record in records if record.kind == "run"}
    return Provenance(
        corpora=_distinct(f"{one.corpus} {one.fingerprint[:SHORT_HASH]}" for one in records),
        devices=_distinct(one.device for one in records),
        versions=_distinct(one.versions for one in records),
        commits=_distinct(one.commit for one in records),
        runs=len(runs),
        ensembles=len({record.run_id for record in records if record.kind == "ensemble"}),
        wall_time=sum(runs.values()),
    )


def provenance_items(provenance: Provenance) -> list[tuple[str, str]]:
    """Names and values for printing; what no record tells is left out."""
    ensembles = f", {provenance.ensembles} ensembles" if provenance.ensembles else ""
    items = [
        ("corpus", SEPARATOR.join(provenance.corpora)),
        ("runs", f"{provenance.runs}{ensembles}, {provenance.wall_time / 60:.1f} minutes in all"),
        ("device", SEPARATOR.join(provenance.devices)),
        ("versions", SEPARATOR.join(provenance.versions)),
        ("commit", SEPARATOR.join(provenance.commits)),
    ]
    return [(name, value) for name, value in items if value.strip()]


def reproduce_command(experiment: Experiment, scale: str) -> str:
    """Return the command that makes this artefact again."""
    return f"make reproduce-{experiment.name.replace('/', '-')} SCALE={scale}"


def scale_banner(scale: str) -> str:
    """The warning on every artefact that does not follow the paper's protocol; else blank."""
    if scale == FULL_SCALE:
        return ""
    meaning = SCALE_MEANING.get(scale, "not the paper's protocol")  # a scale of an extension
    return (
        f"Measured at {scale} scale ({meaning}). The paper's results come from its full protocol: "
        "they are shown apart, and the two are not comparable."
    )


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*texts}))
