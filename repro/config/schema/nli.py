"""Natural language inference: attention to the premise, and aligned sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import LATE, late, require, require_choice
from repro.config.schema.groups import DataConfig, ModelConfig, TaskConfig
from repro.config.schema.loss import FenchelYoungLossConfig
from repro.config.schema.mapping import MappingConfig

ALIGNMENTS = ("words", "sequential", "matching")


@dataclass
class PairCorpusConfig(DataConfig):
    """Pairs of premise and hypothesis.

    Attributes:
        source: ``snli`` or ``multinli``.
        tokenization: ``provided`` (leaves of the parses) or ``punctuation``; see
            :class:`repro.data.nli.NliReading`.
        lowercase: whether words are lower-cased.
        expected: ``official`` refuses a corpus of another size than the published one, ``any``
            takes a subset.
        min_count: a rarer word of the training data is unknown.
        glove: file of GloVe's vectors below ``data_dir``, for ``model.vectors=glove``.
        text: files of plain English below ``data_dir``, one sentence a line, whose words are
            counted beside those of the training pairs, for ``model.vectors=text``.
        max_words: training pairs with a longer sentence are left out; without it, a sentence of
            more than 1,000 words is refused.
        premises: training premises of a generated corpus, three pairs each; its other splits have
            no more.
    """

    source: str = MISSING
    tokenization: str = "provided"
    lowercase: bool = False
    expected: str = "official"
    min_count: int = 1
    glove: str | None = None
    premises: int = 3000
    text: list[str] = field(default_factory=list, metadata={LATE: True})
    max_words: int | None = late(None)

    def __post_init__(self) -> None:
        """Refuse unknown choices, and numbers below one."""
        require_choice("data.source", self.source, ("snli", "multinli"))
        require_choice("data.tokenization", self.tokenization, ("provided", "punctuation"))
        require_choice("data.expected", self.expected, ("official", "any"))
        for key in ("min_count", "premises", "max_words"):
            value = getattr(self, key)
            require(value is None or value > 0, f"data.{key}", value, "a number > 0")


@dataclass
class PairModelConfig(ModelConfig):
    """What both models of sentence pairs share.

    Attributes:
        vectors: where word vectors come from: ``glove``, ``text`` or ``random``.
        trainable_vectors: whether training changes them.
        vector_size: numbers of a vector.
        vector_deviation: standard deviation of the numbers of a vector that no file gives.
        hidden_size: of the states, of one direction where there are two.
        dropout: probability.
    """

    vectors: str = MISSING
    trainable_vectors: bool = MISSING
    vector_size: int = MISSING
    vector_deviation: float = MISSING
    hidden_size: int = MISSING
    dropout: float = MISSING

    def __post_init__(self) -> None:
        """Refuse values that no model has."""
        require_choice("model.vectors", self.vectors, ("glove", "text", "random"))
        for key in ("vector_size", "vector_deviation", "hidden_size"):
            require(getattr(self, key) > 0, f"model.{key}", getattr(self, key), "a number > 0")
        require(0 <= self.dropout < 1, "model.dropout", self.dropout, "a number in [0, 1)")


@dataclass
class AttentionClassifierConfig(PairModelConfig):
    """Two GRUs, and attention from the hypothesis to the premise."""


@dataclass
class EsimConfig(PairModelConfig):
    """ESIM.

    Attributes:
        alignment: ``words`` aligns each word by itself, with the mapping of the run;
            ``sequential`` and ``matching`` are SparseMAP over structures and use no mapping.
        max_iter: bound on SparseMAP's iterations for each pair.
    """

    alignment: str = MISSING
    max_iter: int = 1000

    def __post_init__(self) -> None:
        """Refuse an unknown alignment as well, and no iterations."""
        super().__post_init__()
        require_choice("model.alignment", self.alignment, ALIGNMENTS)
        require(self.max_iter > 0, "model.max_iter", self.max_iter, "a number > 0")


@dataclass
class PairTaskConfig(TaskConfig):
    """Natural language inference.

    Attributes:
        evaluation_batch: pairs of one evaluation batch.
        analysed: validation pairs, the first ones, whose weights are stored for the figures.
        shown: hypotheses; the weights of all validation pairs with one of them are stored too.
    """

    evaluation_batch: int = 128
    analysed: int = 200
    shown: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse batches that hold nothing, and a negative number."""
        ok = self.evaluation_batch > 0
        require(ok, "task.evaluation_batch", self.evaluation_batch, "a number > 0")
        require(self.analysed >= 0, "task.analysed", self.analysed, "a number >= 0")


@dataclass
class SnliConfig(PairTaskConfig):
    """Natural language inference with attention to the premise."""

    parts: ClassVar[Mapping[str, type]] = {
        "data": PairCorpusConfig,
        "mapping": MappingConfig,
        "loss": FenchelYoungLossConfig,
        "model": AttentionClassifierConfig,
    }


@dataclass
class NliAlignmentConfig(PairTaskConfig):
    """Natural language inference with latent alignments of the two sentences."""

    parts: ClassVar[Mapping[str, type]] = {**SnliConfig.parts, "model": EsimConfig}


SCHEMAS: dict[str, dict[str, type]] = {
    "task": {"snli": SnliConfig, "nli_alignment": NliAlignmentConfig},
    "data": {"pair_corpus": PairCorpusConfig},
    "model": {"attention_classifier": AttentionClassifierConfig, "esim": EsimConfig},
}
