"""Base of text-to-text tasks: preparation, training, rescored search and stored examples."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from repro import typed
from repro.atomic import atomic_write_text
from repro.config.schema.checks import part_of
from repro.config.schema.mapping import BoundedConfig
from repro.config.schema.seq2seq import TranslatorConfig
from repro.config.schema.text_pairs import EncodingSettings, TextRun, TextSettings, TextTaskConfig
from repro.data.batching import collate
from repro.data.pair import Pair
from repro.data.parallel import ParallelCorpus
from repro.data.preparation import PreparedCorpus, prepare, prune_tests
from repro.data.segmentation import join_subwords, moses_detokenizer
from repro.data.sentence_search import find_pairs, sentence_digest
from repro.data.vocabulary import Vocabulary, with_sink
from repro.decoding import BeamResult, Hypothesis, StepModel, forced
from repro.decoding.penalties import Penalties, rescored
from repro.evaluation.metrics import Evaluation
from repro.prediction import shorten
from repro.results import OWN_SPLIT, RunFolder
from repro.tasks.common import check_length, each_line, own_examples
from repro.tasks.fertility import build_fertility
from repro.tasks.protocol import Scores
from repro.tasks.seq2seq import Seq2SeqTask, stored_attention
from repro.training.protocol import Validation

ALTERNATIVES = 20
"""Number of most probable next symbols stored for each step of forced decoding."""


@dataclass(frozen=True)
class Example:
    """Pair of a split, with its position in the split."""

    split: str
    index: int
    pair: Pair


def stored_examples(data: PreparedCorpus, count: int, shown: Sequence[str]) -> list[Example]:
    """Choose the examples that a run stores for the figures.

    They are the first ``count`` validation pairs, then, by split and position, the first pair with
    each of the sentences ``shown``, source or target, looked up in the validation, test and
    training data in turn.
    """
    first = [("dev", index) for index in range(min(count, len(data.splits["dev"])))]
    missing = [*{sentence_digest(text): text for text in shown}.values()]
    others = set[tuple[str, int]]()
    for split in ("dev", *data.corpus.tests, "train"):
        found = find_pairs(data.splits[split], data.source, data.target, missing)
        others |= {(split, index) for index in found.values()}
        missing = [text for text in missing if text not in found]
    places = [*first, *sorted(others.difference(first))]
    return [Example(split, index, data.splits[split][index]) for split, index in places]


def forced_rows(
    model: StepModel[Any], data: PreparedCorpus, examples: Sequence[Example], device: torch.device
) -> list[dict[str, Any]]:
    """Return the rows of ``forced.jsonl``: next-symbol predictions along each gold target.

    ``steps`` has one entry for each target symbol: its ``probability``, the number of symbols with
    nonzero probability (``support``), and the most probable of these, at most 20, with their
    probabilities (``alternatives``). The model is in evaluation mode, on ``device``.

    References:
        Peters, Niculae & Martins (2019), Figure 2.
    """
    rows, tokens = [], data.target.tokens
    for example in examples:
        batch = collate([example.pair], [0]).to(device)
        (probs,) = forced(model, batch.source, batch.source_lengths, batch.target).probs.cpu()
        target = [*example.pair.target, Vocabulary.EOS]
        steps = []
        for step, token in zip(probs, target, strict=True):
            best = step.float().argsort(descending=True, stable=True)[:ALTERNATIVES].tolist()
            alternatives = [[tokens[n], shorten(float(step[n]))] for n in best if step[n] > 0]
            size, probability = int((step > 0).sum()), shorten(float(step[token]))
            steps.append(
                {"probability": probability, "support": size, "alternatives": alternatives}
            )
        symbols = [tokens[n] for n in target]
        rows.append({**_source(data, example), "target": symbols, "steps": steps})
    return rows


def _source(data: PreparedCorpus, example: Example) -> dict[str, Any]:
    return {
        "index": example.index,
        "split": example.split,
        "language": f"{data.corpus.source} to {data.corpus.target}",
        "source": [data.source.tokens[number] for number in example.pair.source],
        "separator": " ",
    }


Words = list[str]


def prepare_text(config: TextRun, corpus: ParallelCorpus) -> PreparedCorpus:
    """Tokenize and encode a corpus, its test sets pruned to ``max_test_length``.

    Sources end in a sink if the attention is bounded.

    Raises:
        DataError: a line is malformed, or no training or test pair is short enough.

    References:
        Malaviya et al. (2018), §4, *Sink token*.
    """
    text, cache = part_of(TextSettings, config.data), config.corpora_path / "prepared"
    pruned = prune_tests(corpus, text, config.data.max_test_length, cache)
    sink = isinstance(config.mapping, BoundedConfig)
    return prepare(pruned, text, part_of(EncodingSettings, config.data), cache, sink)


@dataclass(frozen=True)
class _StoredCorpus:
    name: str
    source: str
    target: str
    tokenised: bool
    unknown: list[str]


@dataclass(frozen=True)
class _StoredText:
    source: list[str]
    target: list[str]
    codes: str
    corpus: _StoredCorpus


def restored_text(stored: Mapping[str, Any]) -> PreparedCorpus:
    """Return vocabularies and merges, without any text, from :meth:`TextPairsTask.preparation`."""
    found = typed.build(_StoredText, stored)
    corpus = ParallelCorpus(
        splits={}, fingerprint="", **{**vars(found.corpus), "unknown": tuple(found.corpus.unknown)}
    )
    source, target = Vocabulary(found.source), Vocabulary(found.target)
    return PreparedCorpus(corpus, source, target, {}, {}, found.codes)


@dataclass(frozen=True)
class TextInput:
    """Text to predict: the symbols that the model reads, a sink included, and their ids."""

    source: Sequence[str]
    pair: Pair


class TextPairsTask(Seq2SeqTask, ABC):
    """Untrained text-to-text model with its data; see ``repro.tasks.protocol.Task``.

    ``stored`` is what :meth:`preparation` returned, instead of a corpus.
    """

    selectors = TextTaskConfig.selectors

    def __init__(
        self, config: TextRun, device: torch.device, stored: Mapping[str, Any] | None = None
    ) -> None:
        if stored is None:
            data = prepare_text(config, self.find_corpus(config))
        else:
            data = restored_text(stored)
        self.data = data
        self.task, self.decoding = config.task, config.decoding
        length, coverage = self.decoding.length_penalty, self.decoding.coverage_penalty
        self.penalties = Penalties(length, coverage, self.decoding.coverage_floor)
        self.needs_attention = bool(coverage)
        self.min_length = config.decoding.min_length
        self.sink = isinstance(config.mapping, BoundedConfig)
        fertility = None
        if self.sink and isinstance(config.model, TranslatorConfig):
            fertility = build_fertility(config.model.fertility, data, config.seed, device)
        super().__init__(config, data.source, data.target, data.splits, device, fertility)

    @staticmethod
    @abstractmethod
    def find_corpus(config: Any) -> ParallelCorpus:
        """Find the files of the corpus of a configuration."""

    @abstractmethod
    def score(self, split: str, outputs: Sequence[Words]) -> Evaluation:
        """Score the outputs of a whole split."""

    @abstractmethod
    def quality(self, outputs: Sequence[Words]) -> float:
        """Return the validation metric by which penalties are tuned; larger is better."""

    def validate(self) -> Validation:
        """Compute loss, accuracy and sparsity on validation data, all teacher-forced."""
        found = self.teacher_forced(self.splits["dev"])
        return Validation(found.loss, {"token_accuracy": 100 * found.accuracy, **found.sparsity})

    def evaluate(self, folder: RunFolder) -> Scores:
        """Decode and score validation and test data; write outputs, statistics and examples."""
        found, tuned = self.validate(), self.decoding.tune_penalties
        dev = self._search("dev", tuned or bool(self.penalties.coverage))
        penalties = self._tuned_penalties(dev) if tuned else self.penalties
        values = {"loss": found.loss, **found.metrics}
        whole = Evaluation({f"dev/{name}": value for name, value in values.items()}, {})
        if tuned:
            whole.values["dev/length_penalty"] = penalties.length
            whole.values["dev/coverage_penalty"] = penalties.coverage
        for split in ("dev", *self.data.corpus.tests):
            results = dev if split == "dev" else self._search(split, bool(penalties.coverage))
            outputs = self._outputs(results, penalties)
            lines = "".join(f"{' '.join(words)}\n" for words in outputs)
            atomic_write_text(folder.predictions / f"{split}.txt", lines)
            whole.update(self.score(split, outputs))
        folder.write_statistics(whole.statistics)
        examples = stored_examples(self.data, self.task.stored_examples, self.task.shown)
        self._write_examples(examples, folder, penalties)
        return whole.values

    @property
    def examples_file(self) -> str:
        """Name of the file of inputs; see ``Illustrated``."""
        return f"{self.task.name}.{self.data.corpus.source}-{self.data.corpus.target}.txt"

    def write_own_examples(self, path: Path, folder: RunFolder) -> None:
        """Write attention and forced decoding of the inputs of a file; see ``Illustrated``."""
        split = self.data.splitter(part_of(TextSettings, self.config.data), side=1)
        encode = self.data.target.encode
        examples = [
            Example(OWN_SPLIT, place, Pair(one.pair.source, encode(split(gold))))
            for place, (one, gold) in enumerate(own_examples(self.read, path))
        ]
        self._write_examples(examples, folder, self.penalties)

    def _write_examples(
        self, examples: Sequence[Example], folder: RunFolder, penalties: Penalties
    ) -> None:
        """Write the attention and the forced decoding of examples that figures may show."""
        pairs = [example.pair for example in examples]
        results = self.search(self.model, pairs, keep_attention=True)
        attention = [
            {
                **_source(self.data, example),
                "output": self.symbols(best),
                "gold": " ".join(self.target_symbols[n] for n in example.pair.target),
                "weights": stored_attention(best),
            }
            for example, result in zip(examples, results, strict=True)
            for best in rescored(result.hypotheses, penalties)[:1]
        ]
        folder.write_attention(attention)
        folder.write_forced(forced_rows(self.model, self.data, examples, self.device))

    def _tuned_penalties(self, results: Sequence[BeamResult]) -> Penalties:
        """Return the best penalties of the grid for validation results with attention.

        References:
            Malaviya et al. (2018), §5, COVPENALTY.
        """
        grid = product(self.decoding.penalty_grid, repeat=2)
        choices = [replace(self.penalties, length=alpha, coverage=beta) for alpha, beta in grid]
        qualities = [self.quality(self._outputs(results, one)) for one in choices]
        return choices[qualities.index(max(qualities))]

    def _search(self, split: str, keep_attention: bool) -> list[BeamResult]:
        return self.search(self.model, self.data.splits[split], keep_attention=keep_attention)

    def _outputs(self, results: Sequence[BeamResult], penalties: Penalties) -> list[Words]:
        """Return the words of each best hypothesis, an empty list if the search found none."""
        best = [rescored(result.hypotheses, penalties)[:1] for result in results]
        return [self._words(found[0]) if found else [] for found in best]

    def _words(self, hypothesis: Hypothesis) -> Words:
        return join_subwords(self.data.target.decode(hypothesis.tokens))

    @cached_property
    def detokenize(self) -> Callable[[str], str]:
        """Function that joins the words of an output as in plain text of the corpus."""
        return str if self.data.corpus.tokenised else moses_detokenizer(self.data.corpus.target)

    def ranked(self, result: BeamResult) -> Sequence[Hypothesis]:
        """Sort the hypotheses of a search by the penalties of the run."""
        return rescored(result.hypotheses, self.penalties)

    def text(self, hypothesis: Hypothesis) -> str:
        """Return a hypothesis as plain text."""
        return self.detokenize(" ".join(self._words(hypothesis)))

    def preparation(self) -> dict[str, Any]:
        """Return vocabularies, merges and properties of the corpus; see ``Predictor``."""
        data, kept = self.data, ("name", "source", "target", "tokenised", "unknown")
        return {
            "source": data.source.tokens,
            "target": data.target.tokens,
            "codes": data.codes,
            "corpus": {name: getattr(data.corpus, name) for name in kept},
        }

    def read(self, lines: Iterable[tuple[int, str]], path: Path) -> Iterator[TextInput]:
        """Tokenize and segment each line as a source of the training data; see ``Predictor``."""
        split = self.data.splitter(part_of(TextSettings, self.config.data), side=0)
        return each_line(lines, path, partial(self._input, split))

    def _input(self, split: Callable[[str], list[str]], line: str) -> TextInput:
        symbols = split(line.strip())
        if not symbols:
            raise ValueError("no words; every line must be a sentence")
        symbols = with_sink(symbols) if self.sink else symbols
        check_length(symbols)
        return TextInput(symbols, Pair(self.data.source.encode(symbols), []))
