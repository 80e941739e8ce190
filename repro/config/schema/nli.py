"""Natural language inference: attention to the premise, and aligned sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import LATE, choice, number
from repro.config.schema.groups import DataConfig, ModelConfig, TaskConfig
from repro.config.schema.loss import FenchelYoungLossConfig
from repro.config.schema.mapping import UnboundedConfig


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

    source: str = choice(("snli", "multinli"))
    tokenization: str = choice(("provided", "punctuation"), "provided")
    lowercase: bool = False
    expected: str = choice(("official", "any"), "official")
    min_count: int = number("(0, inf)", 1)
    glove: str | None = None
    premises: int = number("(0, inf)", 3000)
    text: list[str] = field(default_factory=list, metadata={LATE: True})
    max_words: int | None = number("(0, inf)", None, late=True)


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

    vectors: str = choice(("glove", "text", "random"))
    trainable_vectors: bool = MISSING
    vector_size: int = number("(0, inf)")
    vector_deviation: float = number("(0, inf)")
    hidden_size: int = number("(0, inf)")
    dropout: float = number("[0, 1)")


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

    alignment: str = choice(("words", "sequential", "matching"))
    max_iter: int = number("(0, inf)", 1000)


@dataclass
class PairTaskConfig(TaskConfig):
    """Natural language inference.

    Attributes:
        evaluation_batch: pairs of one evaluation batch.
        analysed: validation pairs, the first ones, whose weights are stored for the figures.
        shown: hypotheses; the weights of all validation pairs with one of them are stored too.
    """

    selectors: ClassVar[tuple[str, ...]] = ("label_accuracy",)

    evaluation_batch: int = number("(0, inf)", 128)
    analysed: int = number("[0, inf)", 200)
    shown: list[str] = field(default_factory=list)


@dataclass
class SnliConfig(PairTaskConfig):
    """Natural language inference with attention to the premise."""

    parts: ClassVar[Mapping[str, type]] = {
        "data": PairCorpusConfig,
        "mapping": UnboundedConfig,
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
