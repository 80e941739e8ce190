"""Processor time of an update of a model, and of its matrix products alone.

``python -m benchmarks.floor task=nli_alignment scale=small`` trains a model for a while, records
the shapes of every matrix product of some updates, forward and backward, and times these products
by themselves. What they take is a floor of the update: no code around the same products is faster.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.machine import describe_machine
from benchmarks.timing import processor_seconds
from benchmarks.training import Runner, build_runner, page_head, stream_batches
from repro.errors import UserError

_REPEATS = 5
_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2)}
"""Operations that multiply matrices, with the positions of the factors in their arguments."""


class Product(NamedTuple):
    """Shape of a batched product of ``(rows, inner)`` and ``(inner, columns)`` matrices."""

    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def operations(self) -> int:
        """Number of multiplications and additions."""
        return 2 * self.batch * self.rows * self.inner * self.columns

    def seconds(self) -> float:
        """Return the least CPU time of several repetitions on random matrices."""
        left = torch.randn(self.batch, self.rows, self.inner).squeeze(0)
        right = torch.randn(self.batch, self.inner, self.columns).squeeze(0)
        return min(processor_seconds(lambda: torch.matmul(left, right)) for _ in range(_REPEATS))


class ProductRecorder(TorchDispatchMode):
    """Context that counts matrix products by shape, including those of oneDNN's LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.products: Counter[Product] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record the operation and run it."""
        name = func.overloadpacket.__name__
        if name in _PRODUCTS:
            left, right = (args[place] for place in _PRODUCTS[name])
            batch = left.shape[0] if left.dim() == 3 else 1
            self.products[Product(batch, *left.shape[-2:], right.shape[-1])] += 1
        elif name == "mkldnn_rnn_layer":
            self.products.update(lstm_products(args[0], args[2], backward=False))
        elif name == "mkldnn_rnn_layer_backward":
            self.products.update(lstm_products(args[0], args[2], backward=True))
        return func(*args, **(kwargs or {}))


def lstm_products(inputs: Tensor, recurrent: Tensor, *, backward: bool) -> Counter[Product]:
    """Return the products of one layer and direction of an LSTM over a padded batch.

    Args:
        inputs: input of the layer, shape ``(n, B, input)``.
        recurrent: weights between states, shape ``(4 h, h)``.
        backward: whether to return the products of the backward pass.
    """
    steps, rows, size = inputs.shape
    gates, hidden = recurrent.shape
    if not backward:
        return Counter(
            {Product(1, steps * rows, size, gates): 1, Product(1, rows, hidden, gates): steps}
        )
    return Counter(
        [Product(1, steps * rows, gates, size)]
        + [Product(1, rows, gates, hidden)] * steps
        + [Product(1, gates, steps * rows, width) for width in (size, hidden)]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status, which is 2 for an invalid setting or corpus.

    Args:
        arguments: arguments of the command line.
    """
    parser = argparse.ArgumentParser("python -m benchmarks.floor", description=__doc__)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--before", type=int, default=100, help="updates that are not timed")
    parser.add_argument("--updates", type=int, default=20, help="timed updates")
    parsed = parser.parse_intermixed_args(arguments)
    try:
        runner = build_runner(parsed.settings, "hardware.device=cpu")
    except UserError as error:
        print(f"benchmarks.floor: {error}", file=sys.stderr)
        return 2
    print(page_head(describe_machine(torch.device("cpu"))))
    print(measure(runner, parsed.before, parsed.updates))
    return 0


def measure(runner: Runner, before: int, updates: int) -> str:
    """Train, then compare timed updates with their products and return a report.

    Args:
        runner: model and optimiser.
        before: number of updates before those that are timed.
        updates: number of timed updates.
    """
    batches = stream_batches(runner.task)
    for _ in range(before):
        runner.update(next(batches))
    recorder = ProductRecorder()
    for _ in range(updates):
        batch = next(batches)
        runner.timed_update(batch, processor_seconds)
        with recorder:
            runner.update(batch)
    seconds = sum(product.seconds() * count for product, count in recorder.products.items())
    operations = sum(product.operations * count for product, count in recorder.products.items())
    update = sum(runner.seconds)
    return (
        f"An update takes {1e3 * update / updates:.1f} ms, its products alone "
        f"{1e3 * seconds / updates:.1f} ms: {operations / updates / 1e9:.2f} GFLOP at "
        f"{operations / seconds / 1e9:.0f} GFLOP/s. {runner.rate:,.0f} symbols/s of "
        f"{sum(runner.symbols) / seconds:,.0f}: {seconds / update:.0%}."
    )


if __name__ == "__main__":
    sys.exit(main())
