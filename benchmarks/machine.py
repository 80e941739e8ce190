"""Description of the machine of a measurement for its table."""

import os
import platform
import re
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version

import torch

from repro.runs.environment import describe_device, source_commit

_LIBRARIES = ("torch", "numba", "triton", "entmax")
_QUIET = 0.3
"""Load average for each processor up to which a machine counts as quiet."""


@dataclass(frozen=True)
class Machine:
    """Where, when and with what a table was measured.

    Attributes:
        load: average over the last minute, taken before the tests of the gate.
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
        """Return whether something else was running, which makes times long and ratios noisy."""
        return self.load > _QUIET * self.processors


def describe_machine(device: torch.device) -> Machine:
    """Describe this machine, now."""
    day = date.today().isoformat()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    # Without the number of threads, which is that of each row.
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
