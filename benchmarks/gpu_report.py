"""Page and archive of ``make gpu``, made of what its steps have left in their folder."""

import csv
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any
from xml.etree import ElementTree

import torch

from benchmarks.machine import bytes_per_second, describe_machine
from benchmarks.timing import bandwidth
from repro.atomic import atomic_path, atomic_write_text
from repro.config.planning import PlannedRun
from repro.results import Archive

METRICS = {
    "snli": "label_accuracy", "nmt": "bleu", "summarization": "rouge2", "morphology": "accuracy",
    "parsing": "uas", "nli_alignment": "label_accuracy", "peters2019/table1": "accuracy",
    "malaviya2018/table1": "bleu_lc",
}  # fmt: skip
"""Metric that the page shows, by task of the demo runs and by artefact."""
LIMIT = 16_000_000
"""Most bytes of the archive."""
_OPTIONAL = (".log", ".npz", ".png")
"""Suffixes of the files that are left out if the archive would be larger."""


@dataclass(frozen=True)
class Report:
    """Page and archive.

    Attributes:
        folder: folder of the steps, and results folder of the runs on the card.
        results: results folder with records of CPU runs at other scales than demo.
        runs: runs of the plan.
        settings: settings of every run; those on the card have graphs besides.
    """

    folder: Path
    results: Path
    runs: Sequence[PlannedRun]
    settings: Sequence[str]

    def write(self, page: Path, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Rewrite the page."""
        device = torch.device("cuda")
        sections = {
            "Steps": _steps(states),
            "Tests": self._tests(states),
            "Kernels": self._kernels(bytes_per_second(torch.cuda.get_device_properties(device))),
            "Training": self._training(),
            "Runs": self._runs(),
        }
        parts = ["# Results on a GPU", f"Written by `make gpu`. {describe_machine(device).text}."]
        parts += [f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items()]
        atomic_write_text(page, "\n\n".join(parts) + "\n")

    def _tests(self, states: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
        """Yield the numbers of tests that passed, failed and were skipped, and which failed."""
        yield "Steps that have ended:\n"
        for step, state in states.items():
            path = self.folder / f"{step}.xml"
            if state["state"] != "done" or not path.exists():
                continue
            suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
            keys = ("tests", "failures", "errors", "skipped")
            tests, failures, errors, skipped = (
                sum(int(suite.get(key, 0)) for suite in suites) for key in keys
            )
            failed = failures + errors
            passed = tests - failed - skipped
            yield f"- {step}: {passed} passed, {failed} failed, {skipped} skipped."
            for case in (case for suite in suites for case in suite.iter("testcase")):
                if case.find("failure") is not None or case.find("error") is not None:
                    yield f"  - `{case.get('classname')}::{case.get('name')}`"

    def _kernels(self, peak: float | None) -> Iterator[str]:
        yield "The bandwidth is that of one read and one write of the array in a forward pass, the"
        yield "host's time that in which it submits one (in brackets: that of the baseline)."
        yield f"The card's limit is {peak / 1e12:.2f} TB/s.\n" if peak else ""
        head = "row | shape | forward, µs | GB/s | of the limit | host, µs | both ways, ms"
        yield f"| {head} | baseline = 1 |"
        yield "|:---|:---|---:|---:|---:|---:|---:|---:|"
        for path in sorted(self.folder.glob("benchmark/*/measurements.csv"))[-1:]:
            for one in csv.DictReader(path.read_text("utf-8").splitlines()):
                seconds = float(one["forward"]) / 1000
                moved = " | ".join(bandwidth(one["row"], one["shape"], seconds, peak))
                host = f"{1000 * float(one['host']):.1f} ({1000 * float(one['host_baseline']):.1f})"
                both = f"{host} | {float(one['milliseconds']):.3g} | {float(one['ratio']):.2f}"
                yield f"| {one['row']} | {one['shape']} | {1e6 * seconds:.1f} | {moved} | {both} |"

    def _training(self) -> Iterator[str]:
        yield "| step | settings | symbols/s | ms of an update | updates of a run |"
        yield "|:---|:---|---:|---:|---:|"
        speeds = {path.stem: read_json(path, {}) for path in self.folder.glob("speed-*.json")}
        for step, found in sorted(speeds.items()):
            for one in found["rows"]:
                speed, updates = one["symbols_per_second"], 1000 / one["updates_per_second"]
                figures = f"{speed:,.0f} | {updates:.1f} | {one['updates']:,}"
                yield f"| {step} | `{one['settings']}` | {figures} |"
        for step, found in sorted(speeds.items()):
            for count, rate in found["processes"].items():
                yield f"\n{step}, {count} side by side: {rate:,.0f} updates/s."

    def _runs(self) -> Iterator[str]:
        yield "Means over the seeds of the test set.\n"
        yield "| run | metric | on the card | on a CPU | finished of planned |"
        yield "|:---|:---|---:|---:|---:|"
        names, cpu = {run.experiment for run in self.runs}, {"demo": self.folder / "cpu"}
        archives = {
            scale: [
                Archive(place, scale, dict.fromkeys(names, settings))
                for place, settings in (
                    (self.folder, with_graphs(self.settings)),
                    (cpu.get(scale, self.results), self.settings),
                )
            ]
            for scale in dict.fromkeys(map(scale_of, self.runs))
        }
        for name in dict.fromkeys((run.experiment, run.column, run.row) for run in self.runs):
            runs = [run for run in self.runs if (run.experiment, run.column, run.row) == name]
            metric = METRICS.get(runs[0].row) or METRICS[runs[0].experiment]
            cells, numbers = [], []
            for archive in archives[scale_of(runs[0])]:
                found = [one for run in runs if (one := archive.find(run))]
                values = [one.metrics[f"test/{metric}"] for one in found]
                numbers.append(len(found))
                cells.append(f"{mean(values):.2f}" if values else "")
            label = " ".join(part for part in name if part)
            figures = " | ".join([metric, *cells, f"{numbers[0]} of {len(runs)}"])
            yield f"| {label} | {figures} |"

    def pack(self, page: Path, archive: Path) -> list[str]:
        """Pack everything but the folders of runs, in at most :data:`LIMIT` bytes.

        Returns:
            Names of the files that were left out because of their size, the largest first.
        """
        files = {page: Path(page.name)}
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder)
            if path.is_file() and not {"runs", "corpora", "sweeps"} & {*name.parts}:
                files[path] = name
        # A header has 512 bytes; compressed alone, files are no smaller than together.
        sizes = {path: len(zlib.compress(path.read_bytes())) + 512 for path in files}
        left_out = []
        for path in sorted(files, key=sizes.__getitem__, reverse=True):
            if sum(map(sizes.__getitem__, files)) > LIMIT and path.suffix in _OPTIONAL:
                left_out.append(str(files.pop(path)))
        with atomic_path(archive) as temporary, tarfile.open(temporary, "w:gz") as stream:
            for path, name in files.items():
                stream.add(path, f"gpu/{name}")
        size = archive.stat().st_size
        print(f"{archive}: {size / 1e6:.1f} MB" + f" of at most {LIMIT / 1e6:.0f}" * (size > LIMIT))
        if left_out:
            print(f"left out because of their size: {', '.join(left_out)}")
        return left_out


def _steps(states: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| step | state | minutes | commit and device |"
    yield "|:---|:---|---:|:---|"
    for name, one in states.items():
        yield f"| {name} | {one['state']} | {one['seconds'] / 60:.1f} | {one['where']} |"


def with_graphs(settings: Sequence[str]) -> Sequence[str]:
    """Return the settings of runs on the card: by graphs, unless they say otherwise."""
    named = any(one.startswith("training.graphs=") for one in settings)
    return settings if named else (*settings, "training.graphs=auto")


def scale_of(run: PlannedRun) -> str:
    """Return the name of the scale of a planned run."""
    return next(one for one in run.cell if one.startswith("scale=")).removeprefix("scale=")


def read_json(path: Path, default: Any) -> Any:
    """Read a JSON file; ``default`` if there is none."""
    return json.loads(path.read_text("utf-8")) if path.exists() else default
