import csv
import sys
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from repro.config import ConfigError
from repro.config.loading import group_choices
from repro.training.logger import LOGGERS

ROWS: list[dict[str, Any]] = [
    {"epoch": 1, "step": 10, "train_loss": 2.0},
    {"epoch": 2, "step": 20, "train_loss": 1.0, "dev_loss": 1.5, "dev_words": ["a"]},
]


def test_every_logger_can_be_chosen():
    assert sorted(LOGGERS) == group_choices("logger")


def test_curves_as_csv_go_on_where_a_run_resumes(tmp_path):
    first = LOGGERS["csv"](tmp_path)
    for row in [*ROWS, {"epoch": 3, "step": 30, "train_loss": 0.5}]:
        first.log(row)
    resumed = LOGGERS["csv"](tmp_path)
    resumed.log({"epoch": 2, "step": 20, "train_loss": 1.25, "dev_loss": 1.5})
    with (tmp_path / "curves.csv").open(newline="") as stream:
        assert list(csv.DictReader(stream)) == [
            {"step": "10", "epoch": "1", "train_loss": "2.0", "dev_loss": ""},
            {"step": "20", "epoch": "2", "train_loss": "1.25", "dev_loss": "1.5"},
        ]


@pytest.mark.parametrize("known", [[], [SimpleNamespace(info=SimpleNamespace(run_id="7"))]])
def test_mlflow_and_wandb_get_numbers_at_their_steps(known, tmp_path, monkeypatch):
    logged: list[tuple[object, ...]] = []

    def log(values: dict[str, float], step: int) -> None:
        logged.append((values, step))

    mlflow = SimpleNamespace(
        search_runs=lambda **_: known,
        start_run=lambda **chosen: logged.append((chosen,)),
        log_metrics=log,
        end_run=lambda: logged.append(("mlflow ended",)),
    )
    finish = partial(logged.append, ("wandb ended",))
    wandb = SimpleNamespace(init=lambda **_: SimpleNamespace(log=log, finish=finish))
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    for name in ("mlflow", "wandb"):
        with closing(LOGGERS[name](tmp_path)) as logger:
            logger.log(ROWS[1])
    numbers = ({"epoch": 2, "train_loss": 1.0, "dev_loss": 1.5}, 20)
    chosen = {"run_id": "7"} if known else {"run_name": tmp_path.name}
    assert logged == [(chosen,), numbers, ("mlflow ended",), numbers, ("wandb ended",)]


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_missing_package_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=f"the package {name} is not installed"):
        LOGGERS[name](tmp_path)
