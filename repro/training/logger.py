"""Training curves besides ``history.jsonl``."""

from pathlib import Path
from typing import Any, Protocol


class CurveLogger(Protocol):
    """Receives the rows of the training history."""

    def log(self, row: dict[str, Any]) -> None:
        """Take one row."""
        ...


class NoLogger:
    """Keeps nothing."""

    def log(self, row: dict[str, Any]) -> None:
        """Do nothing."""


class TensorBoardLogger:
    """Writes TensorBoard event files into a folder."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def log(self, row: dict[str, Any]) -> None:
        """Write every number of the row as a scalar, at its step: an epoch may have more rows."""
        for key, value in row.items():
            if key != "step" and isinstance(value, int | float):
                self._writer.add_scalar(key, value, row["step"])
        self._writer.flush()


def build_logger(name: str, folder: Path) -> CurveLogger:
    """The logger of a ``logger`` configuration.

    Args:
        name: ``none`` or ``tensorboard``.
        folder: where its files go.
    """
    return TensorBoardLogger(folder) if name == "tensorboard" else NoLogger()
