"""Schemas of a whole run, its scale, hardware and logger."""

from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, get_type_hints

from omegaconf import MISSING

from repro.config.errors import ConfigError, UnfitChoiceError
from repro.config.schema.checks import check_fields, choice, folder, identifier, number
from repro.config.schema.groups import (
    DataConfig,
    DecodingConfig,
    ModelConfig,
    StructureConfig,
    TaskConfig,
)
from repro.config.schema.loss import LossConfig
from repro.config.schema.mapping import MappingConfig
from repro.config.schema.training import TrainingConfig


@dataclass
class ScaleConfig:
    """``demo``, ``small``, ``subset`` or ``full``; only ``full`` is comparable with a paper."""

    name: str = identifier()


@dataclass
class HardwareConfig:
    """Device and parallelism of a run, which are not part of its identity."""

    device: str = choice(("auto", "cpu", "cuda"), "auto")  # `auto` takes CUDA if it is available
    # CPU threads of one run, at least one; `null` takes every core.
    threads: int | None = number("[1, 1024]", None)
    # Number of runs executed in parallel, on a GPU through MPS; 0 for one per core, at most 12 on a
    # GPU.
    parallel_runs: int = number("[0, 1024]", 1)


@dataclass
class LoggerConfig:
    """Destination of training curves besides ``history.jsonl``."""

    name: str = choice(("none", "tensorboard", "csv", "mlflow", "wandb"))


def fits(group: str, schema: type, kind: Any) -> bool:
    """Return whether a task whose group is of a kind takes choices with this schema."""
    # Of data, a subclass has further settings, which the task does not read.
    return schema is kind if group == "data" else issubclass(schema, kind)


@dataclass
class RunConfig:
    """One run: everything that may change its numbers, and where it is computed and stored.

    A task has its own subclass, which narrows the types of the groups that it takes; a group whose
    type it leaves optional must be left out. The subclass is listed in ``RUNS`` of its module.
    ``name`` is that of the sweep to which the run belongs.
    """

    # Prefixes of the settings that decide which corpus the task reads; `identify` reads no others.
    corpus_settings: ClassVar[tuple[str, ...]] = ("data.",)

    task: TaskConfig = MISSING
    data: DataConfig = MISSING
    mapping: MappingConfig | None = None
    structure: StructureConfig | None = None
    loss: LossConfig = MISSING
    model: ModelConfig = MISSING
    training: TrainingConfig = MISSING
    decoding: DecodingConfig | None = None
    scale: ScaleConfig = MISSING
    hardware: HardwareConfig = MISSING
    logger: LoggerConfig = MISSING
    seed: int = number("[0, 9223372036854775808)", 1)
    precision: str = choice(("fp32", "tf32", "bf16"), "fp32")
    data_dir: str | None = folder()
    results_dir: str | None = folder()
    fail_fast: bool = False
    name: str | None = identifier(None)

    def __post_init__(self) -> None:
        """Refuse values out of range, and groups or a monitor that the task does not take."""
        if type(self) is not RunConfig:
            # The subclass for the task declares the type of each group.
            wanted, base = get_type_hints(type(self)), get_type_hints(RunConfig)
            task = f"task={self.task.name}"
            for group in ("data", "mapping", "structure", "loss", "model", "decoding"):
                found, kind = getattr(self, group), wanted[group]
                unused = isinstance(kind, UnionType) and kind == base[group]
                if unused and found is not None:
                    raise ConfigError(f"{task} takes no {group}; leave {group}= out")
                if not unused and not fits(group, type(found), kind):
                    name = getattr(found, "name", None)
                    of = f"the {group} {name!r}" if name else f"the {group} of another task"
                    of = f"{group}=null" if found is None else of
                    raise UnfitChoiceError(f"{of} does not fit {task}", group, kind)
        check_fields(self)
        selectors = self.task.selectors
        if selectors and self.training.monitor not in selectors:
            expected = "one of " + ", ".join(selectors)
            raise ConfigError(f"training.monitor is {self.training.monitor!r}; expected {expected}")

    @property
    def data_path(self) -> Path:
        """Folder of the published corpora."""
        assert self.data_dir is not None  # set when the configuration is resolved
        return Path(self.data_dir)

    @property
    def results_path(self) -> Path:
        """Folder of the results of every scale."""
        assert self.results_dir is not None
        return Path(self.results_dir)

    @property
    def corpora_path(self) -> Path:
        """Folder of generated and prepared corpora, below the results."""
        return self.results_path / self.scale.name / "corpora"

    @property
    def corpus_path(self) -> Path:
        """Folder that holds the corpus of this run, published or generated from a seed."""
        if not self.data.generated:
            return self.data_path
        return self.corpora_path / self.data.corpus / str(self.data.seed)


SCHEMAS: dict[str, dict[str, type]] = {
    "scale": {"scale": ScaleConfig},
    "hardware": {"hardware": HardwareConfig},
    "logger": {"logger": LoggerConfig},
}
