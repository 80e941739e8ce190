"""Typed schemas of every configuration group; the YAML files under ``conf/`` only fill them."""

from dataclasses import dataclass, field
from math import inf

from omegaconf import MISSING

from repro.config.errors import ConfigError


def _require(condition: bool, key: str, value: object, expected: str) -> None:
    if not condition:
        raise ConfigError(f"{key} is {value!r}; expected {expected}")


def _choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    _require(value in choices, key, value, "one of " + ", ".join(choices))


@dataclass
class MappingConfig:
    """A mapping from scores to probabilities; ``name`` is its key in ``MAPPINGS``."""

    name: str = MISSING


@dataclass
class GammaConfig(MappingConfig):
    """Softmax and sparsemax: ``gamma`` is the strength of the regularisation."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a temperature that is not positive."""
        _require(self.gamma > 0, "mapping.gamma", self.gamma, "a number > 0")


@dataclass
class EntmaxConfig(MappingConfig):
    """α-entmax; ``alpha`` 1 is softmax, 2 is sparsemax."""

    alpha: float = MISSING

    def __post_init__(self) -> None:
        """Refuse α < 1, for which the entropy is not strongly concave on the simplex."""
        _require(self.alpha >= 1, "mapping.alpha", self.alpha, "a number >= 1")


@dataclass
class LearnedAlphaConfig(MappingConfig):
    """α-entmax with a learned α = 1 + sigmoid(a) that starts at ``alpha``."""

    alpha: float = 1.5

    def __post_init__(self) -> None:
        """Refuse a start outside the range of the parametrisation."""
        _require(1 < self.alpha < 2, "mapping.alpha", self.alpha, "a number between 1 and 2")


@dataclass
class FusedmaxConfig(GammaConfig):
    """Fusedmax; ``lam`` is the weight of the total variation."""

    lam: float = 0.1

    def __post_init__(self) -> None:
        """Refuse a penalty that is not convex."""
        super().__post_init__()
        _require(0 <= self.lam < inf, "mapping.lam", self.lam, "a finite number >= 0")


@dataclass
class OscarmaxConfig(GammaConfig):
    """Oscarmax; ``lam`` is the weight of the OSCAR penalty, ``variant`` exact or as published."""

    lam: float = 0.01
    variant: str = "exact"

    def __post_init__(self) -> None:
        """Refuse a penalty that is not convex, and an unknown variant."""
        super().__post_init__()
        _require(0 <= self.lam < inf, "mapping.lam", self.lam, "a finite number >= 0")
        _choice("mapping.variant", self.variant, ("exact", "paper"))


@dataclass
class SqPnormMaxConfig(GammaConfig):
    """Sq-pnorm-max; ``p`` is the order of the norm, 2 is sparsemax."""

    p: float = 1.5

    def __post_init__(self) -> None:
        """Refuse an order outside of (1, 2]."""
        super().__post_init__()
        _require(1 < self.p <= 2, "mapping.p", self.p, "a number in (1, 2]")


