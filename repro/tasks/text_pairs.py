"""Tasks from text to text: preparation, training, rescored search; scorers are the tasks' own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor

from repro.atomic import atomic_write_text
from repro.config.errors import ConfigError
from repro.config.schema.checks import part_of
from repro.config.schema.mapping import BoundedConfig
from repro.config.schema.seq2seq import RescoredBeamConfig
from repro.config.schema.text_pairs import EncodingSettings, TextRun, TextSettings, TextTaskConfig
from repro.data.batching import Pair, Seq2SeqBatch
from repro.data.parallel import ParallelCorpus, read_pairs
from repro.data.preparation import SINK, PreparedCorpus, prepare, stage_name
from repro.data.pruning import prune_tests
from repro.data.segmentation import join_subwords
from repro.data.vocabulary import SPECIALS, Vocabulary
from repro.decoding import BeamResult, Hypothesis
from repro.decoding.penalties import Penalties, replace_unknown, rescored
from repro.evaluation.metrics import Evaluation
from repro.models.seq2seq import Fertility, Seq2Seq
from repro.results import RunFolder
from repro.tasks.batches import LazyBatches
from repro.tasks.fertility import build_fertility
from repro.tasks.protocol import Scores
from repro.tasks.seq2seq import Seq2SeqTraining, TeacherForcedStatistics, search
from repro.tasks.text_examples import attention_rows, forced_rows, stored_examples
from repro.training.protocol import Validation

Words = list[str]

SEARCH_SETTINGS = frozenset(
    {f"decoding.{field.name}" for field in fields(RescoredBeamConfig)} - {"decoding.batch_size"}
) | {"task.stored_examples", "task.shown"}
"""Settings that only search and what follows it read; validation reads ``decoding.batch_size``."""


class Scorer(Protocol):
    """Compares outputs with the references of a corpus."""

    def score(self, split: str, outputs: Sequence[Words]) -> Evaluation:
        """Metrics of the outputs of a whole split."""
        ...

    def quality(self, outputs: Sequence[Words]) -> float:
        """Validation metric by which penalties are tuned; larger is better."""
        ...


@dataclass(frozen=True)
class PreparedText:
    """A corpus as a configuration wants it.

    Attributes:
        data: vocabularies, ids and texts.
        name: name of the corpus with all settings of its preparation.
        cache: where stages are kept.
    """

    data: PreparedCorpus
    name: str
    cache: Path


def prepare_text(config: TextRun, corpus: ParallelCorpus) -> PreparedText:
    """Tokens and ids of a corpus; sources end in a sink if the attention is bounded.

    References:
        Malaviya et al. (2018), §4, *Sink token*.
    """
    corpus, text, encoding, cache = _preparation(config, corpus)
    sink = isinstance(config.mapping, BoundedConfig)
    return PreparedText(
        prepare(corpus, text, encoding, cache, sink),
        stage_name(corpus, text, encoding, sink),
        cache,
    )


def _preparation(
    config: TextRun, corpus: ParallelCorpus
) -> tuple[ParallelCorpus, TextSettings, EncodingSettings, Path]:
    """The corpus with the test pairs that are evaluated, and how it becomes symbols."""
    text, cache = part_of(TextSettings, config.data), config.corpora_path / "prepared"
    pruned = prune_tests(corpus, text, config.data.max_test_length, cache)
    return pruned, text, part_of(EncodingSettings, config.data), cache


def check_text(config: TextRun, corpus: ParallelCorpus) -> PreparedCorpus | None:
    """Prepare a corpus, so that the runs of a sweep find it on disk, and keep nothing in memory.

    Returns:
        The prepared corpus; ``None`` if this process has checked it before.

    Raises:
        ConfigError: unknown words of subwords shall be replaced, or no output is long enough.
        DataError: a line is malformed, or no training or test pair is short enough.
    """
    _check_search(config)
    corpus, text, encoding, cache = _preparation(config, corpus)
    sink = isinstance(config.mapping, BoundedConfig)
    checked = cache / stage_name(corpus, text, encoding, sink)
    if checked in _CHECKED:
        return None
    prepared = prepare(corpus, text, encoding, cache, sink)
    _CHECKED.add(checked)
    return prepared


_CHECKED: set[Path] = set()
"""Preparations of this process: runs of a sweep share them, and each use would hash their files."""


class TextPairsTask:
    """A model from text to text; see ``repro.tasks.protocol.Task``.

    Args:
        config: configuration of the run.
        text: the prepared corpus.
        scorer: what outputs are worth, given the prepared corpus.
        device: where the model lives.

    Raises:
        ConfigError: unknown words of subwords shall be replaced, or no output is long enough.
    """

    selectors = TextTaskConfig.selectors
    tally: Mapping[str, float] = MappingProxyType({})

    def __init__(
        self,
        config: TextRun,
        text: PreparedText,
        scorer: Callable[[PreparedCorpus], Scorer],
        device: torch.device,
    ) -> None:
        _check_search(config)
        self.config, self.data, self.device = config, text.data, device
        self.decoding = config.decoding
        self.scorer = scorer(text.data)
        self.training = Seq2SeqTraining(
            config,
            text.data.source,
            text.data.target,
            device,
            config.model.coverage_vector,
            _fertility(config, text, device),
        )
        self.model: Seq2Seq = self.training.model

    def batches(self, epoch: int) -> LazyBatches[Seq2SeqBatch]:
        """Training batches of one epoch."""
        return self.training.epoch(self.data.splits["train"], epoch)

    def loss(self, batch: Seq2SeqBatch) -> tuple[Tensor, Tensor]:
        """Loss per sentence, and the number of target symbols (with the stop symbols)."""
        return self.training.loss(batch), (batch.target != Vocabulary.PAD).sum()

    def validate(self) -> Validation:
        """Teacher-forced loss, accuracy and nonzero weights."""
        statistics = self._statistics()
        metrics = {"token_accuracy": 100 * statistics.accuracy, **statistics.nonzeros}
        return Validation(statistics.loss, metrics)

    def evaluate(self, folder: RunFolder) -> Scores:
        """Search every split, score it, store outputs, and what figures show of examples."""
        forced, penalties = self._statistics(), self._penalties()
        whole = Evaluation(
            {
                "dev/loss": forced.loss,
                "dev/token_accuracy": 100 * forced.accuracy,
                **{f"dev/{name}": value for name, value in forced.nonzeros.items()},
            },
            {},
        )
        if self.decoding.tune_penalties:
            whole.values["dev/length_penalty"] = penalties.length
            whole.values["dev/coverage_penalty"] = penalties.coverage
        for split in ("dev", *self.data.corpus.tests):
            outputs = self._outputs(split, self._search(split, penalties), penalties)
            lines = "".join(f"{' '.join(words)}\n" for words in outputs)
            atomic_write_text(folder.predictions / f"{split}.txt", lines)
            whole.update(self.scorer.score(split, outputs))
        folder.write_statistics(whole.statistics)
        self._store_examples(folder, penalties)
        return whole.values

    def _statistics(self) -> TeacherForcedStatistics:
        return self.training.teacher_forced(self.training.ordered(self.data.splits["dev"]))

    def _penalties(self) -> Penalties:
        """The penalties as configured, or the best ones on the validation data.

        References:
            Malaviya et al. (2018), §5, COVPENALTY.
        """
        decoding = self.decoding
        fixed = Penalties(
            decoding.length_penalty, decoding.coverage_penalty, decoding.coverage_floor
        )
        if not decoding.tune_penalties:
            return fixed
        grid = product(decoding.penalty_grid, repeat=2)
        choices = [replace(fixed, length=alpha, coverage=beta) for alpha, beta in grid]
        found = self._search("dev", replace(fixed, coverage=1.0))
        qualities = [self.scorer.quality(self._outputs("dev", found, one)) for one in choices]
        return choices[qualities.index(max(qualities))]

    def _search(self, split: str, penalties: Penalties) -> list[BeamResult]:
        keep = bool(penalties.coverage) or self.decoding.replace_unknown
        return self._found(self.data.splits[split], keep)

    def _found(self, pairs: Sequence[Pair], keep_attention: bool) -> list[BeamResult]:
        """Search for the translations of pairs with the settings of the configuration."""
        return search(
            self.model,
            pairs,
            self.decoding,
            self.device,
            keep_attention=keep_attention,
            min_length=self.decoding.min_length,
        )

    def _outputs(
        self, split: str, results: Sequence[BeamResult], penalties: Penalties
    ) -> list[Words]:
        """Words of the best hypothesis of every example; none where nothing was found."""
        best = [rescored(result.hypotheses, penalties)[:1] for result in results]
        if not self.decoding.replace_unknown:
            return [join_subwords(self._words(found)) for found in best]
        sources = [pair[0].split() for pair in read_pairs(self.data.texts[split])]
        together = zip(best, sources, strict=True)
        return [self._with_source_words(found, source) for found, source in together]

    def _words(self, found: Sequence[Hypothesis]) -> Words:
        return self.data.target.decode(found[0].tokens) if found else []

    def _with_source_words(self, found: Sequence[Hypothesis], source: Words) -> Words:
        if not found:
            return []
        bounded = isinstance(self.config.mapping, BoundedConfig)
        read = [*source, SINK] if bounded else source
        unknown = SPECIALS[Vocabulary.UNK]
        return replace_unknown(self._words(found), unknown, found[0], read)

    def _store_examples(self, folder: RunFolder, penalties: Penalties) -> None:
        """Store attention and forced decoding of the examples that figures may show."""
        task = self.config.task
        examples = stored_examples(self.data, task.stored_examples, task.shown)
        pairs = [example.pair for example in examples]
        found = self._found(pairs, keep_attention=True)
        best = [rescored(result.hypotheses, penalties)[:1] for result in found]
        folder.write_attention(attention_rows(self.data, examples, best))
        folder.write_forced(forced_rows(self.model, self.data, examples, self.device))


def _fertility(config: TextRun, text: PreparedText, device: torch.device) -> Fertility | None:
    if not isinstance(config.mapping, BoundedConfig):
        return None
    return build_fertility(
        config.model.fertility, text.data, text.name, text.cache, config.seed, device
    )


def _check_search(config: TextRun) -> None:
    if config.decoding.min_length > config.decoding.max_length:
        raise ConfigError(
            f"decoding.min_length is {config.decoding.min_length}; expected a number of at most "
            f"decoding.max_length, {config.decoding.max_length}"
        )
    if config.decoding.replace_unknown and config.data.merges:
        raise ConfigError(
            f"decoding.replace_unknown=true needs whole words, but data.merges is "
            f"{config.data.merges}; set data.merges=0, or decoding.replace_unknown=false"
        )
