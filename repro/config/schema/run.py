"""A whole run, and where it is computed."""

import re
from dataclasses import dataclass

from omegaconf import MISSING

from repro.config.errors import ConfigError
from repro.config.schema.checks import require, require_choice
from repro.config.schema.groups import DataConfig, DecodingConfig, ModelConfig, TaskConfig
from repro.config.schema.loss import LossConfig
from repro.config.schema.mapping import MappingConfig
from repro.config.schema.training import TrainingConfig


@dataclass
class ScaleConfig:
    """``demo``, ``small`` or ``full``; only ``full`` numbers are comparable with a paper."""

    name: str = MISSING


@dataclass
class HardwareConfig:
    """Where a run is computed; no part of its identity.

    Attributes:
        device: ``auto`` takes CUDA where there is one.
        threads: CPU threads of one run, at least one; ``null`` takes every core.
        jobs: runs of an experiment that are computed side by side on a CPU; 0: one on each core.
    """

    device: str = "auto"
    threads: int | None = None
    jobs: int = 1

    def __post_init__(self) -> None:
        """Refuse an unknown device, no thread, and a negative number of jobs."""
        require_choice("hardware.device", self.device, ("auto", "cpu", "cuda"))
        ok = self.threads is None or self.threads > 0
        require(ok, "hardware.threads", self.threads, "a number > 0, or null for every core")
        require(self.jobs >= 0, "hardware.jobs", self.jobs, "a number >= 0")


@dataclass
class LoggerConfig:
    """Where training curves go besides ``history.jsonl``: ``none`` or ``tensorboard``."""

    name: str = MISSING


@dataclass
class RunConfig:
    """One run: everything that may change its numbers, and where it is computed and stored."""

    task: TaskConfig = MISSING
    data: DataConfig = MISSING
    mapping: MappingConfig | None = None
    loss: LossConfig = MISSING
    model: ModelConfig = MISSING
    training: TrainingConfig = MISSING
    decoding: DecodingConfig | None = None
    scale: ScaleConfig = MISSING
    hardware: HardwareConfig = MISSING
    logger: LoggerConfig = MISSING
    seed: int = 1
    precision: str = "fp32"
    data_dir: str | None = None
    results_dir: str | None = None
    fail_fast: bool = False

    def __post_init__(self) -> None:
        """Refuse a bad precision, seed or corpus name, and parts that the task does not take."""
        require_choice("precision", self.precision, ("fp32", "bf16"))
        require(0 <= self.seed < 2**63, "seed", self.seed, "a number >= 0, below 2 ** 63")
        plain = re.fullmatch(r"\w[\w.-]*", self.data.corpus) is not None  # it names a folder
        require(plain, "data.corpus", self.data.corpus, "a name of letters, digits, '_', '-', '.'")
        self._check_parts()

    def _check_parts(self) -> None:
        for group in ("data", "mapping", "loss", "model", "decoding"):
            wanted, found = self.task.parts.get(group), getattr(self, group)
            if wanted is None and found is not None:
                raise ConfigError(f"task={self.task.name} takes no {group}; leave {group}= out")
            if wanted is not None and not isinstance(found, wanted):
                name = getattr(found, "name", found)
                raise ConfigError(f"the {group} {name!r} does not fit task={self.task.name}")


SCHEMAS: dict[str, dict[str, type]] = {
    "scale": {"scale": ScaleConfig},
    "hardware": {"hardware": HardwareConfig},
    "logger": {"logger": LoggerConfig},
}
