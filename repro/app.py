"""The Hydra application behind ``repro run``: single runs and multirun sweeps."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from repro.atomic import scratch_folder
from repro.config.compose import (
    CONFIG_ERRORS,
    compose_run,
    explain,
    register_schemas,
    to_run_config,
)
from repro.config.errors import ConfigError
from repro.config.paths import conf_dir
from repro.config.schema import RunConfig
from repro.config.sweeps import combinations, expand_globs

if TYPE_CHECKING:  # what runs is imported when something runs: help and refusals are quick
    from repro.runs.execute import Outcome

_LEDGER = "REPRO_SWEEP_LEDGER"
_VIEWS = ("help", "hydra_help", "cfg", "info", "shell_completion")
"""Options of Hydra that print something and start nothing."""
_REFUSED = ("config_name", "config_path", "experimental_rerun")
"""Options of Hydra that replace the configuration; the last one would unpickle a file."""


def main(arguments: Sequence[str]) -> int:
    """Check every configuration, then run Hydra.

    Args:
        arguments: Hydra's, for example ``["-m", "mapping.alpha=1,1.5,2"]``.

    Returns:
        The exit status: 1 if a run failed.

    Raises:
        ConfigError: a setting is refused, or CUDA is asked for and not there; nothing has been
            started.
        DataError: a corpus is missing or malformed; nothing has been started.
        ResultsError: what a finished run has recorded is damaged.
    """
    parsed = get_args_parser().parse_args(list(arguments))
    for option in _REFUSED:
        if getattr(parsed, option) is not None:
            raise ConfigError(f"--{option.replace('_', '-')} is not supported; use GROUP=CHOICE")
    if not any(getattr(parsed, view) for view in _VIEWS):
        runs = combinations(expand_globs(parsed.overrides), parsed.config_dir)
        _check([compose_run(run) for run in runs])
        sys.argv = [sys.argv[0], *expand_globs(arguments)]
    register_schemas()
    with scratch_folder() as folder:
        # A file, since Hydra's launchers may run the jobs in other processes.
        os.environ[_LEDGER] = str(folder / "outcomes.jsonl")
        os.environ["REPRO_HYDRA_DIR"] = str(folder)
        os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come here, not as Hydra's text and status 1
        try:
            _application()
        except CONFIG_ERRORS as error:
            raise ConfigError(explain(error)) from error
        return 1 if _report_failures() else 0


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")
def _application(cfg: DictConfig) -> None:
    from repro.runs.execute import execute
    from repro.runs.locking import announce
    from repro.runs.progress import RunProgress

    config = to_run_config(cfg)
    if config.fail_fast and any(outcome.status == "failed" for outcome in _read_ledger()):
        return
    overrides = list(HydraConfig.get().overrides.task)
    with RunProgress(1, config.task.name) as progress:
        outcome = execute(config, overrides, progress.step, announce)
        progress.finished(outcome)
        for metric in _headline(outcome):
            progress.console.print(f"        {metric}", highlight=False)
    _append_to_ledger(outcome)


def _check(configs: Sequence[RunConfig]) -> None:
    """Refuse the whole sweep where a device is missing, or a corpus is missing or malformed."""
    from repro.runs.environment import choose_device
    from repro.runs.execute import check, locate

    for config in configs:
        choose_device(config.hardware)
    for run in [locate(config) for config in configs]:
        check(run)


def _report_failures() -> int:
    outcomes = _read_ledger()
    if not outcomes:
        return 0
    from repro.runs.sweep import print_failures

    return print_failures(outcomes)


def _headline(outcome: "Outcome") -> list[str]:
    per_part = 2  # test/accuracy/english has more slashes than test/accuracy
    names = [name for name in outcome.scores if name.count("/") < per_part]
    return [f"{name:28} {outcome.scores[name]:10.4f}" for name in names]


def _append_to_ledger(outcome: "Outcome") -> None:
    row = {**vars(outcome), "folder": str(outcome.folder), "scores": {}}
    with Path(os.environ[_LEDGER]).open("a") as stream:
        stream.write(json.dumps(row) + "\n")


def _read_ledger() -> "list[Outcome]":
    path = Path(os.environ[_LEDGER])
    if not path.exists():
        return []
    from repro.runs.execute import Outcome

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Outcome(**{**row, "folder": Path(row["folder"])}) for row in rows]
