"""Time and memory of the fused linear layer and loss against the two in a row.

Each measurement is a process of its own: the peak of a process cannot be reset. The memory of a
path is the growth of the peak over one warm-up on few tokens, gradients included.

    python -m benchmarks.linear_loss --tokens 4096 --vocabulary 50000
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from repro.losses import EntmaxLoss, linear_entmax_loss

MATMUL, IN_A_ROW, FUSED = PATHS = ("matmul", "in a row", "fused")
_MEBIBYTE = 2**20
_WARM_UP_SCORES = 2**18
"""Scores of the warm-up, which loads kernels: their code must not count as memory of a loss."""
_STATUS = Path("/proc/self/status")
_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Setting:
    """Setting of a measurement.

    Attributes:
        tokens: number of hidden states, each with a target.
        vocabulary: number of classes.
        size: size of a hidden state.
        spread: standard deviation of the scores.
        alpha: α of the loss.
        chunk: number of tokens per chunk on the fused path; None for its default.
        threads: number of threads of torch.
        device: ``cpu`` or ``cuda``.
    """

    tokens: int = 4096
    vocabulary: int = 50_000
    size: int = 512
    spread: float = 1.0
    alpha: float = 1.5
    chunk: int | None = None
    threads: int = 1
    device: str = "cpu"


@dataclass(frozen=True)
class Cost:
    """Seconds of the forward pass and of both passes, and growth of the peak memory in MB."""

    forward: float
    both: float
    peak: float


def in_subprocess(setting: Setting, path: str) -> Cost:
    """Measure one path in a process of its own.

    Raises:
        RuntimeError: the process failed, for example because it ran out of memory.
    """
    command = [sys.executable, "-m", "benchmarks.linear_loss", "--path", path]
    for name, value in asdict(setting).items():
        command += [] if value is None else [f"--{name}", str(value)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{path}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout))


def measure(setting: Setting, path: str) -> Cost:
    """Measure one path in this process, which must not have used more memory before."""
    torch.set_num_threads(setting.threads)
    hidden, weight, bias, target = _draw(setting)
    loss = _loss(path, setting)
    warm = -(-_WARM_UP_SCORES // setting.vocabulary)
    loss(hidden[:warm], weight, bias, target[:warm]).backward()
    before, start = _peak(setting), _now(setting)
    value = loss(hidden, weight, bias, target)
    middle = _now(setting)
    value.backward()
    return Cost(middle - start, _now(setting) - start, _peak(setting) - before)


def _draw(setting: Setting) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(setting.tokens, setting.size)
    weight = torch.randn(setting.vocabulary, setting.size) * setting.spread / setting.size**0.5
    leaves = (hidden, weight, torch.zeros(setting.vocabulary))
    target = torch.randint(setting.vocabulary, (setting.tokens,))
    hidden, weight, bias = (leaf.to(setting.device).requires_grad_() for leaf in leaves)
    return hidden, weight, bias, target.to(setting.device)


def _loss(path: str, setting: Setting) -> Callable[..., Tensor]:
    if path == MATMUL:
        return lambda h, w, b, y: F.linear(h, w, b).sum()
    if path == IN_A_ROW:
        return lambda h, w, b, y: EntmaxLoss(setting.alpha)(F.linear(h, w, b), y)
    chunk = setting.chunk
    return lambda h, w, b, y: linear_entmax_loss(h, w, b, y, setting.alpha, chunk_size=chunk)


def _now(setting: Setting) -> float:
    if setting.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _peak(setting: Setting) -> float:
    """Return the peak memory so far in MB: resident, or allocated on the CUDA device."""
    if setting.device == "cuda":
        return torch.cuda.max_memory_allocated() / _MEBIBYTE
    if _STATUS.exists():
        # VmHWM starts anew with the program; ru_maxrss starts at the peak of the parent process.
        (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / _MEBIBYTE
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MEBIBYTE


def main() -> None:
    """Measure the path given by ``--path``, or print a line for each path."""
    path, setting = _options()
    if path:
        print(json.dumps(asdict(measure(setting, path))))
        return
    print(f"torch {torch.__version__}, {setting}")
    print(f"{'path':<9} {'forward s':>10} {'both s':>8} {'peak MB':>8}")
    for path in PATHS:
        cost = in_subprocess(setting, path)
        print(f"{path:<9} {cost.forward:10.2f} {cost.both:8.2f} {cost.peak:8.0f}", flush=True)


def _options() -> tuple[str | None, Setting]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in asdict(Setting()).items():
        kind = int if default is None else type(default)
        parser.add_argument(f"--{name}", type=kind, default=default)
    parser.add_argument("--path", choices=PATHS, default=None, help=argparse.SUPPRESS)
    options = vars(parser.parse_args())
    return options.pop("path"), Setting(**options)


if __name__ == "__main__":
    main()
