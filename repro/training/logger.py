"""Loggers of training curves, which run in addition to ``history.jsonl``, and their registry."""

import csv
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from repro.atomic import atomic_path, atomic_write_text
from repro.config.errors import ConfigError, install

Row = Mapping[str, Any]


class LoggedRun(NamedTuple):
    """Run whose curves are logged."""

    folder: Path
    settings: Mapping[str, Any]  # by dotted key
    tracked_as: str = ""  # ID that a tracking server gave it; blank before the first row


class CurveLogger(NamedTuple):
    """Logger of the rows of the history of one run, to be closed before the next run starts."""

    log: Callable[[Row], None]
    close: Callable[[], None]
    tracked_as: str = ""  # ID of the run on a tracking server


def log_nothing(run: LoggedRun) -> CurveLogger:
    """Return a logger that does nothing."""
    return CurveLogger(log=lambda row: None, close=lambda: None)


def log_to_tensorboard(run: LoggedRun) -> CurveLogger:
    """Write every number as a scalar at its step to ``tensorboard`` in the folder of a run."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(run.folder / "tensorboard"))

    def log(row: Row) -> None:
        for key, value in numbers(row).items():
            writer.add_scalar(key, value, row["step"])
        writer.flush()

    return CurveLogger(log, writer.close)


def log_to_csv(run: LoggedRun) -> CurveLogger:
    """Write ``curves.csv`` in the folder of a run, one line for each row of its history."""
    path, rows = run.folder / "curves.csv", list[dict[str, Any]]()
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


def log_to_mlflow(run: LoggedRun) -> CurveLogger:
    """Log settings and curves to a run of MLflow; ``MLFLOW_*`` variables apply.

    Another folder has another run there, also where the settings are the same.
    """
    mlflow = _imported("mlflow")
    known = {"run_id": run.tracked_as} if run.tracked_as else {"run_name": run.folder.name}
    own = mlflow.start_run(**known)
    if not run.tracked_as:
        mlflow.log_params(run.settings)

    def log(row: Row) -> None:
        mlflow.log_metrics(numbers(row), step=row["step"])

    return CurveLogger(log, mlflow.end_run, own.info.run_id)


def log_to_wandb(run: LoggedRun) -> CurveLogger:
    """Log settings and curves to a run of W&B; ``WANDB_*`` variables apply.

    Another folder has another run there, also where the settings are the same.
    """
    wandb = _imported("wandb")
    own = wandb.init(
        id=run.tracked_as or None,
        resume="allow" if run.tracked_as else None,
        name=run.folder.name,
        dir=str(run.folder),
        config=dict(run.settings),
    )
    return CurveLogger(lambda row: own.log(numbers(row), step=row["step"]), own.finish, own.id)


LOGGERS: Mapping[str, Callable[[LoggedRun], CurveLogger]] = {
    "none": log_nothing,
    "tensorboard": log_to_tensorboard,
    "csv": log_to_csv,
    "mlflow": log_to_mlflow,
    "wandb": log_to_wandb,
}
"""Factories of loggers by the name of a ``logger`` configuration.

They raise ``ConfigError`` if an optional package is not installed.
"""


def open_logger(name: str, folder: Path, settings: Mapping[str, Any]) -> CurveLogger:
    """Open a logger that notes in a run's folder which row it was given last, and its own ID.

    ``settings`` are those of the run, by dotted key.

    Raises:
        ConfigError: an optional package is not installed.
    """
    logger = LOGGERS[name](LoggedRun(folder, settings, _read_mark(name, folder)[1]))
    if name == "none":
        return logger

    def log(row: Row) -> None:
        logger.log(row)
        mark = f"{row['step']} {logger.tracked_as}".strip()
        atomic_write_text(_mark(name, folder), mark)

    return logger._replace(log=log)


def unlogged(name: str, folder: Path, history: Iterable[Row]) -> list[Row]:
    """Return the rows of a history that come after the last one that the logger was given."""
    if not _mark(name, folder).exists():
        return [*history]
    last, _ = _read_mark(name, folder)
    # Earlier versions left an empty mark once the logger had the whole history.
    return [row for row in history if last.isdecimal() and row["step"] > int(last)]


def _read_mark(name: str, folder: Path) -> tuple[str, str]:
    """Return the step of the last row that a logger was given, and its ID of the run."""
    mark = _mark(name, folder)
    text = mark.read_text(encoding="utf-8", errors="replace") if mark.exists() else ""
    step, _, tracked_as = text.strip().partition(" ")
    return step, tracked_as


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
