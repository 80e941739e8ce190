"""Checkpoints: written atomically, loaded without executing code."""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile, ZipFile

import torch
from safetensors.torch import load, save
from torch import nn

from repro import typed
from repro.atomic import atomic_write_bytes

_CHECKSUM = "sha256"


class CheckpointError(RuntimeError):
    """Raised when a checkpoint cannot be read or belongs to another model."""


@dataclass
class TrainingProgress:
    """Progress of training, from which it resumes with the states of model and optimizer."""

    epoch: int = 0  # epoch in progress, from 0
    batch: int = 0  # finished batches of that epoch
    step: int = 0  # number of updates so far
    seconds: float = 0.0  # time spent training so far, over all sessions
    symbols: int = 0  # target symbols seen so far
    interval_loss: float = 0.0  # sum of the losses since the last row of the history
    previous_loss: float | None = None  # last validation loss; None before the first validation
    best: float | None = None  # best value so far of the metric that selects the model
    best_epoch: int | None = None  # epoch of that validation, from 1
    best_step: int | None = None  # number of updates before that validation
    # One row per finished epoch, or per validation if these are due after a number of updates.
    history: list[dict[str, Any]] = field(default_factory=list)
    tally: dict[str, float] = field(default_factory=dict)  # sums of ``Trainable.tally``, by name
    finished: bool = False  # whether the schedule has ended
    # Seconds, symbols and tallies of the first update of each session, which compiles kernels.
    warm_up: dict[str, float] = field(default_factory=dict)
    first_updates: list[list[float]] = field(default_factory=list)  # step and seconds of each
    # What describes the sessions that trained, each description once; empty if none was given.
    sessions: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Create the progress from its fields, as a file has them.

        Raises:
            ValueError: a field is unknown or of the wrong type; the message names it.
        """
        # A loss may be infinite or not a number, which `typed` refuses.
        finite = {key: 0.0 if isinstance(value, float) else value for key, value in content.items()}
        typed.build(cls, finite)
        return cls(**content)

    @property
    def steps_since_row(self) -> int:
        """Number of updates since the last row of ``history``."""
        return self.step - (self.history[-1]["step"] if self.history else 0)

    def speeds(self) -> dict[str, float]:
        """Return ``tokens_per_second``, the sums of ``tally`` per second, and ``epoch_minutes``.

        With at least three rows of ``history`` there is also ``speed_gain``: updates per second
        between the last two rows, divided by those between the first two. Warm-ups are left out,
        unless there is nothing else: the time of an epoch is the number of its symbols divided by
        the symbols per second. ``speed_gain`` needs other updates between either pair of rows.
        """
        spent = {"seconds": self.seconds, "symbols": self.symbols, **self.tally}
        timed = {key: value - self.warm_up.get(key, 0.0) for key, value in spent.items()}
        if timed["symbols"] <= 0:
            timed = spent
        seconds = max(timed.pop("seconds"), 1e-9)
        timed["tokens_per_second"] = timed.pop("symbols")
        speeds = {key: value / seconds for key, value in timed.items()}
        # Finished epochs and the finished part of the current one; 1 during the first epoch.
        epochs = self.epoch * self.step / max(1, self.step - self.batch) if self.epoch else 1.0
        per_epoch = self.symbols / epochs
        speeds["epoch_minutes"] = per_epoch / max(speeds["tokens_per_second"], 1e-9) / 60
        if len(self.history) >= 3:
            # The time before the first row includes the warm-up and is left out.
            second, last = (
                self._seconds_per_update(*pair) for pair in (self.history[:2], self.history[-2:])
            )
            if second is not None and last is not None:
                speeds["speed_gain"] = second / max(last, 1e-9)
        return speeds

    def _seconds_per_update(
        self, before: Mapping[str, Any], row: Mapping[str, Any]
    ) -> float | None:
        """Return the time of an update between two rows without first ones; None if all are."""
        first = [spent for n, spent in self.first_updates if before["step"] < n <= row["step"]]
        updates = row["step"] - before["step"] - len(first)
        return (row["seconds"] - before["seconds"] - sum(first)) / updates if updates else None


def save_checkpoint(path: Path, progress: TrainingProgress, state: dict[str, Any]) -> None:
    """Write a checkpoint atomically, replacing any earlier one.

    ``state`` holds the states of the model, the optimizer and the random number generators.
    """
    # PyTorch hides the OSError of a full disk, so it writes to memory.
    stream = io.BytesIO()
    torch.save({"progress": asdict(progress), "state": state}, stream)
    atomic_write_bytes(path, stream.getvalue())


def load_checkpoint(path: Path) -> tuple[TrainingProgress, dict[str, Any]]:
    """Read what :func:`save_checkpoint` wrote; only tensors and plain values are loaded.

    Raises:
        CheckpointError: the file is not a checkpoint.
    """
    try:
        # PyTorch's reader does not compare the CRC of the members.
        with ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise BadZipFile(f"{damaged} is damaged")
        content = torch.load(path, map_location="cpu", weights_only=True)
        return TrainingProgress.of(content["progress"]), content["state"]
    except Exception as error:  # not an archive, types refused by weights_only, or other keys
        message = f"{path}: not a readable checkpoint; delete it to start the run anew"
        raise CheckpointError(message) from error


def save_weights(path: Path, model: nn.Module) -> None:
    """Write a model's parameters as safetensors, atomically, with a checksum in the header."""
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    # Not save_file: it creates files that only their owner may read, whatever the umask.
    digest = _content_digest(save(tensors))
    atomic_write_bytes(path, save(tensors, {_CHECKSUM: digest}))


def load_weights(path: Path, model: nn.Module) -> None:
    """Load parameters written by :func:`save_weights`.

    Raises:
        CheckpointError: the file is missing, damaged or of another model.
    """
    try:
        content = path.read_bytes()
        metadata = json.loads(content[8 : _data_start(content)]).get("__metadata__", {})
        # Weights that were written before there were checksums have none.
        if _CHECKSUM in metadata and metadata[_CHECKSUM] != _content_digest(content):
            raise ValueError("damaged: it differs from the checksum in it")
        model.load_state_dict(load(content))
    except Exception as error:
        reason = str(error).partition("\n")[0]
        message = (
            f"{path}: not the weights of this model ({reason}); delete its folder to start anew"
        )
        raise CheckpointError(message) from error


def _content_digest(content: bytes) -> str:
    """Compute the SHA-256 of the numbers of a safetensors file, which follow its header."""
    return hashlib.sha256(memoryview(content)[_data_start(content) :]).hexdigest()


def _data_start(content: bytes) -> int:
    """Return the place of the numbers in a safetensors file: its first 8 bytes count the header."""
    return 8 + int.from_bytes(content[:8], "little")
