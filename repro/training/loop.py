"""The training loop: updates, validation, checkpoints and exact resume."""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from inspect import unwrap
from math import isfinite, isnan
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor, nn, optim
from torch.optim import Optimizer

from repro.config.errors import ConfigError
from repro.config.schema import TrainingConfig
from repro.training import distributed
from repro.training.checkpoint import (
    CheckpointError,
    TrainingProgress,
    load_checkpoint,
    save_checkpoint,
    save_weights,
)
from repro.training.distributed import SharedTask
from repro.training.graphs import Updates
from repro.training.interrupt import StopRequest, stop_requests
from repro.training.protocol import BatchT, Trainable
from repro.training.seeding import random_state, restore_random_state


def build_optimizer(config: TrainingConfig, parameters: Iterable[nn.Parameter]) -> optim.Optimizer:
    """Create the optimizer that the configuration names."""
    settings: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        return _eager(optim.SGD)(parameters, **settings)
    found = [*parameters]
    # Meta tensors, which have no fused update, trace what an accelerator would do.
    return _eager(optim.Adam)(found, **settings, fused=not any(one.is_meta for one in found))


@cache
def _eager(kind: type[Optimizer]) -> Callable[..., Optimizer]:
    """Derive an optimizer whose methods do not import PyTorch's compiler, which takes 1.5 s.

    They are the methods of ``kind`` without the decorators for :func:`torch.compile`.
    """
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict", "step")
    methods: dict[str, Any] = {name: unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(methods["step"])})


def is_decay_due(
    config: TrainingConfig, progress: TrainingProgress, row: Mapping[str, Any]
) -> bool:
    """Return whether the learning rate decays after a row of the history.

    The row contains ``dev_loss`` if there was a validation, which the progress includes; its
    ``epoch`` still counts the epochs before.
    """
    if config.schedule == "decay_after_epoch":
        return progress.epoch + 1 >= config.decay_from
    if "dev_loss" not in row:
        return False
    if config.schedule == "decay_if_not_best":
        return progress.best_step != progress.step
    return progress.previous_loss is not None and row["dev_loss"] > progress.previous_loss


_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_ROWS_SAVED = 5.0
"""Minimum time between checkpoints after rows: the work on rows that a killed process can lose.
Saving after every row took a tenth of the time of runs whose epochs take less than a second: each
checkpoint waits for the disk four times."""

Progress = Callable[[TrainingProgress, int], None]
"""Called after each update with the progress and the number of batches of the epoch."""


@dataclass(frozen=True)
class FitPaths:
    """Paths of the checkpoint and of the best weights.

    Weights may be written after the last checkpoint. Those before are kept until the next one, as a
    resumed training need not find the later ones again: it rounds otherwise with other threads.
    """

    checkpoint: Path
    weights: Path

    def kept(self, step: int | None) -> Path:
        """Return the path of the weights that were the best at a checkpoint, by their update."""
        return self.weights.with_stem(f"{self.weights.stem}-{step}")

    def keep(self, step: int) -> None:
        """Keep the weights of an update, if there are any, which are about to be replaced."""
        with suppress(FileNotFoundError):
            os.replace(self.weights, self.kept(step))

    def restore(self, step: int | None) -> None:
        """Return to the weights of an update, which a checkpoint calls the best."""
        if self.kept(step).exists():
            os.replace(self.kept(step), self.weights)
        self.forget()

    def forget(self) -> None:
        """Delete kept weights: the checkpoint is as new as those that replaced them."""
        for path in self.weights.parent.glob(f"{self.weights.stem}-*{self.weights.suffix}"):
            path.unlink()


class DivergenceError(RuntimeError):
    """Raised when a loss or a metric is not finite, from which no training recovers."""


def update(
    task: Trainable[BatchT], optimizer: Optimizer, batch: BatchT, max_grad_norm: float
) -> tuple[Tensor, Tensor]:
    """Take one optimizer step on a batch, its gradient clipped to ``max_grad_norm``.

    The detached loss and the number of target symbols, which it returns, stay on the device.
    """
    loss, symbols = task.loss(batch)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(task.model.parameters(), max_grad_norm)
    optimizer.step()
    return loss.detach(), symbols


def updates(task: Trainable[Any], optimizer: Optimizer, config: TrainingConfig) -> Updates:
    """Return :func:`update` as a function of the batch, on CUDA by graphs if configured."""

    def take(batch: Any) -> tuple[Tensor, Tensor]:
        return update(task, optimizer, batch, config.max_grad_norm)

    return Updates(take, task, optimizer, config.graphs == "auto")


