"""Dependency parsing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from omegaconf import MISSING

from repro.config.schema.checks import require, require_choice
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

    release: str = MISSING
    treebank: str = MISSING
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

    word_size: int = MISSING
    tag_size: int = MISSING
    lstm_size: int = MISSING
    layers: int = MISSING
    arc_size: int = MISSING
    word_dropout: float = MISSING

    def __post_init__(self) -> None:
        """Refuse sizes that no model has."""
        for key in ("word_size", "tag_size", "lstm_size", "layers", "arc_size"):
            require(getattr(self, key) > 0, f"model.{key}", getattr(self, key), "a number > 0")
        ok = self.word_dropout >= 0
        require(ok, "model.word_dropout", self.word_dropout, "a number >= 0")


@dataclass
class ParsingConfig(TaskConfig):
    """Non-projective dependency parsing with gold words and tags.

    Attributes:
        tags: which tags the model reads: ``upos`` (universal) or ``xpos`` (of the treebank).
        single_root: whether predicted trees have exactly one word below the root.
        train_single_root: whether the loss compares the gold tree with such trees only.
        evaluation_words: words of one evaluation batch, padding included.
        candidate_iterations: bound on SparseMAP's iterations where candidate trees are analysed.
        analysed: validation sentences whose candidate trees are stored for the figures.
    """

    parts: ClassVar[Mapping[str, type]] = {
        "data": TreebankConfig,
        "loss": StructuredLossConfig,
        "model": ParserConfig,
    }

    tags: str = MISSING
    single_root: bool = MISSING
    train_single_root: bool = MISSING
    evaluation_words: int = 2000
    candidate_iterations: int = 100
    analysed: int = 400

    def __post_init__(self) -> None:
        """Refuse an unknown kind of tag, and batches that hold nothing."""
        require_choice("task.tags", self.tags, ("upos", "xpos"))
        for key in ("evaluation_words", "candidate_iterations"):
            require(getattr(self, key) > 0, f"task.{key}", getattr(self, key), "a number > 0")
        require(self.analysed >= 0, "task.analysed", self.analysed, "a number >= 0")


SCHEMAS: dict[str, dict[str, type]] = {
    "task": {"parsing": ParsingConfig},
    "data": {"treebank": TreebankConfig},
    "model": {"parser": ParserConfig},
}
