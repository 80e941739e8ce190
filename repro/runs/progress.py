"""Progress on the terminal: a bar for the runs, a bar for the epoch in progress."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from repro.config.schema import RunConfig
from repro.runs.compilation import announced_compilation
from repro.runs.execute import Outcome
from repro.training import Checkpoint

_COLOURS = {"done": "green", "skipped": "cyan", "failed": "red"}


class RunProgress:
    """Shows several runs; where the output is no terminal, one line for each finished run.

    Says once that kernels are being compiled, if this process does it and it takes long.

    Args:
        total: number of runs.
        title: what they are for.
    """

    def __init__(self, total: int, title: str) -> None:
        self.console = Console(stderr=True)
        self._total, self._count = total, 0
        self._notices = ExitStack()
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._runs = self._bars.add_task(escape(title), total=total)
        self._epoch = self._bars.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        self._notices.enter_context(announced_compilation(self.console.print))
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()
        self._notices.close()

    def step(self, config: RunConfig, progress: Checkpoint, batches: int) -> None:
        """Show one update of the run in progress."""
        last = config.training.max_epochs
        text = f"epoch {progress.epoch + 1}" + ("" if last is None else f"/{last}")
        self._bars.update(
            self._epoch, description=text, completed=progress.batch, total=batches, visible=True
        )

    def postponed(self, outcome: Outcome) -> None:
        """Show that a run waits for another process, which works on it."""
        self.console.print(
            f"[yellow]waiting[/] {outcome.run_id} {escape(outcome.label)}\n"
            f"        {escape(outcome.error)}",
            highlight=False,
            soft_wrap=True,
        )

    def finished(self, outcome: Outcome) -> None:
        """Show that a run ended, and how."""
        self._count += 1
        self._bars.update(self._runs, completed=self._count)
        self._bars.update(self._epoch, visible=False)
        colour = _COLOURS[outcome.status]
        self.console.print(
            f"[{colour}]{outcome.status:>7}[/] {outcome.run_id} "
            f"[dim]{self._count}/{self._total}[/] {escape(outcome.label)}"
            + (f"\n        {escape(outcome.error)}" if outcome.error else ""),
            highlight=False,
            soft_wrap=True,
        )
