"""Loggers of training curves, which run in addition to ``history.jsonl``, and their registry."""

import csv
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from repro.atomic import atomic_path, atomic_write_text
from repro.config.errors import ConfigError, install

Row = Mapping[str, Any]


class CurveLogger(NamedTuple):
    """Logger of the rows of the history of one run, to be closed before the next run starts."""

    log: Callable[[Row], None]
    close: Callable[[], None]


def log_nothing(folder: Path) -> CurveLogger:
    """Return a logger that does nothing."""
    return CurveLogger(log=lambda row: None, close=lambda: None)


def log_to_tensorboard(folder: Path) -> CurveLogger:
    """Write every number as a scalar at its step to ``tensorboard`` in the folder of a run."""
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
        # Drop rows of later steps, which an earlier session wrote after its last checkpoint.
        earlier = [one for one in rows if int(one["step"]) < row["step"]]
        rows[:] = [*earlier, {"step": row["step"], **numbers(row)}]
        names = dict.fromkeys(key for one in rows for key in one)
        with atomic_path(path) as new, new.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(rows)

    return CurveLogger(log, close=lambda: None)


def log_to_mlflow(folder: Path) -> CurveLogger:
    """Log to the MLflow run named after the run's folder; ``MLFLOW_TRACKING_URI`` applies."""
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
    """Log to the W&B run whose id is the name of the run's folder; ``WANDB_*`` variables apply."""
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
"""Factories of loggers by the name of a ``logger`` configuration; each takes the folder of a run.

They raise ``ConfigError`` if an optional package is not installed.
"""


def open_logger(name: str, folder: Path) -> CurveLogger:
    """Open a logger that notes the step of the last row it was given in the folder of a run.

    Raises:
        ConfigError: an optional package is not installed.
    """
    logger = LOGGERS[name](folder)
    if name == "none":
        return logger

    def log(row: Row) -> None:
        logger.log(row)
        atomic_write_text(_mark(name, folder), str(row["step"]))

    return CurveLogger(log, logger.close)


def unlogged(name: str, folder: Path, history: Iterable[Row]) -> list[Row]:
    """Return the rows of a history that come after the last one that the logger was given."""
    mark = _mark(name, folder)
    if not mark.exists():
        return [*history]
    last = mark.read_text(encoding="utf-8", errors="replace")
    # Earlier versions left an empty mark once the logger had the whole history.
    return [row for row in history if last.isdecimal() and row["step"] > int(last)]


def _mark(name: str, folder: Path) -> Path:
    return folder / f"logged-{name}"


def numbers(row: Row) -> dict[str, float]:
    """Return the numbers of a row except its step."""
    return {k: v for k, v in row.items() if k != "step" and isinstance(v, int | float)}


def _imported(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        text = f"logger={package}: the package {package} is not installed: {install(package)}"
        raise ConfigError(text) from error
