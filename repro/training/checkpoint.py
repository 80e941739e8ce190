"""Checkpoints: written atomically, loaded without executing code."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import nn

from repro.atomic import atomic_path, atomic_write_bytes
from repro.checksums import verify


class CheckpointError(RuntimeError):
    """A checkpoint cannot be read, or belongs to another model."""


@dataclass
class TrainingProgress:
    """Everything that training needs to go on as if it had never stopped."""

    epoch: int = 0  # epoch in progress, from 0
    batch: int = 0  # batches of that epoch that are done
    step: int = 0  # updates made in all
    seconds: float = 0.0  # time spent training so far, over all sessions
    symbols: int = 0  # target symbols seen so far
    interval_loss: float = 0.0  # sum of the losses since the last row of the history
    previous_loss: float | None = None  # last validation loss; None before the first validation
    best: float | None = None  # best value of the selecting metric so far
    best_epoch: int | None = None  # epoch of that validation, from 1
    best_step: int | None = None  # updates before that validation
    # One row for each finished epoch, or for each validation where these come after some updates.
    history: list[dict[str, Any]] = field(default_factory=list)
    tally: dict[str, float] = field(default_factory=dict)  # the task's own sums so far, by name
    finished: bool = False  # whether the schedule has ended
    # Seconds, symbols and tallies of the first update of each process, which compiles kernels.
    warm_up: dict[str, float] = field(default_factory=dict)

    @property
    def steps_since_row(self) -> int:
        """Updates since the last row of ``history``."""
        return self.step - (self.history[-1]["step"] if self.history else 0)

    def speeds(self) -> dict[str, float]:
        """``tokens_per_second``, sums of ``tally`` per second of training, and ``epoch_minutes``.

        With three rows of ``history`` or more there is ``speed_gain`` as well: updates per second
        up to the last row, divided by those up to the second row. Warm-ups are left
        out, unless there is nothing else: an epoch's time is its number of symbols divided by the
        symbols per second.
        """
        spent = {"seconds": self.seconds, "symbols": self.symbols, **self.tally}
        timed = {key: value - self.warm_up.get(key, 0.0) for key, value in spent.items()}
        if timed["symbols"] <= 0:
            timed = spent
        seconds = max(timed.pop("seconds"), 1e-9)
        timed["tokens_per_second"] = timed.pop("symbols")
        speeds = {key: value / seconds for key, value in timed.items()}
        # Epochs that are done, with the share of the one in progress; 1 before the first end.
        epochs = self.epoch * self.step / max(1, self.step - self.batch) if self.epoch else 1.0
        per_epoch = self.symbols / epochs
        speeds["epoch_minutes"] = per_epoch / max(speeds["tokens_per_second"], 1e-9) / 60
        if len(self.history) >= 3:
            # The time up to the first row is left out, since it has the warm-up.
            second, last = (
                (row["seconds"] - before["seconds"]) / (row["step"] - before["step"])
                for before, row in (self.history[:2], self.history[-2:])
            )
            speeds["speed_gain"] = second / max(last, 1e-9)
        return speeds


def save_checkpoint(path: Path, progress: TrainingProgress, state: dict[str, Any]) -> None:
    """Replace a checkpoint, atomically, by progress and state dictionaries.

    The latter are those of the model, the optimiser and the random generators.
    """
    content = {"progress": asdict(progress), "state": state}
    # Through a stream: its errors are those of the system, such as a full disk.
    with atomic_path(path, checksum=True) as temporary, temporary.open("wb") as stream:
        torch.save(content, stream)


def load_checkpoint(path: Path) -> tuple[TrainingProgress, dict[str, Any]]:
    """Read what :func:`save_checkpoint` wrote; only tensors and plain values are loaded.

    Raises:
        DamagedFileError: the file differs from its checksum.
        CheckpointError: the file is no such checkpoint.
    """
    verify(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        return TrainingProgress(**content["progress"]), content["state"]
    except Exception as error:  # what is no archive, what weights_only refuses, missing keys
        message = f"{path}: not a readable checkpoint; delete it to start the run anew"
        raise CheckpointError(message) from error


def save_weights(path: Path, model: nn.Module) -> None:
    """Write a model's parameters as safetensors, atomically and with a checksum."""
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    # Not save_file: it makes files that their owner alone may read, whatever the umask.
    atomic_write_bytes(path, save(tensors), checksum=True)


def load_weights(path: Path, model: nn.Module) -> None:
    """Load parameters written by :func:`save_weights`.

    Raises:
        DamagedFileError: the file differs from its checksum.
        CheckpointError: the file is missing or of another model.
    """
    verify(path)
    try:
        model.load_state_dict(load_file(path))
    except Exception as error:
        reason = str(error).partition("\n")[0]
        message = (
            f"{path}: not the weights of this model ({reason}); delete its folder to start anew"
        )
        raise CheckpointError(message) from error
