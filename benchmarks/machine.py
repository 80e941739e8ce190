"""Description of the machine on which something was measured."""

import os
import platform
import re
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import torch

from repro.runs.device import describe_device
from repro.runs.environment import source_commit

_LIBRARIES = ("torch", "numba", "triton", "entmax", "adasplash", "joeynmt")
_BUSY_LOAD = 0.3
"""Load average per processor above which the machine counts as busy."""


class Machine(NamedTuple):
    """Machine of a measurement: ``folder`` names date and device, ``text`` describes both."""

    folder: str
    text: str


def describe_machine(device: torch.device) -> Machine:
    """Describe this machine, the versions of libraries, and the load if others use it."""
    found = [f"python {platform.python_version()}"]
    for library in _LIBRARIES:
        try:
            found.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    day, processors, load = date.today().isoformat(), os.cpu_count() or 1, os.getloadavg()[0]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    # Without the number of threads, which differs between rows.
    described = re.sub(r", threads: \d+", "", describe_device(device))
    text = f"{day}, {described}, {processors} processors; {'; '.join(found)}"
    text += f"; commit {source_commit()}"
    if load > _BUSY_LOAD * processors:
        text += f". Load average {load:.1f}: times are too long and ratios noisy"
    return Machine(f"{day}-{slug}", text)


def bytes_per_second(properties: Any) -> float | None:
    """Return the bandwidth of a device's memory, which transfers twice in each of its clocks.

    It is None if the properties do not have the clock, as in PyTorch 2.8.
    """
    kilohertz = getattr(properties, "memory_clock_rate", 0)
    return 2 * 1000 * kilohertz * properties.memory_bus_width / 8 if kilohertz else None
