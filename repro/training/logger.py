"""Training curves besides ``history.jsonl``: a registry of loggers."""

import csv
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from repro.atomic import atomic_path
from repro.config.errors import ConfigError


class CurveLogger:
    """Receives the rows of the training history; this one keeps nothing.

    Args:
        folder: folder of the run.

    Raises:
        ConfigError: the logger's package is not installed.
    """

    def __init__(self, folder: Path) -> None:
        pass

    def log(self, row: dict[str, Any]) -> None:
        """Take one row."""

    def close(self) -> None:
        """End: the process may train another run."""


class TensorBoardLogger(CurveLogger):
    """Writes event files into ``tensorboard`` in the folder of a run."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, row: dict[str, Any]) -> None:
        """Write every number of the row as a scalar, at its step: an epoch may have more rows."""
        for key, value in scalars(row).items():
            self._writer.add_scalar(key, value, row["step"])
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class CsvLogger(CurveLogger):
    """Writes ``curves.csv`` in the folder of a run, one line for each row of its history."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "curves.csv"
        self._rows: list[dict[str, Any]] = []
        if self._path.exists():
            with self._path.open(newline="", encoding="utf-8") as stream:
                self._rows = [dict(row) for row in csv.DictReader(stream)]

    def log(self, row: dict[str, Any]) -> None:
        """Add the row; rows of later steps are those of an earlier session, from a later time."""
        earlier = [one for one in self._rows if int(one["step"]) < row["step"]]
        self._rows = [*earlier, {"step": row["step"], **scalars(row)}]
        names = dict.fromkeys(key for one in self._rows for key in one)
        with atomic_path(self._path) as path, path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(self._rows)


class MlflowLogger(CurveLogger):
    """Logs metrics to the MLflow run of the run's name; ``MLFLOW_TRACKING_URI`` applies."""

    def __init__(self, folder: Path) -> None:
        self._mlflow = _imported("mlflow")
        found = self._mlflow.search_runs(
            filter_string=f"attributes.run_name = '{folder.name}'",
            search_all_experiments=True,
            output_format="list",
        )
        known = {"run_id": found[0].info.run_id} if found else {"run_name": folder.name}
        self._mlflow.start_run(**known)

    def log(self, row: dict[str, Any]) -> None:
        """Log every number of the row at its step."""
        self._mlflow.log_metrics(scalars(row), step=row["step"])

    def close(self) -> None:
        """End the run, which is global in MLflow."""
        self._mlflow.end_run()


class WandbLogger(CurveLogger):
    """Logs rows to the W&B run whose id is that of the run; ``WANDB_PROJECT`` and others apply."""

    def __init__(self, folder: Path) -> None:
        wandb = _imported("wandb")
        self._run = wandb.init(id=folder.name, name=folder.name, dir=str(folder), resume="allow")

    def log(self, row: dict[str, Any]) -> None:
        """Log every number of the row at its step."""
        self._run.log(scalars(row), step=row["step"])

    def close(self) -> None:
        """End the run, which is global in W&B."""
        self._run.finish()


LOGGERS: Mapping[str, type[CurveLogger]] = {
    "none": CurveLogger,
    "tensorboard": TensorBoardLogger,
    "csv": CsvLogger,
    "mlflow": MlflowLogger,
    "wandb": WandbLogger,
}
"""Logger classes by the name of a ``logger`` configuration."""


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row but its step."""
    return {k: v for k, v in row.items() if k != "step" and isinstance(v, int | float)}


def _imported(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigError(f"logger={package}: the package {package} is not installed") from error
