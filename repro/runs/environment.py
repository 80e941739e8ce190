"""Environment of a run: memory, processor, versions, commit."""

import json
import logging
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from repro.checksums import sha256_of_file
from repro.config.paths import extension_dirs, files_below, in_checkout
from repro.config.schema import RunConfig
from repro.errors import UserError
from repro.version import __version__

_log = logging.getLogger(__name__)

_ROOT = Path(__file__).resolve().parents[2]
_LIBRARIES = ("torch", "numpy", "hydra-core", "safetensors")
_WITH_EXTENSIONS = " with extensions "
_EXTENSIONS = re.compile(rf"{_WITH_EXTENSIONS}(\w+)")
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
        needed = "" if found is None or found[1] is None else f"{found[1]} {found[2]}"
        place = _ON_DEVICE.search(str(error))
        free = f"{place[1]}, {place[2]} free" if place else ""
        raise _too_large(config, groups, needed, free) from error


def require_memory(config: RunConfig) -> None:
    """Refuse a model whose training needs more memory than this machine has.

    Raises:
        OutOfMemoryError: names the settings.
    """
    if (needed := least_bytes(config)) > physical_bytes():
        raise _too_large(config, ("model",), f"{needed / 2**30:.1f} GiB")


def least_bytes(config: RunConfig) -> int:
    """Return a lower bound of the memory that the training of a model takes."""
    sizes = vars(config.model)
    state: int = max(sizes.get("hidden_size", 0), sizes.get("lstm_size", 0))
    return _GATE_BYTES * state**2


def _too_large(
    config: RunConfig, groups: Sequence[str], needed: str, there: str = ""
) -> OutOfMemoryError:
    """Return an error that names the largest sizes of groups of settings."""
    nodes = {group: vars(node) for group in groups if (node := getattr(config, group))}
    values = {f"{group}.{key}": v for group, node in nodes.items() for key, v in node.items()}
    sizes = [key for key, v in values.items() if type(v) is int and key.endswith(_SIZES)]
    largest = sorted(sizes, key=values.__getitem__, reverse=True)[:3]
    named = " or ".join(f"{key} (now {values[key]})" for key in largest) or "corpus"
    more = f" for {needed} more" if needed else ""
    there = there or f"{physical_bytes() / 2**30:.1f} GiB"
    return OutOfMemoryError(f"no memory{more}; there are {there}; choose a smaller {named}")


def physical_bytes() -> int:
    """Return the size of the memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def may_have_gpu() -> bool:
    """Return whether there is a GPU driver, which PyTorch may still be unable to use."""
    return any(Path(driver).exists() for driver in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd"))


def cpuinfo(field: str) -> str:
    """Return a field of the first processor in ``/proc/cpuinfo``; empty if there is none."""
    with suppress(OSError):  # no such file system
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(field):
                return line.partition(":")[2].strip()
    return ""


def processor() -> str:
    """Return the model of the processor."""
    return cpuinfo("model name") or platform.processor() or platform.machine()


def processor_has_bfloat16() -> bool:
    """Return whether the processor multiplies in bfloat16 at least as fast as in float32.

    It needs AMX or AVX512-BF16; others take about ten times as long (docs/configuration.md).
    """
    return not {"amx_tile", "avx512_bf16"}.isdisjoint(cpuinfo("flags").split())


def describe_versions() -> str:
    """List the versions of Python, this package and the libraries that compute the numbers."""
    libraries = (f"{library} {version(library)}" for library in _LIBRARIES)
    return "; ".join([f"python {platform.python_version()}", f"repro {__version__}", *libraries])


def source_commit() -> str:
    """Return the commit, with ``+changes`` if files differ; without a checkout, the version.

    ``with extensions`` and :func:`extensions_digest` follow if there are modules or settings of
    extensions.
    """
    digest = extensions_digest()
    return _own_commit() + (f"{_WITH_EXTENSIONS}{digest}" if digest else "")


def extensions_digest() -> str:
    """Return the beginning of a SHA-256 of the modules and settings of extensions; blank without.

    It depends on their contents and names, not on the place of the folders.
    """
    files = sorted(
        (path.relative_to(folder).as_posix(), sha256_of_file(path))
        for folder in extension_dirs()
        if folder != _ROOT  # whose commit is known
        for part, suffix in (("repro", ".py"), ("conf", ".yaml"))
        for path in files_below(folder / part, suffix)
    )
    return sha256(json.dumps(files).encode()).hexdigest()[:12] if files else ""


def other_extensions(commit: str) -> list[str]:
    """Return the digests of extensions in a commit of a record that are not of those in use.

    Empty if none are in use: what runs without extensions does not depend on them.
    """
    noted = _EXTENSIONS.findall(commit)
    now = extensions_digest() if noted else ""  # which reads every file
    return [one for one in noted if now and one != now]


def warn_of_extensions(commit: str, where: str) -> None:
    """Warn that the code of extensions, which no identity covers, has changed since ``commit``.

    Each state of the extensions is warned of once; ``where`` is what was computed with it.
    """
    for before in other_extensions(commit):
        _warn_once(before, extensions_digest(), where)


@cache
def _warn_once(before: str, now: str, where: str) -> None:
    _log.warning(
        "%s with other modules or settings of extensions (%s, now %s); where these change what is "
        "computed, remove the runs (repro runs remove) and repeat the command",
        where,
        before,
        now,
    )


def _own_commit() -> str:
    """Return the commit of this package, or its version."""
    if not in_checkout():
        return f"v{__version__}"

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(_ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        # Only what computes numbers counts: results being written must not mark later runs.
        changed = git("status", "--porcelain", "--", "repro", "conf", "experiments")
    except (OSError, subprocess.CalledProcessError):
        return f"v{__version__}"
    return commit + ("+changes" if changed else "")