@dataclass
class LossConfig:
    """A Fenchel–Young loss; ``name`` is the key of the mapping that generates it."""

    name: str = MISSING
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a smoothing that is not a probability."""
        ok = 0 <= self.label_smoothing < 1
        _require(ok, "loss.label_smoothing", self.label_smoothing, "a number in [0, 1)")


@dataclass
class EntmaxLossConfig(LossConfig):
    """The α-entmax loss."""

    alpha: float = MISSING

    def __post_init__(self) -> None:
        """Refuse α < 1."""
        super().__post_init__()
        _require(self.alpha >= 1, "loss.alpha", self.alpha, "a number >= 1")


@dataclass
class TaskConfig:
    """A task; ``name`` is its key in ``repro.tasks``."""

    name: str = MISSING


@dataclass
class ScheduleConfig:
    """How long a data setting trains: epochs, and epochs between validations."""

    max_epochs: int = MISSING
    validate_every: int = MISSING


@dataclass
class MorphologyConfig(TaskConfig):
    """Morphological inflection (CoNLL–SIGMORPHON 2018, task 1).

    Attributes:
        setting: training set size: ``medium`` or ``high``.
        languages: to train and test on; ``null`` takes every one that has the setting.
        schedule: training length for each setting.
        analysed: validation examples of each language whose attention and complete set of
            hypotheses are stored for the figures.
    """

    setting: str = MISSING
    languages: list[str] | None = None
    schedule: dict[str, ScheduleConfig] = field(default_factory=dict)
    analysed: int = 40

    def __post_init__(self) -> None:
        """Refuse an unknown setting."""
        _choice("task.setting", self.setting, ("medium", "high"))


@dataclass
class DataConfig:
    """Which corpus is read: the original one, or a generated one in the same format."""

    corpus: str = MISSING
    generated: bool = False
    seed: int = 2018


@dataclass
class ModelConfig:
    """An LSTM sequence-to-sequence model with attention and input feeding."""

    name: str = MISSING
    embedding_size: int = MISSING
    hidden_size: int = MISSING
    layers: int = MISSING
    dropout: float = MISSING

    def __post_init__(self) -> None:
        """Refuse sizes that no model has."""
        for key in ("embedding_size", "hidden_size", "layers"):
            _require(getattr(self, key) > 0, f"model.{key}", getattr(self, key), "a number > 0")
        _require(self.hidden_size % 2 == 0, "model.hidden_size", self.hidden_size, "an even number")
        _require(0 <= self.dropout < 1, "model.dropout", self.dropout, "a number in [0, 1)")


@dataclass
class TrainingConfig:
    """Optimiser, schedule and stopping.

    Attributes:
        learning_rate: base learning rate of Adam.
        decay: factor on the learning rate whenever the validation loss increases.
        min_learning_rate: training stops once the learning rate falls below it.
        max_grad_norm: gradients are clipped to this norm.
        select: validation metric whose best value chooses the model.
        checkpoint_minutes: a checkpoint is written after every epoch and at least this often.
        max_steps: stop after this many updates; ``null`` for no limit.
    """

    learning_rate: float = MISSING
    decay: float = MISSING
    min_learning_rate: float = MISSING
    max_grad_norm: float = MISSING
    batch_size: int = MISSING
    max_epochs: int = MISSING
    validate_every: int = MISSING
    select: str = MISSING
    checkpoint_minutes: float = 10.0
    max_steps: int | None = None

    def __post_init__(self) -> None:
        """Refuse values with which no training runs."""
        for key in ("learning_rate", "max_grad_norm", "batch_size", "max_epochs", "validate_every"):
            _require(getattr(self, key) > 0, f"training.{key}", getattr(self, key), "a number > 0")
        _require(0 < self.decay <= 1, "training.decay", self.decay, "a number in (0, 1]")


@dataclass
class DecodingConfig:
    """Beam search and the enumeration of complete sets of hypotheses."""

    beam_size: int = MISSING
    max_length: int = MISSING
    batch_size: int = MISSING
    max_hypotheses: int = MISSING


@dataclass
class ScaleConfig:
    """``demo``, ``small`` or ``full``; only ``full`` numbers are comparable with a paper."""

    name: str = MISSING


@dataclass
class HardwareConfig:
    """Where a run is computed; no part of its identity.

    Attributes:
        device: ``auto`` takes CUDA where there is one.
        threads: CPU threads of one run; ``null`` takes every core.
        jobs: runs of an experiment that are computed side by side on a CPU; 0: one on each core.
    """

    device: str = "auto"
    threads: int | None = None
    jobs: int = 1

    def __post_init__(self) -> None:
        """Refuse an unknown device."""
        _choice("hardware.device", self.device, ("auto", "cpu", "cuda"))


@dataclass
class LoggerConfig:
    """Where training curves go besides ``history.jsonl``: ``none`` or ``tensorboard``."""

    name: str = MISSING


@dataclass
class RunConfig:
    """One run: everything that may change its numbers, and where it is computed and stored."""

    task: TaskConfig = MISSING
    data: DataConfig = MISSING
    mapping: MappingConfig = MISSING
    loss: LossConfig = MISSING
    model: ModelConfig = MISSING
    training: TrainingConfig = MISSING
    decoding: DecodingConfig = MISSING
    scale: ScaleConfig = MISSING
    hardware: HardwareConfig = MISSING
    logger: LoggerConfig = MISSING
    seed: int = 1
    precision: str = "fp32"
    data_dir: str | None = None
    results_dir: str | None = None
    fail_fast: bool = False

    def __post_init__(self) -> None:
        """Refuse an unknown precision or a negative seed."""
        _choice("precision", self.precision, ("fp32", "bf16"))
        _require(self.seed >= 0, "seed", self.seed, "a number >= 0")
