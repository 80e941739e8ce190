"""Training curves besides ``history.jsonl``: a registry of loggers."""

import csv
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from repro.atomic import atomic_path
from repro.config.errors import ConfigError

Row = Mapping[str, Any]


class CurveLogger(NamedTuple):
    """Takes the rows of the training history until it is closed, before another run is trained."""

    log: Callable[[Row], None]
    close: Callable[[], None]


def log_nothing(folder: Path) -> CurveLogger:
    """Keep nothing."""
    return CurveLogger(log=lambda row: None, close=lambda: None)


def log_to_tensorboard(folder: Path) -> CurveLogger:
    """Write every number as a scalar, at its step, into ``tensorboard`` in the folder of a run."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / "tensorboard"))

    def log(row: Row) -> None:
        for key, value in numbers(row).items():
            writer.add_scalar(key, value, row["step"])
        writer.flush()

    return CurveLogger(log, writer.close)


def log_to_csv(folder: Path) -> CurveLogger:
    """Write ``curves.csv`` in the folder of a run, one line for each row of its history."""
    path, rows = folder / "curves.csv", list[dict[str, Any]]()
    if path.exists():
        with path.open(newline="", encoding="utf-8") as stream:
            rows += csv.DictReader(stream)

    def log(row: Row) -> None:
        # Rows of later steps were written by an earlier session, after its last checkpoint.
        earlier = [one for one in rows if int(one["step"]) < row["step"]]
        rows[:] = [*earlier, {"step": row["step"], **numbers(row)}]
        names = dict.fromkeys(key for one in rows for key in one)
        with atomic_path(path) as new, new.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(rows)

    return CurveLogger(log, close=lambda: None)


def log_to_mlflow(folder: Path) -> CurveLogger:
    """Log to the MLflow run of the run's name; ``MLFLOW_TRACKING_URI`` applies."""
    mlflow = _imported("mlflow")
    found = mlflow.search_runs(
        filter_string=f"attributes.run_name = '{folder.name}'",
        search_all_experiments=True,
        output_format="list",
    )
    known = {"run_id": found[0].info.run_id} if found else {"run_name": folder.name}
    mlflow.start_run(**known)
    return CurveLogger(
        lambda row: mlflow.log_metrics(numbers(row), step=row["step"]), mlflow.end_run
    )


def log_to_wandb(folder: Path) -> CurveLogger:
    """Log to the W&B run whose id is that of the run; ``WANDB_PROJECT`` and others apply."""
    wandb = _imported("wandb")
    run = wandb.init(id=folder.name, name=folder.name, dir=str(folder), resume="allow")
    return CurveLogger(lambda row: run.log(numbers(row), step=row["step"]), run.finish)


LOGGERS: Mapping[str, Callable[[Path], CurveLogger]] = {
    "none": log_nothing,
    "tensorboard": log_to_tensorboard,
    "csv": log_to_csv,
    "mlflow": log_to_mlflow,
    "wandb": log_to_wandb,
}
"""Makers of loggers by the name of a ``logger`` configuration, given the folder of a run.

They raise ``ConfigError`` where their package is not installed.
"""


def numbers(row: Row) -> dict[str, float]:
    """The numbers of a row but its step."""
    return {k: v for k, v in row.items() if k != "step" and isinstance(v, int | float)}


def _imported(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigError(f"logger={package}: the package {package} is not installed") from error
