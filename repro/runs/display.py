"""The display of a sweep: what is done, running and failed, and how long it will take.

It reads the folders of the runs, so that it shows runs in this process, in others and on other
machines alike. On a terminal it is redrawn in place; elsewhere it prints one line per event.
"""

import json
import logging
import shlex
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from repro.errors import UserError
from repro.results import RunFolder, from_dict
from repro.results.files import read_object
from repro.results.labels import result_text
from repro.runs.locking import is_claimed

_COLOURS = {"done": "green", "failed": "red"}
_POLL_SECONDS = {True: 0.5, False: 5.0}
"""Seconds between reads of the folders, by whether the output is a terminal."""
_LINE_SECONDS = 60.0
"""Seconds between lines about the runs in progress if the output is not a terminal."""
_SHOWN = 12
"""Most runs in progress to list."""

log = logging.getLogger("repro")


@dataclass
class RunState:
    """State of one run on the display."""

    folder: RunFolder  # folder of the run
    label: str  # distinguishes the run from the others of the sweep
    status: str = "queued"  # "queued", "running", "done", "cached" or "failed"
    share: float = 0.0  # share of the training that is done
    text: str = ""  # progress in words

    def poll(self) -> None:
        """Read the folder of a run that has not ended yet."""
        status = self.folder.status
        if status in ("done", "failed"):
            self.status, self.share, self.text = status, 1.0, ""
            if status == "done":
                with suppress(UserError):  # its record is damaged
                    self.text = result_text(self.folder.read_record())
            return
        progress: dict[str, Any] = {}
        with suppress(OSError, ValueError):  # nothing is written yet
            progress = json.loads(self.folder.progress.read_bytes())
        self.share = min(float(progress.get("share", 0.0)), 0.99)  # the evaluation follows
        text = "starting"
        if progress:
            epochs, value = progress["epochs"], progress["value"]
            text = f"epoch {progress['epoch']}" + ("" if epochs is None else f"/{epochs}")
            text += "" if value is None else f"  {progress['metric']} {value:.4g}"
        self.text = text
        alive = status == "running" and is_claimed(self.folder.path)
        self.status = "running" if alive else "queued"


class SweepDisplay:
    """Display of several runs while a block executes them; a context manager.

    Args:
        states: state of each run.
        before: number of runs of the same search that ended before.
        total: number of all of its runs; 0 for those before and these.
    """

    def __init__(self, states: Sequence[RunState], before: int = 0, total: int = 0) -> None:
        self.states = {state.folder.run_id: state for state in states}
        self.before, self.total = before, total or before + len(states)
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.quiet = not log.isEnabledFor(logging.INFO)
        self._ended: set[str] = set()
        self._said = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="display", daemon=True)
        self._context = ExitStack()
        for state in states:
            state.poll()
            if state.status == "done":
                state.status = "cached"
                self._ended.add(state.folder.run_id)
            elif state.status == "failed":  # it is tried again
                state.status, state.share = "queued", 0.0
        self._bars = Progress(
            BarColumn(24),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=self.quiet or not self.console.is_terminal,
            speed_estimate_period=float("inf"),
            get_time=time.monotonic,
        )
        self._whole = self._bars.add_task("", total=self.total)
        self._bars.update(self._whole, completed=before + sum(state.share for state in states))
        self._rows = {name: self._bars.add_task("", total=1, visible=False) for name in self.states}

    def __enter__(self) -> Self:
        if self._ended and not self.quiet:
            done = f"{len(self._ended)} of {len(self.states)} runs were done before"
            self.print(f"[cyan]cached[/] {done}")
        if not self.quiet and len(self._ended) < len(self.states):
            from repro.runs.compilation_notice import announced_compilation

            self._context.enter_context(announced_compilation(self.print))
        if not self._bars.disable:  # else it would still print a blank line at its end
            self._context.enter_context(self._bars)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._poll()
        self._context.close()

    @property
    def _counted(self) -> str:
        return f"{self.before + len(self._ended)} of {self.total}"

    def print(self, text: str) -> None:
        """Print a line above the display."""
        self.console.print(text)

    def note(self, status: str, run_id: str, reason: str) -> None:
        """Print what the folder of a run does not show, such as waiting for another process."""
        label = escape(self.states[run_id].label)
        self.print(f"[yellow]{status:>6}[/] {run_id} {label}\n        {escape(reason)}")

    def _time_left(self) -> str:
        """Estimate the time until all runs end, at the pace so far; empty before there is one."""
        seconds = self._bars.tasks[self._whole].time_remaining
        return f", {timedelta(seconds=round(seconds))} left" if seconds and seconds >= 1 else ""

    def _follow(self) -> None:
        while not self._stop.wait(_POLL_SECONDS[self.console.is_terminal]):
            self._poll()
            if self.console.is_terminal or time.monotonic() - self._said <= _LINE_SECONDS:
                continue
            self._said = time.monotonic()
            running = [state for state in self.states.values() if state.status == "running"]
            if running and not self.quiet:
                names = [f"{state.folder.run_id} {state.text}" for state in running[:_SHOWN]]
                line = f"{self._counted} ended, {len(running)} running: {escape('; '.join(names))}"
                self.print(line + self._time_left())

    def _poll(self) -> None:
        states, ended = self.states.values(), list[RunState]()
        for state in states:
            if state.folder.run_id not in self._ended:
                state.poll()
                if state.status in ("done", "failed"):
                    ended.append(state)
                    self._ended.add(state.folder.run_id)
        done = self.before + sum(state.share for state in states)
        running = [state for state in states if state.status == "running"]
        failed = sum(state.status == "failed" for state in states)
        text = f"{self._counted} ended, {len(running)} running, {failed} failed"
        self._bars.update(self._whole, completed=done, description=text)
        for name, state in self.states.items():
            text = f"{name}  {state.text}  {state.label}"
            shown = state in running[:_SHOWN]
            self._bars.update(
                self._rows[name], completed=state.share, description=text, visible=shown
            )
        for state in ended:
            self._print_end(state)

    def _print_end(self, state: RunState) -> None:
        if self.quiet and state.status != "failed":
            return
        line = f"[{_COLOURS[state.status]}]{state.status:>6}[/] {state.folder.run_id}"
        text = f"  {state.text}" if state.text else ""
        line += f" {self._counted}  {escape(state.label + text)}[dim]{self._time_left()}[/]"
        error = state.folder.error if state.status == "failed" else ""
        self.print(line + (f"\n       {escape(error)}" if error else ""))


@dataclass(frozen=True)
class _SweepFile:
    command: str
    runs: dict[str, str]
    jobs: dict[str, list[str]]


def command_line() -> str:
    """Return the command of this process, as it is typed in a shell."""
    return shlex.join(["repro", *sys.argv[1:]])


def read_sweep(folder: Path) -> dict[str, Any]:
    """Read a sweep's file: ``command``, ``runs`` (labels by identity), ``jobs`` of a cluster.

    Raises:
        ResultsError: the file is malformed.
    """
    path = folder / "sweep.json"
    if not path.exists():
        return {"command": command_line(), "runs": {}, "jobs": {}}
    return vars(from_dict(_SweepFile, read_object(path), str(path)))
