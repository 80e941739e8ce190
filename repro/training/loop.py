"""The training loop: updates, validation, checkpoints and exact resume."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, isnan
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor
from torch.optim import Optimizer

from repro.config.errors import ConfigError
from repro.config.schema import TrainingConfig
from repro.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
    save_weights,
)
from repro.training.interrupt import StopRequest, stop_requests
from repro.training.optimizers import build_optimizer, is_decay_due
from repro.training.protocol import BatchT, Trainable
from repro.training.seeding import random_state, restore_random_state

Progress = Callable[[Checkpoint, int], None]
"""Called after each update with where training stands and the number of batches of the epoch."""


@dataclass(frozen=True)
class Files:
    """Where a fit keeps its checkpoint and its best weights."""

    checkpoint: Path
    weights: Path


class DivergenceError(RuntimeError):
    """A training or validation loss, or a metric, is not finite; no training recovers from that."""


def update(
    task: Trainable[BatchT], optimizer: Optimizer, batch: BatchT, max_grad_norm: float
) -> tuple[Tensor, Tensor]:
    """Take one step down the gradient of a batch, clipped to ``max_grad_norm``.

    Returns:
        The loss, without its graph, and the number of target symbols; both stay on the device.
    """
    loss, symbols = task.loss(batch)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(task.model.parameters(), max_grad_norm)
    optimizer.step()
    return loss.detach(), symbols


class Fit(Generic[BatchT]):
    """One training in progress.

    Args:
        task: the model and its data.
        config: optimiser, schedule and stopping.
        files: the checkpoint is continued if it exists.
        on_epoch: receives the row of each finished epoch.
        on_step: shows progress.

    Raises:
        ConfigError: the metric that shall choose the model is not one of the task's.
        CheckpointError: the checkpoint is damaged or of another model.
        DivergenceError: the loss of an epoch, or a value of a validation, is not finite.
    """

    def __init__(
        self,
        task: Trainable[BatchT],
        config: TrainingConfig,
        files: Files,
        on_epoch: Callable[[dict[str, Any]], None],
        on_step: Progress,
    ) -> None:
        if config.select not in task.selectors:
            choices = ", ".join(task.selectors)
            raise ConfigError(f"training.select is {config.select!r}; choose from: {choices}")
        self.task, self.config, self.files = task, config, files
        self.on_epoch, self.on_step = on_epoch, on_step
        self.optimizer = build_optimizer(config, task.model.parameters())
        self.progress = Checkpoint()
        self._stop = StopRequest()
        self._totals = self._start_totals()
        self._saved_at = time.monotonic()
        self._ticked_at = self._saved_at
        self._tally_before: dict[str, float] = {}
        self._warm = False
        if files.checkpoint.exists():
            self._resume()

    def run(self) -> Checkpoint:
        """Train until the schedule ends, or continue where a checkpoint stands.

        Raises:
            KeyboardInterrupt: somebody asked to stop; the checkpoint is written.
        """
        with stop_requests() as self._stop:
            while not self.progress.finished:
                self._epoch()
                self._stop.check()
        return self.progress

    def _epoch(self) -> None:
        batches = self.task.batches(self.progress.epoch)
        self.task.model.train()
        self._ticked_at = time.monotonic()
        while self.progress.batch < len(batches) and not self._step_limit():
            self._update(batches[self.progress.batch])
            self.on_step(self.progress, len(batches))
            self._save_if_due()
        self._end_epoch(len(batches))
        self._save()

    def _update(self, batch: BatchT) -> None:
        found = update(self.task, self.optimizer, batch, self.config.max_grad_norm)
        # Summed on the device: no synchronisation per update.
        self._totals += torch.stack([value.double() for value in found])
        self.progress.step += 1
        self.progress.batch += 1
        if not self._warm:
            self._end_warm_up()

    def _end_warm_up(self) -> None:
        """Leave the first update of this process out of the speed: it compiles kernels.

        It takes up to a minute where nothing is cached, and later ones milliseconds.
        """
        self._warm = True
        seconds, symbols = self.progress.seconds, self.progress.symbols
        self._read_totals()
        self._tick()
        spent = {"seconds": self.progress.seconds - seconds}
        spent["symbols"] = self.progress.symbols - symbols
        spent |= self.task.tally
        warm_up = self.progress.warm_up
        self.progress.warm_up = {key: warm_up.get(key, 0.0) + n for key, n in spent.items()}

    def _end_epoch(self, batches: int) -> None:
        self._read_totals()  # waits for the device, whose work belongs to this epoch's time
        self._tick()
        progress = self.progress
        self._require_finite("training loss", progress.epoch_loss)
        row: dict[str, Any] = {
            "epoch": progress.epoch + 1,
            "step": progress.step,
            "seconds": progress.seconds,
            "train_loss": progress.epoch_loss / max(1, min(batches, progress.batch)),
            "learning_rate": self._learning_rate(),
        }
        last = progress.epoch + 1 == self.config.max_epochs or self._step_limit()
        if last or (progress.epoch + 1) % self.config.validate_every == 0:
            row |= self._validate()
        self._decay_if_due(row)
        progress.history.append(row)
        progress.epoch, progress.batch, progress.epoch_loss = progress.epoch + 1, 0, 0.0
        self._totals = self._start_totals()
        progress.finished = last or self._is_exhausted()
        self.on_epoch(row)

    def _validate(self) -> dict[str, Any]:
        self.task.model.eval()
        before = random_state()
        try:
            with self._stop.interruptible(), torch.no_grad():
                outcome = self.task.validate()
        except KeyboardInterrupt:  # the checkpoint stands behind the last update of the epoch
            with self._stop.uninterruptible():
                restore_random_state(before)
                self._save()
            raise
        measured = {"loss": outcome.loss, **outcome.metrics}
        for name, value in measured.items():
            self._require_finite(f"validation {name}", value)
        self._keep_if_best(outcome.metrics[self.config.select])
        return {f"dev_{key}": value for key, value in (measured | outcome.details).items()}

    def _require_finite(self, name: str, value: float) -> None:
        if not isfinite(value):
            found = "not a number" if isnan(value) else "infinite"
            raise DivergenceError(
                f"the {name} of epoch {self.progress.epoch + 1} is {found}: the training "
                "diverged; try a lower training.learning_rate"
            )

    def _decay_if_due(self, row: Mapping[str, Any]) -> None:
        if is_decay_due(self.config, self.progress, row):
            for group in self.optimizer.param_groups:
                group["lr"] *= self.config.decay
        self.progress.previous_loss = row.get("dev_loss", self.progress.previous_loss)

    def _keep_if_best(self, value: float) -> None:
        # Not `value > best`: NaN, in a checkpoint of an older version, can then be beaten.
        if self.progress.best is None or not value <= self.progress.best:
            self.progress.best, self.progress.best_epoch = value, self.progress.epoch + 1
            save_weights(self.files.weights, self.task.model)

    def _is_exhausted(self) -> bool:
        """Whether the learning rate is too small, or the best value too long ago."""
        best, patience = self.progress.best_epoch or 0, self.config.patience
        later = [r for r in self.progress.history if r["epoch"] > best and "dev_loss" in r]
        impatient = patience is not None and len(later) >= patience
        return impatient or self._learning_rate() < self.config.min_learning_rate

    def _learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def _step_limit(self) -> bool:
        limit = self.config.max_steps
        return limit is not None and self.progress.step >= limit

    def _tick(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self._ticked_at
        self._ticked_at = now
        before = self._tally_before
        self.progress.tally = {k: before.get(k, 0.0) + v for k, v in self.task.tally.items()}

    def _save_if_due(self) -> None:
        due = time.monotonic() - self._saved_at > 60 * self.config.checkpoint_minutes
        if due or self._stop:
            self._tick()
            self._save()
        self._stop.check()

    def _start_totals(self) -> torch.Tensor:
        device = next(self.task.model.parameters()).device
        start = [self.progress.epoch_loss, float(self.progress.symbols)]
        return torch.tensor(start, dtype=torch.float64, device=device)

    def _read_totals(self) -> None:
        loss, symbols = self._totals.tolist()
        self.progress.epoch_loss, self.progress.symbols = loss, int(symbols)

    def _save(self) -> None:
        self._read_totals()
        state = {
            "model": self.task.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": random_state(),
        }
        with self._stop.uninterruptible():
            save_checkpoint(self.files.checkpoint, self.progress, state)
        self._saved_at = time.monotonic()

    def _resume(self) -> None:
        self.progress, state = load_checkpoint(self.files.checkpoint)
        self.task.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        restore_random_state(state["random"])
        self._tally_before = self.progress.tally
        self._totals = self._start_totals()


def fit(
    task: Trainable[BatchT],
    config: TrainingConfig,
    files: Files,
    on_epoch: Callable[[dict[str, Any]], None],
    on_step: Progress,
) -> Checkpoint:
    """Train a task to the end of its schedule; see :class:`Fit`."""
    return Fit(task, config, files, on_epoch, on_step).run()
