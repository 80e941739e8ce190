"""Speed of training with one mapping or loss against another, at equal batches.

``python -m benchmarks.training task=nmt scale=small ... --row "mapping=softmax" --row
"mapping=sparsemax"`` builds a model for each row, lets each learn for a while (sparse kernels
depend on how sparse the scores are), then takes one update of every row in turn, on the same batch,
again and again. The first row is what the others are compared with.
"""

import argparse
import itertools
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.machine import Machine, describe_machine
from benchmarks.peer_training import PeerError, Sizes, compare
from benchmarks.timing import Clock, clock_for, processor_seconds
from repro.config.compose import compose_run
from repro.config.schema import RunConfig
from repro.errors import UserError
from repro.runs.environment import prepare_device
from repro.runs.execute import build_task
from repro.tasks import Task
from repro.training.loop import build_optimizer, update


@dataclass
class Runner:
    """Model in training, with the times of its updates.

    Attributes:
        name: settings of the row.
        seconds: seconds of each timed update.
        symbols: number of target symbols of each timed update.
    """

    name: str
    config: RunConfig
    task: Task[Any]
    seconds: list[float] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Create the optimiser and set the model to training mode."""
        self.optimizer = build_optimizer(self.config.training, self.task.model.parameters())
        self.task.model.train()

    def update(self, batch: Any) -> Tensor:
        """Update the parameters on a batch and return its number of target symbols."""
        return update(self.task, self.optimizer, batch, self.config.training.max_grad_norm)[1]

    def timed_update(self, batch: Any, clock: Clock) -> None:
        """Update the parameters on a batch and record the time and the number of symbols."""
        covered: list[Tensor] = []
        self.seconds.append(clock(lambda: covered.append(self.update(batch))))
        self.symbols.append(int(covered[0]))

    @property
    def rate(self) -> float:
        """Target symbols per second of the timed updates."""
        return sum(self.symbols) / sum(self.seconds)

    def ratio_to(self, other: "Runner") -> float:
        """Return the speed relative to another runner, as the median over the updates."""
        return median(b / a for a, b in zip(self.seconds, other.seconds, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status, which is 2 for an invalid setting or corpus.

    Args:
        arguments: arguments of the command line.
    """
    parsed = _parse(arguments)
    if parsed.joeynmt:
        return _compare_with_joeynmt(parsed)
    try:
        runners = [build_runner(parsed.settings, row) for row in parsed.row]
    except UserError as error:
        print(f"benchmarks.training: {error}", file=sys.stderr)
        return 2
    device = next(runners[0].task.model.parameters()).device
    clock = processor_seconds if parsed.processor_time else clock_for(device)
    machine = describe_machine(device)
    measure(runners, parsed.before, parsed.updates, clock)
    print(f"{page_head(machine)}\n\n{table(runners)}")
    return 0


def _compare_with_joeynmt(parsed: argparse.Namespace) -> int:
    torch.set_num_threads(1)
    machine = describe_machine(torch.device("cpu"))
    try:
        page = compare(parsed.joeynmt, Sizes(), parsed.before, parsed.updates, parsed.bfloat16)
    except PeerError as error:
        print(f"benchmarks.training: {error}", file=sys.stderr)
        return 2
    print(f"{page_head(machine)}\n\n{page}")
    return 0


def measure(runners: Sequence[Runner], before: int, updates: int, clock: Clock) -> None:
    """Train every model for a while, then time updates in turn.

    Args:
        runners: the rows.
        before: number of updates before those that are timed.
        updates: number of timed updates.
        clock: times one update.
    """
    streams = [stream_batches(runner.task) for runner in runners]
    for step in range(before + updates):
        for runner, stream in zip(runners, streams, strict=True):
            batch = next(stream)
            if step < before:
                runner.update(batch)
            else:
                runner.timed_update(batch, clock)


def page_head(machine: Machine) -> str:
    """Return a line with date, device, threads, versions, commit and the load if busy."""
    busy = f", load average {machine.load:.1f}" if machine.busy else ""
    threads = torch.get_num_threads()
    return (
        f"{machine.day}, {machine.device}, threads: {threads}{busy}; {machine.versions}; "
        f"commit {machine.commit}"
    )


def table(runners: Sequence[Runner]) -> str:
    """Return a Markdown table of symbols per second and of the speed relative to the first row."""
    lines = [
        "| settings | symbols/s | median ms of an update | times the first row |",
        "|:---|---:|---:|---:|",
    ]
    for runner in runners:
        times, milliseconds = runner.ratio_to(runners[0]), 1000 * median(runner.seconds)
        lines.append(f"| `{runner.name}` | {runner.rate:,.0f} | {milliseconds:.1f} | {times:.3f} |")
    return "\n".join(lines)


def stream_batches(task: Task[Any]) -> Iterator[Any]:
    """Yield the batches of one epoch after the other, without end."""
    for epoch in itertools.count():
        yield from task.batches(epoch)


def build_runner(settings: Sequence[str], row: str) -> Runner:
    """Build the model of a row.

    Args:
        settings: settings of every row.
        row: settings of this row, quoted as in a shell.
    """
    config = compose_run([*settings, *shlex.split(row)])
    return Runner(row, config, build_task(config, prepare_device(config.hardware)))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.training", description=__doc__)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of every row")
    parser.add_argument("--row", action="append", default=[], help="settings of a row")
    parser.add_argument(
        "--joeynmt", metavar="PYTHON", help="compare with JoeyNMT in this interpreter; no rows"
    )
    parser.add_argument("--bfloat16", action="store_true", help="add a row to --joeynmt")
    parser.add_argument("--before", type=int, default=200, help="updates that are not timed")
    parser.add_argument("--updates", type=int, default=60, help="timed updates")
    parser.add_argument(
        "--processor-time", action="store_true", help="time of the processor, not of the clock"
    )
    parsed = parser.parse_intermixed_args(arguments)
    if bool(parsed.row) == bool(parsed.joeynmt):
        parser.error("either --row or --joeynmt is needed")
    return parsed


if __name__ == "__main__":
    sys.exit(main())
