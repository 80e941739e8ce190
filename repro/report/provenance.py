"""Provenance of the values of one artefact: corpora, machines, versions, commits, runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro.config.experiment import Experiment
from repro.results import Measurement

FULL_SCALE = "full"
GENERATED_SCALE = "demo"
SHORT_HASH = 12
SEPARATOR = " · "
"""Separator of the values of one fact."""
PAPERS_MODELS = ("subset", FULL_SCALE)
"""Scales that train the models of the papers by their protocols."""
SCALE_MEANING = {
    GENERATED_SCALE: "generated corpora, minutes on a CPU",
    "small": "the real corpora at a reduced protocol",
    "subset": "the paper's model and training on smaller corpora",
}


@dataclass(frozen=True)
class Provenance:
    """Distinct corpora, devices, versions and commits of the records of one artefact.

    Attributes:
        corpora: names with the beginnings of their fingerprints.
        runs: number of distinct runs.
        ensembles: number of distinct ensembles.
        wall_time: total time of the runs in seconds.
    """

    corpora: tuple[str, ...]
    devices: tuple[str, ...]
    versions: tuple[str, ...]
    commits: tuple[str, ...]
    runs: int
    ensembles: int
    wall_time: float


def provenance_of(records: Sequence[Measurement]) -> Provenance:
    """Collect the provenance of records, counting a run that fills several cells once."""
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
    """Return names and values for printing, without those that no record has."""
    several = provenance.ensembles
    ensembles = f", {counted(several, 'ensemble')}" if several else ""
    items = [
        ("corpus", SEPARATOR.join(provenance.corpora)),
        ("runs", f"{provenance.runs}{ensembles}, {provenance.wall_time / 60:.1f} minutes in all"),
        ("device", SEPARATOR.join(provenance.devices)),
        ("versions", SEPARATOR.join(provenance.versions)),
        ("commit", SEPARATOR.join(provenance.commits)),
    ]
    return [(name, value) for name, value in items if value.strip()]


def reproduce_command(experiment: Experiment, scale: str) -> str:
    """Return the command that reproduces an artefact."""
    return f"make reproduce-{experiment.name.replace('/', '-')} SCALE={scale}"


def scale_banner(scale: str) -> str:
    """Return the warning for a scale other than the paper's protocol; blank at full scale."""
    if scale == FULL_SCALE:
        return ""
    meaning = SCALE_MEANING.get(scale, "not the paper's protocol")  # a scale of an extension
    return (
        f"Measured at {scale} scale ({meaning}). The paper's results come from its full protocol: "
        "they are shown apart, and the two are not comparable."
    )


def document_banner(scale: str) -> str:
    """Return the warning of a whole report: which models its claims were tested with."""
    models = (
        "The claims below are tested with the papers' own models."
        if scale in PAPERS_MODELS
        else "No claim below is tested with the papers' own models, which are trained at the "
        f"scales {' and '.join(PAPERS_MODELS)}."
    )
    return f"{scale_banner(scale)} {models}".strip()


def counted(number: int, noun: str) -> str:
    """Join a number and its noun, in the plural unless the number is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*texts}))
