"""Uses of finished runs: the sweep that asked for them, and cells of artefacts."""

import logging
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from repro.results import Archive, RunFolder
from repro.results.sweeps import swept, write_sweep
from repro.runs.execute import Outcome
from repro.runs.launch import Job


def record_sweeps(jobs: Sequence[Job]) -> None:
    """Keep what a multirun asks for, one sweep for each scale."""
    for scale in dict.fromkeys(job.config.scale.name for job in jobs):
        mine = [job for job in jobs if job.config.scale.name == scale]
        config = mine[0].config
        overrides, names = [job.overrides for job in mine], [job.run_id for job in mine]
        sweep = swept(overrides, names, scale, config.name)
        write_sweep(Path(config.results_dir or ""), sweep)
        hint = f"repro report scale={scale} --sweep {sweep.name}"
        _say(f"sweep {sweep.name}, shown by: {hint}")


def list_artefacts(outcomes: Sequence[Outcome]) -> None:
    """Print the artefacts whose cells the finished runs fill, with the number of runs."""
    archives: dict[tuple[Path, str], Archive] = {}
    found: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.status in ("done", "skipped"):
            scale = outcome.folder.parents[1]
            place = scale.parent, scale.name
            archive = archives.setdefault(place, Archive(*place))
            found.update(archive.artefacts_of(RunFolder(outcome.folder).read_record()))
    for name, count in found.items():
        _say(f"fills cells of {name} ({count} run{'s' if count > 1 else ''})")


def _say(text: str) -> None:
    """Print a line, unless ``-q`` asks for failures only."""
    if logging.getLogger("repro").isEnabledFor(logging.INFO):
        print(text, file=sys.stderr)
