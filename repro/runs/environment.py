"""Environment of a run: commit, device, versions."""

import logging
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from repro import __version__
from repro.config.errors import ConfigError
from repro.config.paths import in_checkout
from repro.config.schema import HardwareConfig, RunConfig
from repro.errors import UserError
from repro.mappings.kernels import dispatch
from repro.training import distributed

_log = logging.getLogger(__name__)
_LIBRARIES = ("torch", "numpy", "hydra-core", "safetensors")
_ALLOCATION = re.compile(r"allocate (\d[\d.]*) ?(bytes|\wiB)|bad_alloc|size calculation overflowed")
"""Messages of failed allocations of PyTorch and NumPy; the first form says of how much."""
_ON_DEVICE = re.compile(r"total capacity of (\S+ \wiB) of which (\S+ \wiB) is free")
_SIZES = ("size", "length", "layers", "hypotheses", "words", "batch")
"""Ends of the names of settings on which memory depends."""
_GATE_BYTES = 3 * 16
"""Least bytes in training for each pair of units of a recurrent layer: three gates or more, each
with a weight, its gradient and two moments of Adam."""


class OutOfMemoryError(UserError, MemoryError):
    """A run needs more memory than there is; the message says which settings to change."""


@contextmanager
def enough_memory(config: RunConfig, *groups: str) -> Iterator[None]:
    """Explain a failed allocation in the block by its size and the largest sizes of ``groups``.

    Raises:
        OutOfMemoryError: an allocation failed.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        found = _ALLOCATION.search(str(error))
        if found is None and not isinstance(error, MemoryError):
            raise
        needed = "" if found is None or found[1] is None else f" for {found[1]} {found[2]} more"
        place = _ON_DEVICE.search(str(error))
        there = f"{place[1]}, {place[2]} free" if place else f"{_physical_bytes() / 2**30:.1f} GiB"
        nodes = {group: vars(node) for group in groups if (node := getattr(config, group))}
        values = {f"{group}.{key}": v for group, node in nodes.items() for key, v in node.items()}
        sizes = [key for key, v in values.items() if type(v) is int and key.endswith(_SIZES)]
        largest = sorted(sizes, key=values.__getitem__, reverse=True)[:3]
        named = " or ".join(f"{key} (now {values[key]})" for key in largest) or "corpus"
        raise OutOfMemoryError(
            f"no memory{needed}; there are {there}; choose a smaller {named}"
        ) from error


def require_memory(config: RunConfig) -> None:
    """Refuse a model whose training needs more memory than this machine has.

    Raises:
        OutOfMemoryError: names the settings.
    """
    sizes = vars(config.model)
    state = max(sizes.get("hidden_size", 0), sizes.get("lstm_size", 0))
    needed = _GATE_BYTES * state**2
    if needed > _physical_bytes():
        with enough_memory(config, "model"):
            raise MemoryError(f"allocate {needed / 2**30:.1f} GiB")


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def choose_device(config: HardwareConfig) -> torch.device:
    """Return the device of a run; ``auto`` takes CUDA if it is available.

    Raises:
        ConfigError: CUDA is requested but not available.
    """
    available = torch.cuda.is_available()
    if config.device == "cuda" and not available:
        raise ConfigError("hardware=cuda: no CUDA device here; use hardware=cpu or hardware=auto")
    return torch.device("cuda" if available and config.device != "cpu" else "cpu")


def multiplies_bfloat16(device: torch.device) -> bool:
    """Return whether a device multiplies in bfloat16 at least as fast as in float32.

    Processors need AMX or AVX512-BF16; others take about ten times as long (docs/configuration.md).
    """
    if device.type != "cpu":
        return True
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


def warn_of_precision(configs: Iterable[RunConfig]) -> None:
    """Warn once if runs multiply in bfloat16 on a device that is slower in it."""
    asked = (one for one in configs if one.precision == "bf16")
    if not all(multiplies_bfloat16(choose_device(one.hardware)) for one in asked):
        _log.warning(
            "precision=bf16: this processor has neither AMX nor AVX512-BF16 and computes about ten "
            "times as fast in float32; leave precision= out"
        )


def prepare_device(config: HardwareConfig) -> torch.device:
    """Choose the device, and set the number of CPU threads if configured.

    Raises:
        ConfigError: CUDA is requested but not available.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return choose_device(config)


def describe_device(device: torch.device) -> str:
    """Describe type and model of a device, with the number of threads on a CPU."""
    if device.type == "cuda":
        several = f", {distributed.size()} GPUs" if distributed.size() > 1 else ""
        return f"cuda ({torch.cuda.get_device_name(device)}{several})"
    several = f", processes: {distributed.size()}" if distributed.size() > 1 else ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        processor = next(names, platform.machine())
    except OSError:  # no such file system
        processor = platform.processor() or platform.machine()
    return f"cpu ({processor}, threads: {torch.get_num_threads()}{several})"


def describe_versions() -> str:
    """List the versions of Python, this package and the libraries that compute the numbers."""
    found = [f"python {platform.python_version()}", f"repro {__version__}"]
    for library in _LIBRARIES:
        try:
            found.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    return "; ".join(found)


def kernels_in_use() -> dict[str, str]:
    """Return ``REPRO_KERNELS``, and by what this process computed each operator of the mappings."""
    return {"REPRO_KERNELS": dispatch.MODE, **dict(sorted(dispatch.computed_by.items()))}


def source_commit() -> str:
    """Return the commit, with ``+changes`` if files differ; without a checkout, the version."""
    if not in_checkout():
        return f"v{__version__}"

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).resolve().parents[2]), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        # Only what computes numbers counts: results being written must not mark later runs.
        changed = git("status", "--porcelain", "--", "repro", "conf", "experiments")
    except (OSError, subprocess.CalledProcessError):
        return f"v{__version__}"
    return commit + ("+changes" if changed else "")
