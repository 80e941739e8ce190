"""Dependency parsing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import LATE, choice, identifier, number
from repro.config.schema.groups import DataConfig, ModelConfig, TaskConfig
from repro.config.schema.loss import StructuredLossConfig


@dataclass
class TreebankConfig(DataConfig):
    """One treebank of one release of Universal Dependencies.

    Attributes:
        release: for example ``"2.0"``; the folder is ``ud-treebanks-v<release>``.
        treebank: folder of the treebank, for example ``"UD_Vietnamese"``.
        check_counts: whether a treebank of known size must have just that many sentences.
    """

    release: str = identifier()
    treebank: str = identifier()
    check_counts: bool = True


@dataclass
class ParserConfig(ModelConfig):
    """A bidirectional LSTM over words and tags that scores every arc.

    Attributes:
        word_size: of the word embeddings.
        tag_size: of the tag embeddings.
        lstm_size: of a state of one direction.
        layers: of the LSTM.
        arc_size: of the hidden layer that scores an arc.
        word_dropout: a training word of frequency f becomes unknown with probability
            ``word_dropout / (word_dropout + f)``.
    """

    word_size: int = number("(0, inf)")
    tag_size: int = number("(0, inf)")
    lstm_size: int = number("(0, inf)")
    layers: int = number("(0, inf)")
    arc_size: int = number("(0, inf)")
    word_dropout: float = number("[0, inf)")


@dataclass
class ParsingConfig(TaskConfig):
    """Non-projective dependency parsing with gold words and tags.

    Attributes:
        reduction: how the losses of a batch become one: ``sum`` or ``mean``.
        tags: which tags the model reads: ``upos`` (universal) or ``xpos`` (of the treebank).
        single_root: whether predicted trees have exactly one word below the root.
        train_single_root: whether the loss compares the gold tree with such trees only.
        evaluation_words: words of one evaluation batch, padding included.
        candidate_iterations: bound on SparseMAP's iterations where candidate trees are analysed.
        analysed: validation sentences whose candidate trees are stored for the figures.
        compared: training sentences, spread evenly, whose candidate trees are counted at each
            validation besides the validation sentences, for SparseMAP losses.
        shown: further validation sentences whose candidate trees are stored, by their words.
    """

    parts: ClassVar[Mapping[str, type]] = {
        "data": TreebankConfig,
        "loss": StructuredLossConfig,
        "model": ParserConfig,
    }

    selectors: ClassVar[tuple[str, ...]] = ("uas",)

    reduction: str = choice(("sum", "mean"))
    tags: str = choice(("upos", "xpos"))
    single_root: bool = MISSING
    train_single_root: bool = MISSING
    evaluation_words: int = number("(0, inf)", 2000)
    candidate_iterations: int = number("(0, inf)", 100)
    analysed: int = number("[0, inf)", 400)
    compared: int = number("[0, inf)", 200)
    shown: list[str] = field(default_factory=list, metadata={LATE: True})


SCHEMAS: dict[str, dict[str, type]] = {
    "task": {"parsing": ParsingConfig},
    "data": {"treebank": TreebankConfig},
    "model": {"parser": ParserConfig},
}