class Fit(Generic[BatchT]):
    """Training in progress, which can be stopped and resumed.

    It resumes from the checkpoint if that exists. ``on_row`` is called with each row of the history
    when it is complete, ``on_step`` after each update, to show progress.

    Raises:
        ConfigError: ``config.monitor`` is not a metric by which the task can select the model.
        CheckpointError: the checkpoint is damaged or of another model.
        DivergenceError: a training loss, or a value of a validation, is not finite.
    """

    def __init__(
        self,
        task: Trainable[BatchT],
        config: TrainingConfig,
        files: FitPaths,
        on_row: Callable[[dict[str, Any]], None],
        on_step: Progress,
    ) -> None:
        if config.monitor not in task.selectors:
            choices = ", ".join(task.selectors)
            raise ConfigError(f"training.monitor is {config.monitor!r}; choose from: {choices}")
        self.task: Trainable[Any] = SharedTask(task) if distributed.size() > 1 else task
        self.config, self.files = config, files
        self.on_row, self.on_step = on_row, on_step
        self.optimizer = build_optimizer(config, task.model.parameters())
        self.progress = TrainingProgress()
        self._stop = StopRequest()
        self._saved_at = self._measured_at = time.monotonic()
        self._warm = False
        self._best_saved: int | None = None  # best update at the last checkpoint
        if files.checkpoint.exists():
            self.progress, state = load_checkpoint(files.checkpoint)
            try:
                task.model.load_state_dict(state["model"])
                self.optimizer.load_state_dict(state["optimizer"])
                # A run of one process saves only its own state.
                randoms = state.get("randoms", [state["random"]])
                restore_random_state(randoms[distributed.rank() % len(randoms)])
            except Exception as error:  # other shapes, missing keys, values of other types
                raise CheckpointError(
                    f"{files.checkpoint}: not a checkpoint of this model; delete it to start over"
                ) from error
            if len(randoms) != distributed.size():
                text = "%s is of %d processes, not %d: the run continues with other random numbers"
                _log.warning(text, files.checkpoint, len(randoms), distributed.size())
            self._best_saved = self.progress.best_step
            if distributed.rank() == 0:
                files.restore(self._best_saved)
        self._take = updates(self.task, self.optimizer, config)
        # The tally of a task starts anew with each process.
        self._tally_before = self.progress.tally
        self._totals = self._start_totals()

    def run(self) -> TrainingProgress:
        """Train to the end of the schedule, from the start or from the checkpoint.

        Training that was stopped during a validation resumes with that validation.

        Raises:
            KeyboardInterrupt: a stop was requested; the checkpoint is written.
        """
        with stop_requests() as self._stop:
            while not self.progress.finished:
                batches = self.task.batches(self.progress.epoch)
                self.task.model.train()
                self._measured_at = time.monotonic()
                while not self._is_row_due(len(batches)):
                    if self.progress.batch == len(batches):
                        self._next_epoch()
                        batches = self.task.batches(self.progress.epoch)
                    self._update(batches[self.progress.batch])
                    self.on_step(self.progress, len(batches))
                    self._save_if_due(60 * self.config.checkpoint_minutes)
                self._end_interval(len(batches))
                self._save_if_due(_SECONDS_BETWEEN_ROWS_SAVED)
        return self.progress

    def _is_row_due(self, batches: int) -> bool:
        every, progress = self.config.validate_every_steps, self.progress
        epoch_is_over = progress.batch == batches
        if self._is_last(epoch_is_over):
            return True
        if every is None:
            return epoch_is_over
        return progress.steps_since_row > 0 and progress.step % every == 0

    def _is_last(self, epoch_is_over: bool) -> bool:
        """Return whether the schedule allows no further update."""
        last_epoch = epoch_is_over and self.progress.epoch + 1 == self.config.max_epochs
        limit = self.config.max_steps
        return last_epoch or (limit is not None and self.progress.step >= limit)

    def _next_epoch(self) -> None:
        self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0

    def _update(self, batch: BatchT) -> None:
        found = self._take(batch)
        # Summed on the device: no synchronization per update.
        self._totals += torch.stack([value.double() for value in found])
        self.progress.step += 1
        self.progress.batch += 1
        if self._warm:
            return
        # The first update of a process does not count towards the speed: it compiles kernels, up to
        # a minute if nothing is cached, where later updates take milliseconds.
        self._warm = True
        progress = self.progress
        seconds, symbols, warm_up = progress.seconds, progress.symbols, progress.warm_up
        self._measure()
        spent = {"seconds": progress.seconds - seconds, "symbols": progress.symbols - symbols}
        spent |= self.task.tally
        progress.warm_up = {key: warm_up.get(key, 0.0) + n for key, n in spent.items()}
        progress.first_updates.append([progress.step, spent["seconds"]])

    def _end_interval(self, batches: int) -> None:
        """Add a row to the history, after a validation if due, and apply the schedule."""
        self._measure()
        progress = self.progress
        self._require_finite("training loss", progress.interval_loss)
        row: dict[str, Any] = {
            "epoch": progress.epoch + 1,
            "step": progress.step,
            "seconds": progress.seconds,
            "train_loss": progress.interval_loss / max(1, progress.steps_since_row),
            "learning_rate": self._learning_rate(),
        }
        epoch_is_over = progress.batch == batches
        last = self._is_last(epoch_is_over)
        by_steps = self.config.validate_every_steps is not None
        if last or by_steps or (progress.epoch + 1) % self.config.validate_every == 0:
            row |= self._validate()
        if is_decay_due(self.config, progress, row):
            for group in self.optimizer.param_groups:
                group["lr"] *= self.config.decay
        progress.previous_loss = row.get("dev_loss", progress.previous_loss)
        progress.history.append(row)
        progress.interval_loss = 0.0
        if epoch_is_over:
            self._next_epoch()
        self._totals = self._start_totals()
        # Training also ends when the learning rate is too small or the best value too old.
        best, patience = progress.best_step or 0, self.config.patience
        since_best = [r for r in progress.history if r["step"] > best and "dev_loss" in r]
        out_of_patience = patience is not None and len(since_best) >= patience
        too_slow = self._learning_rate() < self.config.min_learning_rate
        progress.finished = last or out_of_patience or too_slow
        self.on_row(row)

    def _validate(self) -> dict[str, Any]:
        self.task.model.eval()
        before = random_state()
        try:
            with self._stop.stopping("now"), torch.no_grad():
                outcome = self.task.validate()
        except KeyboardInterrupt:  # save the state before the validation, which will be repeated
            with self._stop.stopping("after_block"):
                restore_random_state(before)
                self._save()
            raise
        measured = {"loss": outcome.loss, **outcome.metrics}
        for name, value in measured.items():
            self._require_finite(f"validation {name}", value)
        value, progress = outcome.metrics[self.config.monitor], self.progress
        if progress.best is None or value > progress.best:
            before_it, progress.best_step = progress.best_step, progress.step
            progress.best, progress.best_epoch = value, progress.epoch + 1
            if distributed.rank() == 0:
                if before_it is not None and before_it == self._best_saved:
                    self.files.keep(before_it)
                save_weights(self.files.weights, self.task.model)
        return {f"dev_{key}": value for key, value in (measured | outcome.details).items()}

    def _require_finite(self, name: str, value: float) -> None:
        if not isfinite(value):
            found = "not a number" if isnan(value) else "infinite"
            raise DivergenceError(
                f"the {name} of epoch {self.progress.epoch + 1} is {found}: training "
                "diverged; try a lower training.learning_rate"
            )

    def _learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def _measure(self) -> None:
        """Update the sums and the time of the progress."""
        loss, symbols = self._totals.tolist()  # synchronizes: the time includes the device's work
        now, progress, before = time.monotonic(), self.progress, self._tally_before
        progress.interval_loss, progress.symbols = loss, int(symbols)
        progress.seconds += now - self._measured_at
        self._measured_at = now
        progress.tally = {k: before.get(k, 0.0) + v for k, v in self.task.tally.items()}

    def _save_if_due(self, seconds: float) -> None:
        """Save if the last checkpoint is older than this, a stop is requested or training ends."""
        due = self.progress.finished or time.monotonic() - self._saved_at > seconds
        stop = self._stop.requested
        if distributed.size() > 1:  # saving is collective, so all must decide alike
            wishes = distributed.gather((due, stop))
            due, stop = (any(wish) for wish in zip(*wishes, strict=True))
        if due or stop:
            if self.progress.steps_since_row:  # right after a row, the time is that of the row
                self._measure()
            self._save()
        # Several processes stop together: signals since the exchange wait for the next one.
        if stop or (self._stop.requested and distributed.size() == 1):
            raise KeyboardInterrupt

    def _start_totals(self) -> torch.Tensor:
        device = next(self.task.model.parameters()).device
        start = [self.progress.interval_loss, float(self.progress.symbols)]
        return torch.tensor(start, dtype=torch.float64, device=device)

    def _save(self) -> None:
        state: dict[str, Any] = {
            "model": self.task.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": random_state(),
        }
        if distributed.size() > 1:
            state["randoms"] = distributed.gather(state["random"])
        self._saved_at = time.monotonic()
        if distributed.rank() > 0:
            return
        with self._stop.stopping("after_block"):
            save_checkpoint(self.files.checkpoint, self.progress, state)
            self._best_saved = self.progress.best_step
            self.files.forget()


def fit(
    task: Trainable[BatchT],
    config: TrainingConfig,
    files: FitPaths,
    on_row: Callable[[dict[str, Any]], None],
    on_step: Progress,
    on_start: Callable[[TrainingProgress], None] | None = None,
) -> TrainingProgress:
    """Train a task to the end of its schedule; see :class:`Fit`.

    ``on_start`` is called with the progress that training starts from, before the first update.
    """
    training = Fit(task, config, files, on_row, on_step)
    if on_start is not None:
        on_start(training.progress)
    return training.run()
