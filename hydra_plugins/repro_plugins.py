"""Sweepers and launchers that ``conf/hydra`` names, as plugins of Hydra.

Hydra takes plugins from the namespace package ``hydra_plugins`` only, and imports them whenever it
composes a configuration. Their code is in :mod:`repro.runs`, imported when they are used.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from repro.config.errors import ConfigError, require_extra


class LocalLauncher(Launcher):
    """Launcher of runs on this machine, in processes that survive each other's crashes."""

    backend: ClassVar[str] = "local"
    least: ClassVar[dict[str, int]] = {"parallel_runs": 0}
    """Smallest values of settings that are integers."""

    def __init__(self, **settings: Any) -> None:
        require_extra(f"hydra/launcher={self.backend}")
        plain: Any = OmegaConf.to_container(OmegaConf.create(settings))
        self.settings: dict[str, Any] = plain
        for key, least in self.least.items():
            value = self.settings[key]
            null = ", or null" if key == "parallel_runs" else ""
            if not (type(value) is int and value >= least) and not (null and value is None):
                expected = f"an integer >= {least}{null}"
                raise ConfigError(f"hydra.launcher.{key} is {value!r}; expected {expected}")

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Store the configuration of the sweep."""
        self.config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Execute every run; the return value of a failed run raises when it is read."""
        from repro.runs.launch import launch

        return launch(self.backend, self.settings, self.config, job_overrides, initial_job_idx)


class SlurmLauncher(LocalLauncher):
    """Launcher of runs as arrays of Slurm jobs, submitted by submitit."""

    backend = "slurm"
    least: ClassVar = {"cpus_per_job": 1, "gpus_per_job": 0, "runs_per_job": 1, "requeues": 0}


class GridSweeper(Sweeper):
    """Sweeper over every combination of the values of ``repro run -m``.

    Args:
        params: further overrides by key, as for Hydra's own sweeper.
        dry_run: only list the runs.
    """

    def __init__(self, params: DictConfig | None = None, dry_run: bool = False) -> None:
        plain: Any = {} if params is None else OmegaConf.to_container(params, resolve=True)
        self.params: dict[str, Any] = plain
        self.dry_run = dry_run

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Instantiate the launcher."""
        self.hydra_context, self.master = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run every combination; return the outcomes."""
        from repro.config.overrides import as_override
        from repro.runs.launch import sweep_grid

        assert self.hydra_context is not None
        assert self.launcher is not None
        overrides = [*(as_override(key, value) for key, value in self.params.items()), *arguments]
        loader = self.hydra_context.config_loader
        return sweep_grid(overrides, self.launcher, self.master, loader, self.dry_run)
