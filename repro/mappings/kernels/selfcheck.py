"""Self-check of CUDA kernels against PyTorch code, before their first use on a machine.

An operator is checked when it is first called for a precision, a kind of settings and a class of
row lengths, that is for each kernel that the call compiles: on a batch of hard rows of the length
of the call, against the same operator in PyTorch in double precision. Outcomes are kept beside
Triton's compiled code. An operator that deviates, or that cannot be imported, compiled or launched,
is replaced by the PyTorch code for the rest of the process. CPU kernels are covered by the tests
and not checked.
"""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from repro import __version__
from repro.mappings.kernels import dispatch

ADVERSARIAL = {torch.float64: 1e-12, torch.float32: 1.5e-6}
"""Tolerances on rows built to be hard: long ladders and thousands of near ties."""
GRADIENT = {torch.float64: 1e-11, torch.float32: 1e-5}
"""Largest absolute error of a gradient entry against its closed form."""

_CONTINUOUS = {"slack", "total"}
"""Settings that do not affect which kernel is compiled; checks use values of their own."""
Outcome = tuple[float, float]
"""Largest deviation from the PyTorch code, and its tolerance."""


class KernelDeviation(Exception):
    """Raised when results of a kernel differ from those of the PyTorch code."""


class CheckedLauncher:
    """Launcher of a CUDA operator that falls back on PyTorch code."""

    def __init__(self, family: str, name: str) -> None:
        self.family, self.name = family, name
        self.kernel: Callable[..., Any] | None = None
        self.stand_in = dispatch.stand_in(name)
        self.passed: set[tuple[Any, ...]] = set()
        self.rejected: set[tuple[Any, ...]] = set()

    def __call__(self, *arguments: Any) -> Any:
        """Check the kernel if it has not been, and call it or the PyTorch code."""
        first = arguments[0]
        if (first.dtype, first.device) in self.rejected:
            return self.stand_in(*arguments)
        settings = tuple(item for item in arguments if not isinstance(item, Tensor))
        key = (first.dtype, first.device, first.size(-1), settings)
        try:
            if self.kernel is None:
                module = import_module(f"repro.mappings.kernels.cuda.{self.family}")
                self.kernel = getattr(module, self.name)
            if key not in self.passed and not _is_captured(first):
                self._check(first, arguments)
                self.passed.add(key)
            return self.kernel(*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            self._reject(first, error)
        return self.stand_in(*arguments)

    def _check(self, first: Tensor, arguments: tuple[Any, ...]) -> None:
        """Compare the kernel with the PyTorch code unless the outcome is known.

        Raises:
            KernelDeviation: they differ.
        """
        given = dict(zip(arguments_of(self.name), arguments, strict=True))
        settings = {key: item for key, item in given.items() if not isinstance(item, Tensor)}
        length, where = first.size(-1), machine(first.device)
        kinds = [f"{k}={_kind(x)}" for k, x in settings.items() if k not in _CONTINUOUS]
        # What Triton compiles for: the power of two above the length, and divisibility by 16.
        size = f"n<={1 << (length - 1).bit_length()}{'' if length % 16 else ', n%16=0'}"
        what = f"{self.name} {str(first.dtype).removeprefix('torch.')}"
        label = ", ".join([what, *kinds, size])
        found = outcomes().get(where, {}).get(label)
        if found is None:
            found = self._measure(settings, length, first)
            _store(where, label, found)
        error, bound = found
        if not error <= bound:
            raise KernelDeviation(f"{label} deviates by {error:.1e}, more than {bound:.1e}")
        text = f"kernel; deviation at most {error:.1e} of {bound:.1e} ({', '.join([*kinds, size])})"
        dispatch.computed_by[f"{what} {first.device}"] = text

    def _measure(self, settings: dict[str, Any], length: int, like: Tensor) -> Outcome:
        assert self.kernel is not None
        given = [
            item.to(like.device) if isinstance(item, Tensor) else item
            for item in check_arguments(self.name, settings, length, like.dtype)
        ]
        wide = [
            item.double() if isinstance(item, Tensor) and item.is_floating_point() else item
            for item in given
        ]
        with torch.no_grad():
            found, wanted = self.kernel(*given), dispatch.torch_code[self.name](*wide)
        return _compare(self.name, given, found, wanted)

    def _reject(self, first: Tensor, error: Exception) -> None:
        self.rejected.add((first.dtype, first.device))
        reason = str(error) if isinstance(error, KernelDeviation) else _first_line(error)
        what = f"{self.name} {str(first.dtype).removeprefix('torch.')} {first.device}"
        dispatch.computed_by[what] = f"PyTorch ({reason})"
        dispatch.reject(self.name, machine(first.device), reason, error)


def _is_captured(tensor: Tensor) -> bool:
    """Return whether a CUDA graph is being captured, which allows no check."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _kind(value: float) -> str:
    """Return a setting for which kernels are specialized, otherwise its unit interval."""
    if isinstance(value, bool) or value in (0.0, 0.5, 1.0, 2.0):
        return str(value)
    return ">2" if value > 2 else f"{math.floor(value)}..{math.ceil(value)}"


@cache
def machine(device: torch.device) -> str:
    """Describe a device, its compilers, and the version of the kernels' sources."""
    if device.type != "cuda":
        return str(device)
    major, minor = torch.cuda.get_device_capability(device)
    driver = getattr(torch._C, "_cuda_getDriverVersion", lambda: "unknown")
    try:
        triton = version("triton")
    except PackageNotFoundError:  # some builds of torch ship it under another name
        triton = "unknown"
    sources = b"".join(
        path.read_bytes() for path in sorted(Path(__file__).parent.glob("cuda/*.py"))
    )
    return (
        f"{torch.cuda.get_device_name(device)} (sm_{major}{minor}), "
        f"driver {driver()}, torch {torch.__version__}, "
        f"triton {triton}, repro {__version__} {hashlib.sha256(sources).hexdigest()[:8]}"
    )


def outcomes_file() -> Path:
    """Return the file of the outcomes, in the folder of Triton's compiled code."""
    folder = os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache"
    return Path(folder) / "repro-selfcheck.json"


def outcomes() -> dict[str, dict[str, Outcome]]:
    """Return the known outcomes by machine and kernel; none if the file cannot be read."""
    try:
        found: dict[str, dict[str, Outcome]] = json.loads(outcomes_file().read_text("utf-8"))
        return {where: {**labels} for where, labels in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _store(where: str, label: str, outcome: Outcome) -> None:
    """Add an outcome to the file; a folder that cannot be written means a check per process."""
    known, path = outcomes(), outcomes_file()
    known.setdefault(where, {})[label] = outcome
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        os.replace(name, path)


@cache
def arguments_of(name: str) -> list[str]:
    """Return the names of the arguments of an operator."""
    schema = getattr(torch.ops.repro, name).default._schema
    return [argument.name for argument in schema.arguments]


def check_arguments(
    name: str, settings: dict[str, Any], length: int, dtype: torch.dtype
) -> list[Any]:
    """Return arguments for an operator: hard rows, and the settings of a call.

    Rows hold ties, forbidden entries, one entry, a large offset, infinities and NaN.
    """
    names, generator = arguments_of(name), torch.Generator().manual_seed(length)
    rows = 2 * torch.randn(9, length, generator=generator, dtype=torch.float64)
    rows[1] = rows[1].round()
    rows[2] += 1e4
    rows[3], rows[3, 0] = 0, 0.5
    rows[4, 1:], rows[5, ::2], rows[6, 0], rows[7] = -math.inf, -math.inf, math.inf, -math.inf
    rows[8, 0] = math.nan
    rows = rows.to(dtype)
    upper = (2 + 4 * torch.rand(9, length, generator=generator, dtype=torch.float64)) / length
    upper[3], upper[4] = 3 / length, 1.5
    given: dict[str, Any] = settings | {"scores": rows, "upper": upper.to(dtype)}
    if "probs" in names:
        groups = kkt_status = rows
        if "groups" in names:
            probs, groups = dispatch.torch_code["fusedmax_forward"](rows, 0.1)
        elif "kkt_status" in names:
            forward = dispatch.torch_code["bounded_forward"]
            probs, kkt_status, _ = forward(rows, given["upper"], settings["order"], 1e-5)
        else:
            probs = dispatch.torch_code["entmax_forward"](rows, 0.5)
        known = ~probs.isnan().any(-1)
        given |= {"probs": probs[known], "groups": groups[known], "kkt_status": kkt_status[known]}
        rows = rows[known]
    count = len(rows)
    column = torch.linspace(0, 1, count, dtype=dtype)[:, None]
    total = 1 + (length - 1) / 4
    given |= {
        "orders": column, "totals": total * (column + 1) / 2,
        "grad": torch.randn((count, length), generator=generator, dtype=dtype),
        "slack": 1e-5, "total": total,
    }  # fmt: skip
    return [given[key] for key in names]


def _compare(name: str, given: list[Any], found: Any, wanted: Any) -> Outcome:
    """Return the largest deviation, and its tolerance."""
    dtype = given[0].dtype
    found = found if isinstance(found, tuple) else (found,)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    bound = (GRADIENT if "backward" in name else ADVERSARIAL)[dtype]
    worst = 0.0
    for ours, theirs in zip(found, wanted, strict=True):
        expected = dtype if theirs.is_floating_point() else theirs.dtype
        if ours.shape != theirs.shape or ours.dtype != expected:
            return math.inf, bound
        # Group numbers are arbitrary, only the partition is defined: compare means over the groups
        # of the first row.
        if theirs.dtype == torch.int32:
            average = dispatch.torch_code["grouped_backward"]
            weights = torch.linspace(-1, 1, theirs.size(-1), device=theirs.device).double()
            ours, theirs = (average(wanted[0][:1], x[:1], weights[None]) for x in (ours, theirs))
        elif theirs.dtype == torch.uint8:  # rounding decides near the bounds
            share, upper = wanted[0], given[1] if name == "bounded_forward" else 1.0
            margin = max(1e-3 / theirs.size(-1), 1e-5)
            clear = (share > margin) & ((share == upper) | ((upper - share).abs() > margin))
            ours, theirs = ours * clear, theirs * clear
        elif not theirs.is_floating_point():  # number of infeasible rows, not set on CUDA
            continue
        worst = max(worst, deviation(ours, theirs))
    return worst, bound


def deviation(found: Tensor, wanted: Tensor) -> float:
    """Return the largest error, relative to the largest entry of the row if that exceeds one."""
    if not wanted.numel():
        return 0.0
    if wanted.dim() == 1:  # one number for each row
        found, wanted = found[:, None], wanted[:, None]
    found, wanted = found.double(), wanted.double()
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    size = wanted.nan_to_num(0.0, 0.0, 0.0).abs().amax(-1, keepdim=True).clamp(min=1)
    errors = ((found - wanted).abs() / size).masked_fill(same, 0.0)
    return float(errors.nan_to_num(math.inf, math.inf).max())
