"""Natural language inference: attention to the premise, and aligned sentences."""

from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from repro.config.errors import ConfigError
from repro.config.schema.checks import choice, number
from repro.config.schema.groups import DataConfig, ModelConfig, PairStructureConfig, TaskConfig
from repro.config.schema.loss import FenchelYoungLossConfig
from repro.config.schema.mapping import UnboundedConfig
from repro.config.schema.run import RunConfig


@dataclass(unsafe_hash=True)
class NliReading:
    """Settings for reading sentence pairs."""

    # `provided` takes the leaves of the binary parse, or splits a line without a parse at spaces;
    # `punctuation` splits the sentence by repro.data.nli.punctuation_words.
    tokenization: str = choice(("provided", "punctuation"), "provided")
    lowercase: bool = False  # whether words are lower-cased
    # Refuse a corpus whose number of labeled pairs is not the published one.
    check_size: bool = True
    # Training pairs with a longer sentence are left out; without it, a sentence of more than 1,000
    # words is refused.
    max_words: int | None = number("(0, inf)", None)


@dataclass
class PairCorpusConfig(NliReading, DataConfig):
    """Pairs of premise and hypothesis."""

    # `snli`, `multinli`, or `files`: those of `data.folder`, which implies it.
    source: str = choice(("snli", "multinli", "files"))
    # Rarer words of the training data are treated as unknown.
    min_count: int = number("(0, inf)", 1)
    glove: str | None = None  # file of GloVe's vectors below `data_dir`, for `model.vectors=glove`
    # Number of training premises of a generated corpus, three pairs each; its other splits have at
    # most as many.
    train_premises: int = number("(0, inf)", 3000)
    # Files of plain English below `data_dir`, one sentence per line, whose words are counted in
    # addition to those of the training pairs, for `model.vectors=text`.
    text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read the files of the folder, if there is one."""
        super().__post_init__()
        if self.folder is not None:
            self.source = "files"


@dataclass
class WordVectorConfig:
    """Initial word vectors of a model."""

    # `glove` reads a file; `text` decomposes co-occurrences in plain text, see
    # repro.data.cooccurrence; `random` draws every vector.
    vectors: str = choice(("glove", "text", "random"))
    trainable_vectors: bool = MISSING  # whether training changes them
    vector_size: int = number("(0, inf)")  # dimension of a vector
    # Standard deviation of the entries of a randomly drawn vector.
    embedding_std: float = number("(0, inf)")


@dataclass
class PairModelConfig(WordVectorConfig, ModelConfig):
    """A model of sentence pairs."""

    hidden_size: int = number("(0, inf)")  # size of the states, per direction if there are two
    dropout: float = number("[0, 1)")  # dropout probability


@dataclass
class AttentionClassifierConfig(PairModelConfig):
    """Model of two GRUs with attention from the hypothesis to the premise."""


@dataclass
class EsimConfig(PairModelConfig):
    """ESIM, with a choice of how it aligns the words of the two sentences."""

    # `words` aligns each word on its own, with the mapping of the run; `sequential` and `matching`
    # are SparseMAP over structures and use no mapping. It is left at `words`, and unused, if the
    # run has a `structure`.
    alignment: str = choice(("words", "sequential", "matching"))
    max_iter: int = number("(0, inf)", 1000)  # most iterations of SparseMAP per pair


@dataclass
class PairTaskConfig(TaskConfig):
    """Settings of the two tasks on pairs of sentences: evaluation and stored examples."""

    selectors: ClassVar[tuple[str, ...]] = ("label_accuracy",)
    unread: ClassVar[tuple[str, ...]] = ("shown",)

    evaluation_batch: int = number("(0, inf)", 128)  # number of pairs in an evaluation batch
    # Number of validation pairs, the first ones, whose weights are stored.
    stored_examples: int = number("[0, inf)", 200)
    # Hypotheses; the weights of all validation pairs with one of them are stored too.
    shown: list[str] = field(default_factory=list)


@dataclass
class SnliConfig(PairTaskConfig):
    """Natural language inference with attention to the premise."""


@dataclass
class NliAlignmentConfig(PairTaskConfig):
    """Natural language inference with latent alignments of the two sentences."""


@dataclass
class PairRun(RunConfig):
    """A run of natural language inference."""

    corpus_settings: ClassVar[tuple[str, ...]] = ("data.", "model.vectors")

    task: PairTaskConfig = MISSING
    data: PairCorpusConfig = MISSING
    mapping: UnboundedConfig = MISSING
    loss: FenchelYoungLossConfig = MISSING
    model: PairModelConfig = MISSING


@dataclass
class SnliRun(PairRun):
    """A run of the attention classifier."""

    task: SnliConfig = MISSING
    model: AttentionClassifierConfig = MISSING


@dataclass
class NliAlignmentRun(PairRun):
    """A run of ESIM; a structure aligns the sentences by SparseMAP, without a mapping."""

    task: NliAlignmentConfig = MISSING
    model: EsimConfig = MISSING
    structure: PairStructureConfig | None = None

    def __post_init__(self) -> None:
        """Refuse two alignments at once, and write the same alignment in one form."""
        super().__post_init__()
        if self.structure is not None and self.model.alignment != "words":
            raise ConfigError(
                f"model.alignment is {self.model.alignment!r}; expected 'words', because"
                f" structure={self.structure.name} aligns the sentences"
            )
        if self.structure is not None and self.structure.name == "matching":
            self.structure, self.model.alignment = None, "matching"
        aligned = self.structure is not None or self.model.alignment != "words"
        if aligned and self.mapping.name != "softmax":
            raise ConfigError(
                f"mapping={self.mapping.name} is not used: a structure aligns the sentences"
            )


RUNS = (SnliRun, NliAlignmentRun)
SCHEMAS: dict[str, dict[str, type]] = {
    "task": {"snli": SnliConfig, "nli_alignment": NliAlignmentConfig},
    "data": {"pair_corpus": PairCorpusConfig},
    "model": {"attention_classifier": AttentionClassifierConfig, "esim": EsimConfig},
}
