"""Provenance of the values of one artefact: corpora, machines, versions, commits, runs."""

import shlex
from collections.abc import Iterable, Sequence

from repro.config.experiment import Experiment
from repro.results import Measurement
from repro.results.labels import corpus_label, counted

FULL_SCALE = "full"
GENERATED_SCALE = "demo"
SEPARATOR = " · "
"""Separator of the values of one fact."""
PAPERS_MODELS = ("subset", FULL_SCALE)
"""Scales that train the models of the papers by their protocols."""
SCALE_MEANING = {
    GENERATED_SCALE: "generated corpora, minutes on a CPU",
    "small": "the real corpora at a reduced protocol",
    "subset": "the paper's model and training on smaller corpora",
}


def provenance_items(records: Sequence[Measurement]) -> list[tuple[str, str]]:
    """Return names and values for printing, without those that no record has.

    A run that fills several cells counts once.
    """
    runs = {one.run_id: one.wall_time for one in records if one.kind == "run"}
    several = len({one.run_id for one in records if one.kind == "ensemble"})
    ensembles = f", {counted(several, 'ensemble')}" if several else ""

    def distinct(texts: Iterable[str]) -> str:
        return SEPARATOR.join(sorted({*texts}))

    items = [
        ("corpus", distinct(corpus_label(one.corpus, one.fingerprint) for one in records)),
        ("runs", f"{len(runs)}{ensembles}, {sum(runs.values()) / 60:.1f} minutes in all"),
        ("device", distinct(one.device for one in records)),
        ("versions", distinct(one.versions for one in records)),
        ("commit", distinct(one.commit for one in records)),
    ]
    return [(name, value) for name, value in items if value.strip()]


def reproduce_command(experiment: Experiment, scale: str, changed: Sequence[str] = ()) -> str:
    """Return the command that reproduces an artefact, with ``changed`` settings."""
    return shlex.join(["repro", "reproduce", experiment.name, f"scale={scale}", *changed])


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
    """Return the warning of a whole report; blank if its models and corpora are the papers'."""
    if scale in PAPERS_MODELS:
        return scale_banner(scale)
    return (
        f"{scale_banner(scale)} No claim below is tested with the papers' own models, which are "
        f"trained at the scales {' and '.join(PAPERS_MODELS)}."
    )
