"""Report of the hardware, software and corpora found here, and how to get missing ones."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from repro.config.errors import EXTRAS, install
from repro.data.corpora import declared_corpora
from repro.evaluation.meteor import METEOR_JAR
from repro.results import ResultsError, all_records, require_writable
from repro.results.record import REPLACED
from repro.runs.environment import (
    describe_versions,
    may_have_gpu,
    processor,
    processor_has_bfloat16,
)

_FREE_GIB = 5
_OWN_NAME = "repro-sparse-attention"


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    status: str  # "ok", "missing" (something optional) or "broken"
    name: str  # what was checked
    text: str  # what was found
    advice: str = ""  # what to do about it; empty if nothing


def print_findings(found: Iterable[Finding]) -> None:
    """Print a line for each finding, and its advice."""
    for one in found:
        print(f"{one.status:8}{one.name:14}{one.text}")
        if one.advice:
            print(f"{'':22}-> {one.advice}")


def findings(data_dir: Path, results_dir: Path) -> Iterator[Finding]:
    """Check Python, processors, optional packages and programs, corpora, results and Slurm."""
    yield from _machine()
    yield from _packages()
    yield from _programs(data_dir)
    yield from _corpora(data_dir)
    yield from _results(results_dir)
    yield from _slurm()


def _machine() -> Iterator[Finding]:
    yield Finding("ok", "Python", platform.python_version())
    yield Finding("ok", "versions", describe_versions())
    if foreign := {*packages_distributions().get("repro", ())} - {_OWN_NAME}:
        text = f"{', '.join(sorted(foreign))} installs a package of the name repro as well"
        yield Finding("broken", "repro", text, "give the suite an environment of its own")
    yield Finding("ok", "CPU", f"{processor()}, cores: {os.cpu_count()}")
    if processor_has_bfloat16():
        yield Finding("ok", "bfloat16", "fast on this processor: precision=bf16 is worthwhile")
    else:
        yield Finding(
            "missing", "bfloat16", "neither AMX nor AVX512-BF16: precision=bf16 is slower"
        )
    gpu = ""
    if may_have_gpu():
        import torch

        from repro.runs.device import describe_device

        gpu = describe_device(torch.device("cuda")) if torch.cuda.is_available() else ""
    if gpu:
        yield Finding("ok", "CUDA", gpu)
    elif shutil.which("nvidia-smi"):
        advice = "install a build of torch for CUDA (https://pytorch.org/get-started/locally)"
        yield Finding("broken", "CUDA", "a GPU, but torch does not see it", advice)
    else:
        yield Finding("missing", "CUDA", "no GPU here: runs use the processor")
    kernels = os.environ.get("REPRO_KERNELS") or "auto"
    yield Finding("ok", "kernels", f"REPRO_KERNELS={kernels}")


def _packages() -> Iterator[Finding]:
    for extra, (distribution, use) in EXTRAS.items():
        try:
            yield Finding("ok", extra, f"{distribution} {version(distribution)}")
        except PackageNotFoundError:
            advice = f"needed for {use}: {install(extra)}"
            yield Finding("missing", extra, f"{distribution} is not installed", advice)
    # Compiled kernels are kept between processes only if the folder is writable.
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(chosen) if chosen else Path(__file__).parents[1]
    if os.access(folder if folder.exists() else folder.parent, os.W_OK):
        yield Finding("ok", "numba cache", str(folder))
    else:
        advice = "set NUMBA_CACHE_DIR to a writable folder, "
        advice += "or kernels are compiled in every process"
        yield Finding("missing", "numba cache", f"{folder} is not writable", advice)


def _programs(data_dir: Path) -> Iterator[Finding]:
    if java := shutil.which("java"):
        yield Finding("ok", "Java", java)
    else:
        advice = "needed for METEOR 1.5 only: install a Java runtime"
        yield Finding("missing", "Java", "not on the PATH", advice)
    if (jar := data_dir / METEOR_JAR).exists():
        yield Finding("ok", "METEOR", str(jar))
    else:
        yield Finding("missing", "METEOR", "", f"put METEOR 1.5 there: {jar}")


def _corpora(data_dir: Path) -> Iterator[Finding]:
    every = declared_corpora().values()
    found = [corpus.name for corpus in every if (data_dir / corpus.folder).exists()]
    missing = [corpus.name for corpus in every if corpus.name not in found]
    yield Finding("ok", "corpora", f"{', '.join(found) or 'none'} (in {data_dir})")
    if missing:
        advice = f"`repro data list NAME data_dir={data_dir}` says how to get one"
        yield Finding("missing", "corpora", ", ".join(missing), advice)


def _results(results_dir: Path) -> Iterator[Finding]:
    try:
        require_writable(results_dir)
        slow = [one.run_id for one in all_records(results_dir) if REPLACED in one.device]
    except ResultsError as error:
        yield Finding("broken", "results", str(error), "choose another results_dir")
        return
    if slow:
        advice = "`repro show RUN` says why; these runs have no speed"
        yield Finding("broken", "kernels", f"{REPLACED} some in {', '.join(slow)}", advice)
    place = next(path for path in (results_dir, *results_dir.parents) if path.exists())
    free = shutil.disk_usage(place).free / 2**30
    advice = "free some space, or choose another results_dir" if free < _FREE_GIB else ""
    status = "broken" if advice else "ok"
    yield Finding(status, "results", f"{results_dir}, {free:.0f} GiB free", advice)


def _slurm() -> Iterator[Finding]:
    if shutil.which("sinfo") is None:
        yield Finding("missing", "Slurm", "no sinfo here: runs stay on this machine")
        return
    asked = subprocess.run(["sinfo", "-h", "-o", "%P %T %D"], capture_output=True, text=True)
    if asked.returncode:
        advice = "see whether slurmctld runs, and SLURM_CONF"
        said = asked.stderr.strip().splitlines() or ["sinfo failed"]
        yield Finding("broken", "Slurm", said[-1], advice)
    else:
        partitions = "; ".join(asked.stdout.splitlines())
        yield Finding("ok", "Slurm", f"partition, state, nodes: {partitions}")
