"""Time and memory of the fused linear layer and loss against the two in a row.

Each measurement is a process of its own: the peak of a process cannot be reset. The memory of a
path is the growth of the peak over one warm-up on few tokens, gradients included.

    python benchmarks/linear_loss.py --tokens 4096 --vocabulary 50000
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from repro.losses import EntmaxLoss, linear_entmax_loss

PATHS = ("matmul", "in a row", "fused")
MEBIBYTE = 2**20


def main() -> None:
    """Print one row per alpha and path."""
    options = _options()
    if options.path:
        print(json.dumps(_measure(options)))
        return
    print(f"torch {torch.__version__}, threads: {options.threads}")
    print(f"{options.tokens} tokens, {options.vocabulary} classes, {options.size} hidden units")
    print(f"{'alpha':>6}  {'path':<9} {'forward s':>10} {'both s':>8} {'peak MB':>8}")
    for alpha in options.alpha:
        for path in PATHS:
            found = _in_subprocess(alpha, path)
            numbers = f"{found['forward']:10.2f} {found['both']:8.2f} {found['peak']:8.0f}"
            print(f"{alpha:6}  {path:<9} {numbers}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--spread", type=float, default=1.0, help="standard deviation of scores")
    parser.add_argument("--chunk", type=int, default=None)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--alpha", type=float, nargs="+", default=[1.5, 2.0, 1.0])
    parser.add_argument("--path", choices=PATHS, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def _in_subprocess(alpha: float, path: str) -> dict[str, float]:
    command = [sys.executable, *sys.argv, "--alpha", str(alpha), "--path", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measure(options: argparse.Namespace) -> dict[str, float]:
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    loss = _loss(options.path, options.alpha[0], options.chunk)
    hidden = torch.randn(options.tokens, options.size, requires_grad=True)
    weight = torch.randn(options.vocabulary, options.size) * options.spread / options.size**0.5
    weight.requires_grad_()
    bias = torch.zeros(options.vocabulary, requires_grad=True)
    target = torch.randint(options.vocabulary, (options.tokens,))
    loss(hidden[:2], weight, bias, target[:2]).backward()
    before = _peak()
    start = time.perf_counter()
    value = loss(hidden, weight, bias, target)
    middle = time.perf_counter()
    value.backward()
    end = time.perf_counter()
    return {"forward": middle - start, "both": end - start, "peak": _peak() - before}


def _loss(path: str, alpha: float, chunk: int | None) -> Callable[..., Tensor]:
    if path == "matmul":
        return lambda h, w, b, y: F.linear(h, w, b).sum()
    if path == "in a row":
        return lambda h, w, b, y: EntmaxLoss(alpha)(F.linear(h, w, b), y)
    return lambda h, w, b, y: linear_entmax_loss(h, w, b, y, alpha, chunk_size=chunk)


def _peak() -> float:
    """Largest resident memory of this process so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEBIBYTE


if __name__ == "__main__":
    main()
