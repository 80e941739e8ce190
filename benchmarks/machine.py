"""Description of the machine on which a table was measured."""

import os
import platform
import re
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version

import torch

from repro.runs.environment import describe_device, source_commit

_LIBRARIES = ("torch", "numba", "triton", "entmax")
_BUSY_LOAD = 0.3
"""Load average per processor above which the machine counts as busy."""


@dataclass(frozen=True)
class Machine:
    """Machine, date and versions of a measurement.

    Attributes:
        folder: name of the folder of results: date and device.
        load: load average over the last minute, read before the tests of the gate run.
    """

    day: str
    device: str
    folder: str
    processors: int
    versions: str
    commit: str
    load: float

    @property
    def busy(self) -> bool:
        """Return whether other programs were running, which makes times long and ratios noisy."""
        return self.load > _BUSY_LOAD * self.processors


def describe_machine(device: torch.device) -> Machine:
    """Describe this machine and its current load."""
    day = date.today().isoformat()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    # Drop the number of threads, which differs between rows.
    described = re.sub(r", threads: \d+", "", describe_device(device))
    return Machine(
        day=day,
        device=described,
        folder=f"{day}-{slug}",
        processors=os.cpu_count() or 1,
        versions="; ".join(_versions()),
        commit=source_commit(),
        load=os.getloadavg()[0],
    )


def _versions() -> list[str]:
    found = [f"python {platform.python_version()}"]
    for library in _LIBRARIES:
        try:
            found.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    return found
