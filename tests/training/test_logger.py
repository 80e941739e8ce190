import csv
import sys
from collections.abc import Mapping
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from repro.config import ConfigError
from repro.config.loading import group_choices
from repro.training.logger import LOGGERS, LoggedRun, open_logger, unlogged

ROWS: list[dict[str, Any]] = [
    {"epoch": 1, "step": 10, "train_loss": 2.0},
    {"epoch": 2, "step": 20, "train_loss": 1.0, "dev_loss": 1.5, "dev_words": ["a"]},
]


def test_every_logger_can_be_chosen():
    assert sorted(LOGGERS) == group_choices("logger")


def test_curves_as_csv_go_on_where_a_run_resumes(tmp_path):
    first = LOGGERS["csv"](LoggedRun(tmp_path, {}))
    for row in [*ROWS, {"epoch": 3, "step": 30, "train_loss": 0.5}]:
        first.log(row)
    resumed = LOGGERS["csv"](LoggedRun(tmp_path, {}))
    resumed.log({"epoch": 2, "step": 20, "train_loss": 1.25, "dev_loss": 1.5})
    with (tmp_path / "curves.csv").open(newline="") as stream:
        assert list(csv.DictReader(stream)) == [
            {"step": "10", "epoch": "1", "train_loss": "2.0", "dev_loss": ""},
            {"step": "20", "epoch": "2", "train_loss": "1.25", "dev_loss": "1.5"},
        ]


class Server:
    """A tracking server: the metrics by step and the settings of each run, by ID."""

    def __init__(self) -> None:
        self.metrics: dict[str, list[tuple[dict[str, float], int]]] = {}
        self.settings: dict[str, dict[str, Any]] = {}

    def run(self, known: str | None, settings: Mapping[str, Any]) -> str:
        name = known or f"run {len(self.metrics) + 1}"
        self.metrics.setdefault(name, [])
        self.settings[name] = {**self.settings.get(name, {}), **settings}
        return name

    def mlflow(self) -> Any:
        active = list[str]()

        def start_run(run_id: str | None = None, run_name: str | None = None) -> Any:
            active.append(self.run(run_id, {}))
            return SimpleNamespace(info=SimpleNamespace(run_id=active[-1]))

        return SimpleNamespace(
            start_run=start_run,
            log_params=lambda settings: self.run(active[-1], settings),
            log_metrics=lambda values, step: self.metrics[active[-1]].append((values, step)),
            end_run=active.pop,
        )

    def wandb(self) -> Any:
        def init(id: str | None, config: dict[str, Any], **_: Any) -> Any:
            name = self.run(id, config)

            def log(values: dict[str, float], step: int) -> None:
                self.metrics[name].append((values, step))

            return SimpleNamespace(id=name, log=log, finish=lambda: None)

        return SimpleNamespace(init=init)


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_tracking_server_has_settings_and_one_run_for_each_folder(name, tmp_path, monkeypatch):
    server = Server()
    monkeypatch.setitem(sys.modules, name, getattr(server, name)())
    folders = [tmp_path / place / "0123456789ab" for place in ("here", "there")]
    for folder in folders:  # the same run in two folders of results
        folder.mkdir(parents=True)
        for row in ROWS:  # in two sessions
            assert row in unlogged(name, folder, ROWS)
            with closing(open_logger(name, folder, {"mapping.alpha": 1.5})) as logger:
                logger.log(row)
        assert unlogged(name, folder, ROWS) == []
    rows = [({"epoch": 1, "train_loss": 2.0}, 10)]
    rows += [({"epoch": 2, "train_loss": 1.0, "dev_loss": 1.5}, 20)]
    assert server.metrics == {"run 1": rows, "run 2": rows}
    assert server.settings == {one: {"mapping.alpha": 1.5} for one in server.metrics}


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_missing_package_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=f"the package {name} is not installed"):
        LOGGERS[name](LoggedRun(tmp_path, {}))
