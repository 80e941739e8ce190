"""A whole run, and where it is computed."""

from dataclasses import dataclass

from omegaconf import MISSING

from repro.config.errors import ConfigError
from repro.config.schema.checks import check_fields, choice, folder, identifier, number
from repro.config.schema.groups import DataConfig, DecodingConfig, ModelConfig, TaskConfig
from repro.config.schema.loss import LossConfig
from repro.config.schema.mapping import MappingConfig
from repro.config.schema.training import TrainingConfig


@dataclass
class ScaleConfig:
    """``demo``, ``small`` or ``full``; only ``full`` numbers are comparable with a paper."""

    name: str = identifier()


@dataclass
class HardwareConfig:
    """Where a run is computed; no part of its identity.

    Attributes:
        device: ``auto`` takes CUDA where there is one.
        threads: CPU threads of one run, at least one; ``null`` takes every core.
        jobs: runs of an experiment that are computed side by side on a CPU; 0: one on each core.
        compile: whether ``torch.compile`` compiles the decoder's step; sequence tasks only.
    """

    device: str = choice(("auto", "cpu", "cuda"), "auto")
    threads: int | None = number("[1, 1024]", None)
    jobs: int = number("[0, 1024]", 1)
    compile: bool = False


@dataclass
class LoggerConfig:
    """Where training curves go besides ``history.jsonl``: ``none`` or ``tensorboard``."""

    name: str = choice(("none", "tensorboard"))


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
    seed: int = number("[0, 9223372036854775808)", 1)
    precision: str = choice(("fp32", "bf16"), "fp32")
    data_dir: str | None = folder()
    results_dir: str | None = folder()
    fail_fast: bool = False

    def __post_init__(self) -> None:
        """Refuse values out of range, and parts or a selector that the task does not take."""
        self._check_parts()
        check_fields(self)
        selectors = self.task.selectors
        if selectors and self.training.select not in selectors:
            expected = "one of " + ", ".join(selectors)
            raise ConfigError(f"training.select is {self.training.select!r}; expected {expected}")

    def _check_parts(self) -> None:
        if self.hardware.compile and "decoding" not in self.task.parts:
            raise ConfigError(
                f"hardware.compile=true: task={self.task.name} has no decoder to compile"
            )
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
