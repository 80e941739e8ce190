"""Registers of the CUDA kernels, compiled for sm_90 without a device.

    python tests/mappings/kernels/registers.py [--aligned]

A thread that needs more registers than available spills to a stack in memory. The command compiles
every kernel for every tile that ``policy.py`` chooses, prints a table, and fails if any thread has
a stack. Row lengths are not multiples of 16 unless ``--aligned`` is given: Triton specializes
kernels for such lengths.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

from repro.mappings.kernels.cuda import bounded, entmax, grouped, norm

TARGET = GPUTarget("cuda", 90, 32)
ROWS = 4


class Usage(NamedTuple):
    """Compiled kernel and the resources of one of its threads.

    Attributes:
        name: name of the kernel.
        sizes: constants for which it was compiled.
        warps: number of warps per program.
        registers: number of registers per thread, 4 bytes each.
        stack: bytes of the stack per thread.
        binary: what the compiler returned.
    """

    name: str
    sizes: dict[str, Any]
    warps: int
    registers: int
    stack: int
    binary: Any


class _Driver:
    """Stand-in for the device driver that the compiler queries."""

    def get_current_target(self) -> GPUTarget:
        """Return the target of the compilation."""
        return TARGET

    def get_current_device(self) -> int:
        """Return the index of the device."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """Return the stream of the device."""
        return 0


@contextmanager
def compiled_only() -> Iterator[list[Usage]]:
    """Make launches compile each kernel and tile once instead of running it; yield the usages."""
    found: list[Usage] = []
    seen: set[str] = set()
    driver_before, run_before = driver.__dict__.copy(), JITFunction.run

    def compile_once(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> None:
        types = [a.dtype if isinstance(a, Tensor) else type(a) for a in arguments]
        key = f"{kernel.__name__} {types} {named}"
        if key not in seen:
            seen.add(key)
            binary = run_before(kernel, *arguments, grid=grid, warmup=True, **named)
            found.append(_usage(kernel, binary, named))

    driver.set_active(_Driver())
    JITFunction.run = compile_once
    try:
        yield found
    finally:
        JITFunction.run = run_before
        driver.__dict__.clear()
        driver.__dict__.update(driver_before)


def _usage(kernel: Any, binary: Any, named: dict[str, Any]) -> Usage:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = {name: int(value) for name, value in re.findall(r"\b(REG|STACK):(\d+)", report)}
    sizes = {name: value for name, value in named.items() if name.isupper()}
    return Usage(kernel.__name__, sizes, named["num_warps"], used["REG"], used["STACK"], binary)


def _parameters(scores: Tensor) -> Tensor:
    return scores.new_ones(len(scores), 1)


def _integers(scores: Tensor) -> Tensor:
    return scores.to(torch.int32)


def _bytes(scores: Tensor) -> Tensor:
    return scores.to(torch.uint8)


def _loss(scores: Tensor, order: float) -> None:
    """Launch the kernels of a loss and of its backward pass."""
    target = scores.new_zeros(len(scores), dtype=torch.long)
    losses, thresholds = entmax.fenchel_young(scores, target, order, -100)
    entmax.fenchel_young_backward(scores, thresholds, target, losses, order, -100)


CALLS: dict[str, Callable[[Tensor], object]] = {
    "softmax": lambda z: entmax.entmax_forward(z, 0.0),
    "sparsemax": lambda z: entmax.entmax_forward(z, 1.0),
    "1.5-entmax": lambda z: entmax.entmax_forward(z, 0.5),
    "entmax, 1 < α < 2": lambda z: entmax.entmax_forward(z, 0.3),
    "entmax, α > 2": lambda z: entmax.entmax_forward(z, 2.0),
    "entmax, α per row": lambda z: entmax.entmax_forward_rows(z, _parameters(z)),
    "sparsemax, backward": lambda z: entmax.entmax_backward(z, z, 1.0),
    "1.5-entmax, backward": lambda z: entmax.entmax_backward(z, z, 0.5),
    "entmax, backward": lambda z: entmax.entmax_backward(z, z, 0.3),
    "entmax, α > 2, backward": lambda z: entmax.entmax_backward(z, z, 2.0),
    "entmax, α per row, backward": lambda z: entmax.entmax_backward_rows(z, z, _parameters(z)),
    "softmax, loss": lambda z: _loss(z, 0.0),
    "sparsemax, loss": lambda z: _loss(z, 1.0),
    "1.5-entmax, loss": lambda z: _loss(z, 0.5),
    "entmax, loss, 1 < α < 2": lambda z: _loss(z, 0.3),
    "entmax, loss, α > 2": lambda z: _loss(z, 2.0),
    "csoftmax": lambda z: bounded.bounded_forward(z, z, 0.0, 0.0),
    "csparsemax": lambda z: bounded.bounded_forward(z, z, 1.0, 0.0),
    "budget": lambda z: bounded.budget_forward(z, 1.0),
    "budget per row": lambda z: bounded.budget_forward_rows(z, _parameters(z)),
    "csoftmax, backward": lambda z: bounded.bounded_backward(z, _bytes(z), z, 0.0, True, True),
    "csparsemax, backward": lambda z: bounded.bounded_backward(z, _bytes(z), z, 1.0, True, True),
    "sq-pnorm-max": lambda z: norm.sq_pnorm_max_forward(z, 1.5),
    "sq-pnorm-max, backward": lambda z: norm.sq_pnorm_max_backward(z, z, 1.5),
    "fusedmax": lambda z: grouped.fusedmax_forward(z, 0.1),
    "oscarmax": lambda z: grouped.oscarmax_forward(z, 0.1),
    "fusedmax and oscarmax, backward": lambda z: grouped.grouped_backward(z, _integers(z), z),
}
"""Launches of every kernel in every variant, for a matrix of scores."""

LENGTHS = [2**k for k in range(4, 16)]
"""Row lengths that cover all tiles; longer rows use the same ones."""


def usages(name: str, dtype: torch.dtype, *, aligned: bool) -> list[Usage]:
    """Compile the kernels of a call for all row lengths and return their usage."""
    with compiled_only() as found:
        for length in LENGTHS:
            CALLS[name](torch.zeros(ROWS, length if aligned else length - 1, dtype=dtype))
    return found


def main(arguments: list[str]) -> int:
    """Print a line for every call and precision; return 1 if any thread has a stack."""
    spilled = False
    print("| call | precision | kernels compiled | registers, at most | stack, bytes |")
    print("|:---|:---|---:|---:|---:|")
    for name in CALLS:
        for dtype in (torch.float32, torch.float64):
            found = usages(name, dtype, aligned="--aligned" in arguments)
            registers, stack = max(u.registers for u in found), max(u.stack for u in found)
            spilled = spilled or stack > 0
            precision = str(dtype).removeprefix("torch.")
            print(f"| {name} | {precision} | {len(found)} | {registers} | {stack} |", flush=True)
            for usage in found:
                if usage.stack:
                    print(f"{usage.name} {usage.sizes}: {usage.stack} bytes", file=sys.stderr)
    return int(spilled)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
