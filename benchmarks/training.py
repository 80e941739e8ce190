"""Speed of training with one mapping or loss against another, at equal batches.

``python -m benchmarks.training task=nmt scale=small ... --row "mapping=softmax" --row
"mapping=sparsemax"`` builds a model for each row, lets each learn for a while (sparse kernels
depend on how sparse the scores are), then takes one update of every row in turn, on the same batch,
again and again. The first row is what the others are compared with.

``--row "joeynmt ..."`` is the recurrent model of JoeyNMT at the sizes of these settings.

With ``--speed-gain`` two models of each row are timed in turn, one trained to the beginning of its
second epoch and one to that of its last: kernels become faster as models grow more certain.

``--device cuda`` compares, without ``--row``, updates of single operators, those of JoeyNMT where
it is installed and has the model, and those by graphs. ``--processes``, then by default 1, 8 and
12, adds updates per second of so many trainings side by side, of the last row.

With ``--record ARTEFACT --column COLUMN`` each row is written ``"LABEL: settings"``, with the label
of a row of the artefact, and the speeds of every repetition become those by which claims are judged
(``results/<scale>/speeds``); with ``--speed-gain`` the ratios of the last epoch to the second.
"""

import argparse
import itertools
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.machine import describe_machine
from benchmarks.peers import JoeyNmt
from benchmarks.timing import Clock, clock_for, processor_seconds
from repro.atomic import atomic_write_text
from repro.config.compose import compose_run
from repro.config.errors import ConfigError
from repro.config.experiment import load_experiment
from repro.config.schema import RunConfig
from repro.errors import UserError
from repro.mappings.kernels import dispatch
from repro.results.layout import speeds_path
from repro.results.record import REPLACED
from repro.results.timed import write_speeds
from repro.runs.device import prepare_device
from repro.runs.mps import shared_card
from repro.runs.train import build_task
from repro.tasks import Task
from repro.training.loop import Fit, FitPaths, build_optimizer, updates

EAGER_AND_GRAPH = ("training.graphs=off", "training.graphs=auto")
"""Rows on CUDA, if none are given."""
JOEYNMT = "joeynmt"
"""First word of the row of the peer."""
_PATIENCE = 600
"""Seconds in which all processes have to begin."""


class Runner:
    """Model in training, with seconds and number of target symbols of its timed updates.

    Its training has the schedule and the validations of a run in the first ``epochs``. Updates that
    capture a graph count for no speed: a training has few of them.
    """

    def __init__(
        self, name: str, config: RunConfig, *, peer: bool = False, epochs: int = 0
    ) -> None:
        self.name, self.config = f"{name}, epoch {epochs + 1}" if epochs else name, config
        self.task: Any = build_task(config, prepare_device(config))
        if peer:
            self.task = JoeyNmt(self.task, config)
        if not epochs:
            optimizer = build_optimizer(config.training, self.task.model.parameters())
        else:
            with TemporaryDirectory() as folder:
                paths = FitPaths(Path(folder, "checkpoint"), Path(folder, "weights"))
                schedule = replace(config.training, max_epochs=epochs)
                fit = Fit(self.task, schedule, paths, lambda _row: None, lambda *_: None)
                fit.run()
                optimizer = fit.optimizer
        self.take = updates(self.task, optimizer, config.training)
        self.task.model.train()
        self.seconds: list[float] = []
        self.symbols: list[int] = []
        self.counted: list[bool] = []

    def update(self, batch: Any, clock: Clock | None) -> None:
        """Update the parameters on a batch; record its time and its symbols if there is a clock."""
        covered: list[Tensor] = []

        def work() -> None:
            covered.append(self.take(batch)[1])

        if clock is None:
            work()
        else:
            before = self.take.captured
            self.seconds.append(clock(work))
            self.symbols.append(int(covered[0]))
            self.counted.append(self.take.captured == before)

    def _totals(self, part: slice = slice(None)) -> tuple[float, int, int]:
        """Return seconds, symbols and number of the timed updates that count."""
        seconds, symbols = (
            sum(itertools.compress(one[part], self.counted[part]))
            for one in (self.seconds, self.symbols)
        )
        return seconds, int(symbols), sum(self.counted[part])

    def rates(self, repetitions: int) -> list[float]:
        """Return the symbols per second of each of several equal parts of the timed updates."""
        size = len(self.seconds) // repetitions
        totals = (self._totals(slice(n * size, (n + 1) * size)) for n in range(repetitions))
        return [symbols / seconds for seconds, symbols, _ in totals]

    def line(self, first: "Runner") -> str:
        """Return symbols per second, and the median over updates of the speed beside ``first``."""
        times = median(b / a for a, b in zip(self.seconds, first.seconds, strict=True))
        seconds, symbols, _ = self._totals()
        rate, middle = symbols / seconds, 1000 * median(self.seconds)
        return f"| `{self.name}` | {rate:,.0f} | {middle:.1f} | {times:.3f} |"

    def speed(self) -> dict[str, Any]:
        """Return the speed as JSON values, with the number of updates of a whole training."""
        training, (seconds, symbols, count) = self.config.training, self._totals()
        epochs = training.max_epochs and training.max_epochs * len(self.task.batches(0))
        return {
            "settings": self.name,
            "symbols_per_second": symbols / seconds,
            "updates_per_second": count / seconds,
            "updates": min(most for most in (training.max_steps, epochs) if most),
        }


