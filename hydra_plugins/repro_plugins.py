"""Sweepers and launchers that ``conf/hydra`` names, as plugins of Hydra.

Hydra takes plugins from the namespace package ``hydra_plugins`` only, and imports them whenever it
composes a configuration. Their code is in :mod:`repro.runs`, imported when they are used.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from repro.config.errors import ConfigError, require_extra
from repro.config.loading import load_yaml
from repro.config.paths import conf_dir
from repro.errors import meant

_KINDS = {bool: "true or false", dict: "a mapping", list: "a list"}
"""Types of settings, and what a message calls them; others are checked where they are used."""


def _checked(path: str, given: dict[str, Any], wanted: Mapping[str, int | type]) -> dict[str, Any]:
    """Return settings as plain values, which have the keys and types of a file of ``conf/hydra``.

    ``wanted`` are the smallest value of an integer, and the type of a setting whose default is
    null, which may be null.

    Raises:
        ConfigError: a key is unknown, or a value has another type.
    """
    group = f"hydra.{path.partition('/')[0]}"
    known = load_yaml(conf_dir() / "hydra" / f"{path}.yaml")
    del known["_target_"]
    plain: Any = OmegaConf.to_container(OmegaConf.create(given), resolve=True)
    for key, value in plain.items():
        if key not in known:
            hint = f"{meant(key, known)}; valid keys here: {', '.join(known)}"
            raise ConfigError(f"{group}.{key}: unknown key {key!r}{hint}")
        kind = wanted.get(key, type(known[key]))
        if isinstance(kind, int):
            holds, expected = type(value) is int and value >= kind, f"an integer >= {kind}"
        else:
            holds, expected = kind not in _KINDS or type(value) is kind, _KINDS.get(kind, "")
        null = ", or null" if known[key] is None else ""
        if not holds and not (null and value is None):
            raise ConfigError(f"{group}.{key} is {value!r}; expected {expected}{null}")
    return plain


class LocalLauncher(Launcher):
    """Launcher of runs on this machine, in processes that survive each other's crashes."""

    backend: ClassVar[str] = "local"
    wanted: ClassVar[dict[str, int | type]] = {"parallel_runs": 0}
    """Smallest values of settings that are integers."""

    def __init__(self, **settings: Any) -> None:
        self.settings = _checked(f"launcher/{self.backend}", settings, self.wanted)

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Store the configuration of the sweep; only listing its runs needs no extra."""
        if not config.hydra.sweeper.get("dry_run"):
            require_extra(f"hydra/launcher={self.backend}")
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
    wanted: ClassVar = {
        "time": 1, "cpus_per_job": 1, "memory_gb": 1, "gpus_per_job": 0, "runs_per_job": 1,
        "array_parallelism": 1, "requeues": 0, "warning_seconds": 0,
    }  # fmt: skip


class GridSweeper(Sweeper):
    """Sweeper over every combination of the values of ``repro run -m``.

    Args:
        settings: ``params``, further overrides by key, as for Hydra's own sweeper, and ``dry_run``,
            whether to only list the runs.
    """

    def __init__(self, **settings: Any) -> None:
        plain = _checked("sweeper/grid", settings, {"params": dict})
        self.params: dict[str, Any] = plain.get("params") or {}
        self.dry_run: bool = plain.get("dry_run", False)

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
