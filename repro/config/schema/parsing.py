"""Dependency parsing."""

from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import choice, identifier, number
from repro.config.schema.groups import DataConfig, HeadStructureConfig, ModelConfig, TaskConfig
from repro.config.schema.loss import StructuredLossConfig
from repro.config.schema.run import RunConfig


@dataclass
class TreebankConfig(DataConfig):
    """One treebank of one release of Universal Dependencies."""

    release: str = identifier()  # for example `"2.0"`; the folder is `ud-treebanks-v<release>`
    treebank: str = identifier()  # folder of the treebank, for example `"UD_Vietnamese"`
    check_size: bool = True  # refuse a treebank whose number of sentences is not the known one


@dataclass
class ParserConfig(ModelConfig):
    """A bidirectional LSTM over words and tags that scores every arc."""

    word_size: int = number("(0, inf)")  # size of the word embeddings
    tag_size: int = number("(0, inf)")  # size of the tag embeddings
    lstm_size: int = number("(0, inf)")  # size of a state of one direction
    layers: int = number("(0, inf)")  # number of layers of the LSTM
    arc_size: int = number("(0, inf)")  # size of the hidden layer that scores an arc
    # In training, a word of frequency f is unknown with probability `word_dropout / (word_dropout +
    # f)`.
    word_dropout: float = number("[0, inf)")


@dataclass
class ParsingConfig(TaskConfig):
    """Dependency parsing with gold words and tags."""

    selectors: ClassVar[tuple[str, ...]] = ("uas",)
    unread: ClassVar[tuple[str, ...]] = ("shown",)

    reduction: str = choice(("sum", "mean"))  # reduction of the losses of a batch: `sum` or `mean`
    # Which tags the model reads: `upos` (universal) or `xpos` (of the treebank).
    tags: str = choice(("upos", "xpos"))
    single_root: bool = MISSING  # whether predicted trees have exactly one word below the root
    # Whether the loss compares the gold tree with such trees only.
    train_single_root: bool = MISSING
    # Number of words in an evaluation batch, padding included.
    evaluation_words: int = number("(0, inf)", 2000)
    # Most iterations of SparseMAP when candidate trees are analyzed.
    candidate_iterations: int = number("(0, inf)", 100)
    # Number of validation sentences whose candidate trees are stored.
    stored_examples: int = number("[0, inf)", 400)
    # Number of training sentences, evenly spaced, whose candidate trees are counted at each
    # validation in addition to the validation sentences, for SparseMAP losses.
    compared: int = number("[0, inf)", 200)
    # Further validation sentences whose candidate trees are stored, by their words.
    shown: list[str] = field(default_factory=list)


@dataclass
class ParsingRun(RunConfig):
    """A run of dependency parsing, by arborescences unless there is a ``structure``."""

    task: ParsingConfig = MISSING
    data: TreebankConfig = MISSING
    loss: StructuredLossConfig = MISSING
    model: ParserConfig = MISSING
    structure: HeadStructureConfig | None = None

    def __post_init__(self) -> None:
        """Write arborescences, the default, as ``null``: a run of either form has one identity."""
        super().__post_init__()
        if self.structure is not None and self.structure.name == "arborescence":
            self.structure = None


RUNS = (ParsingRun,)
SCHEMAS: dict[str, dict[str, type]] = {
    "task": {"parsing": ParsingConfig},
    "data": {"treebank": TreebankConfig},
    "model": {"parser": ParserConfig},
}