def epochs_before(config: RunConfig) -> tuple[int, int]:
    """Return the number of epochs before the second and before the last one.

    Raises:
        ConfigError: there is no further epoch after the second.
    """
    epochs = config.training.max_epochs
    if epochs is None or epochs < 3:
        raise ConfigError(f"--speed-gain needs training.max_epochs of at least 3, not {epochs}")
    return 1, epochs - 1


def throughput(settings: Sequence[str], count: int, before: int, timed: int) -> float:
    """Return the updates per second of several processes together that train side by side."""
    context = get_context("spawn")
    barrier, rates = context.Barrier(count, timeout=_PATIENCE), context.SimpleQueue()
    arguments = (settings, before, timed, barrier, rates.put)
    with shared_card() if "hardware=cuda" in settings and count > 1 else nullcontext():
        workers = [context.Process(target=train, args=arguments) for _ in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if any(worker.exitcode for worker in workers):
        raise UserError(f"one of {count} processes failed")
    return sum(rates.get() for _ in workers)


def train(
    settings: Sequence[str], before: int, timed: int, barrier: Any, report: Callable[[float], Any]
) -> None:
    """Train alone for a while, then beside the other processes; report updates per second."""
    try:
        runner = Runner("", compose_run([*settings]))
        stream = _batches(runner.task)
        for batch in itertools.islice(stream, before):
            runner.update(batch, None)
        _synchronize()
    except BaseException:  # the others need not wait for this one
        barrier.abort()
        raise
    barrier.wait()
    started = time.perf_counter()
    for batch in itertools.islice(stream, timed):
        runner.update(batch, None)
    _synchronize()
    report(timed / (time.perf_counter() - started))


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure(runners: Sequence[Runner], before: int, timed: int, clock: Clock) -> None:
    """Train every model for ``before`` updates, then time ``timed`` in turn."""
    streams = [_batches(runner.task) for runner in runners]
    for step in range(before + timed):
        for runner, stream in zip(runners, streams, strict=True):
            runner.update(next(stream), clock if step >= before else None)


def _batches(task: Task[Any]) -> Iterator[Any]:
    """Yield the batches of one epoch after the other, without end."""
    for epoch in itertools.count():
        yield from task.batches(epoch)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status.

    It is 1 if PyTorch code replaced a kernel that failed, 2 for an invalid setting or corpus.
    """
    parser = argparse.ArgumentParser("python -m benchmarks.training", description=__doc__)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of every row")
    parser.add_argument("--row", action="append", help="settings of a row")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="hardware of every row")
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[], metavar="N", help="side by side"
    )
    parser.add_argument("--before", type=int, default=200, help="updates that are not timed")
    parser.add_argument("--updates", type=int, default=60, help="timed updates of a repetition")
    parser.add_argument("--repetitions", type=int, default=3, help="values of each row in a record")
    parser.add_argument("--speed-gain", action="store_true", help="last against second epoch")
    parser.add_argument("--record", metavar="ARTEFACT", help="for example malaviya2018/table1")
    parser.add_argument("--column", help="column of the artefact whose speeds these are")
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON with all speeds")
    parser.add_argument("--processor-time", action="store_true", help="in place of the clock's")
    parsed = parser.parse_intermixed_args(arguments)
    if (parsed.record is None) != (parsed.column is None):
        parser.error("--record and --column go together")
    if parsed.device:
        parsed.settings.append(f"hardware={parsed.device}")
    if parsed.row is None:
        if parsed.device != "cuda":
            parser.error("--row is required unless --device cuda is given")
        parsed.row = [EAGER_AND_GRAPH[0], *_peers(parsed.settings), EAGER_AND_GRAPH[1]]
        parsed.processes = parsed.processes or [1, 8, 12]
    labels = [row.rpartition(": ")[0] or row for row in parsed.row]
    settings = [row.rpartition(": ")[2] for row in parsed.row]
    if parsed.speed_gain and any(row.startswith(JOEYNMT) for row in settings):
        parser.error(f"--speed-gain has no row {JOEYNMT}")
    try:
        if parsed.record is not None:
            require_cells(parsed.record, parsed.column, labels)
        configs = [compose_run([*parsed.settings, *_words(row)]) for row in settings]
        runners = [
            Runner(row, config, peer=row.startswith(JOEYNMT), epochs=epochs)
            for row, config in zip(settings, configs, strict=True)
            for epochs in (epochs_before(config) if parsed.speed_gain else [0])
        ]
    except UserError as error:
        print(f"benchmarks.training: {error}", file=sys.stderr)
        return 2
    device = next(runners[0].task.model.parameters()).device
    clock = processor_seconds if parsed.processor_time else clock_for(device)
    text = describe_machine(device).text + ", processor time" * parsed.processor_time
    measure(runners, parsed.before, parsed.updates * parsed.repetitions, clock)
    if slow := dispatch.replaced():
        print(f"benchmarks.training: {REPLACED} {', '.join(slow)}: no speed", file=sys.stderr)
        return 1
    print(f"{text}; threads: {torch.get_num_threads()}\n")
    other = "its second epoch" if parsed.speed_gain else "the first row"
    print(f"| settings | symbols/s | median ms of an update | times {other} |")
    print("|:---|---:|---:|---:|")
    for n, runner in enumerate(runners):
        print(runner.line(runners[n - n % 2 if parsed.speed_gain else 0]))
    together = dict[int, float]()
    if parsed.processes:
        print("\n| processes | updates/s, all of them |\n|---:|---:|")
    for count in parsed.processes:
        given = [*parsed.settings, *_words(settings[-1])]
        rate = throughput(given, count, parsed.before, parsed.updates * parsed.repetitions)
        together[count] = rate
        print(f"| {count} | {rate:,.0f} |", flush=True)
    if parsed.output:
        speeds = {"rows": [runner.speed() for runner in runners], "processes": together}
        atomic_write_text(parsed.output, json.dumps(speeds, indent=1))
    if parsed.record is not None:
        rates = [runner.rates(parsed.repetitions) for runner in runners]
        if parsed.speed_gain:
            rates = [
                [last / second for second, last in zip(*pair, strict=True)]
                for pair in zip(rates[::2], rates[1::2], strict=True)
            ]
        path = speeds_path(Path(configs[0].results_dir), configs[0].scale.name, parsed.record)
        write_speeds(path, text, parsed.column, dict(zip(labels, rates, strict=True)))
    return 0


def _peers(given: Sequence[str]) -> list[str]:
    """Return the row of JoeyNMT if it is installed and has the model of these settings."""
    try:
        has_model = compose_run(given).model.name == "seq2seq"
    except UserError:  # to be explained with the rows
        return []
    return [JOEYNMT] if has_model and find_spec(JOEYNMT) else []


def _words(row: str) -> list[str]:
    """Return the settings of a row; its graphs are off if it is the peer's."""
    if row.startswith(JOEYNMT):
        return [*shlex.split(row.removeprefix(JOEYNMT)), EAGER_AND_GRAPH[0]]
    return shlex.split(row)


def require_cells(artefact: str, column: str, rows: Sequence[str]) -> None:
    """Raise ``ConfigError`` unless an artefact has a column and rows of these names."""
    experiment = load_experiment(artefact)
    known = [*(one.name for one in experiment.columns), *experiment.row_labels()]
    if unknown := [name for name in (column, *rows) if name not in known]:
        raise ConfigError(f"{artefact} has no {', '.join(unknown)}; it has {', '.join(known)}")


if __name__ == "__main__":
    sys.exit(main())
