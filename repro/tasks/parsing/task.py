"""Training and evaluation of a dependency parser."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from repro.config.schema.groups import HeadStructureConfig
from repro.config.schema.loss import SparseMAPLossConfig
from repro.config.schema.parsing import ParsingConfig, ParsingRun
from repro.data.batching import TreeBatch, collate_trees, epoch_batches, word_batches
from repro.data.dependencies.conllu import (
    UNSPECIFIED,
    Sentence,
    format_sentence,
    read_sentences,
    write_conllu,
)
from repro.data.dependencies.trees import Tree
from repro.data.files import numbered_lines
from repro.data.sentence_search import first_or_named
from repro.evaluation.metrics import METRICS, score_outputs
from repro.evaluation.metrics.parsing import ParsedSentences
from repro.models.parser import LstmParser
from repro.prediction import AttentionMap, Candidate, Prediction, Wanted
from repro.results import OWN_SPLIT, RunFolder
from repro.structures import ConvergenceWarning, Solution, sparsemap
from repro.tasks.common import LazyBatches, Stopwatch, autocast, check_length, each_line, heaviest
from repro.tasks.instantiate import build_structure, build_structured_loss
from repro.tasks.parsing.corpus import encode_treebank, restored_treebank
from repro.tasks.protocol import Scores
from repro.training import distributed
from repro.training.protocol import Validation

Distribution = list[list[float]]
"""Pairs of a value and its number of occurrences, by increasing value."""


@dataclass
class CandidateStatistics:
    """Sparsity of SparseMAP solutions, one value per sentence.

    Attributes:
        trees: number of trees with nonzero weight.
        parents: mean number of heads per word with nonzero marginal probability.
    """

    trees: list[int] = field(default_factory=list)
    parents: list[float] = field(default_factory=list)

    def add(self, solution: Solution, lengths: Tensor) -> None:
        """Append the sentences of one batch."""
        self.trees += (solution.weights > 0).sum(1).tolist()
        heads = (solution.marginals > 0).sum((1, 2)).cpu()
        self.parents += (heads / lengths).tolist()

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate statistics."""
        return cls(
            [n for one in parts for n in one.trees], [n for one in parts for n in one.parents]
        )

    def means(self) -> dict[str, float]:
        """Return the means over sentences and the percentage of sentences with a single tree."""
        count = len(self.trees)
        return {
            "trees": sum(self.trees) / count,
            "parents": sum(self.parents) / count,
            "single_tree": 100.0 * self.trees.count(1) / count,
        }

    def distributions(self) -> dict[str, Distribution]:
        """Count sentences by number of trees, and by number of parents rounded to 0.01."""
        counts = {
            "trees_counts": Counter[float](self.trees),
            "parents_counts": Counter(round(value, 2) for value in self.parents),
        }
        return {name: [[*pair] for pair in sorted(one.items())] for name, one in counts.items()}


def sparsity_trends(history: Sequence[Mapping[str, Any]]) -> Scores:
    """Divide the numbers of trees and of heads per word of the last validation by the first's.

    Empty if the loss does not count them, or before the second validation.
    """
    rows = [row for row in history if "dev_trees" in row]
    if len(rows) < 2:
        return {}
    return {
        f"train/{name}_ratio": rows[-1][f"dev_{name}"] / rows[0][f"dev_{name}"]
        for name in ("trees", "parents")
    }


def weighted_trees(solution: Solution, lengths: Tensor) -> list[list[dict[str, Any]]]:
    """Return the trees of each sentence with nonzero weight, largest weight first."""
    instances = zip(
        solution.weights.tolist(), solution.structures.tolist(), lengths.tolist(), strict=True
    )
    return [
        [
            {"heads": heads, "weight": weight}
            for weight, heads in heaviest(weights, [tree[1 : 1 + length] for tree in trees])
        ]
        for weights, trees, length in instances
    ]


def notes_of(solution: Solution, heads: Sequence[Sequence[int]]) -> list[list[str]]:
    """Describe the weights of the heads of each word, as ``Heads=2:0.75,4:0.25`` for MISC.

    A note is empty if the predicted head has all the weight.
    """
    notes = []
    for marginals, chosen in zip(solution.marginals.cpu(), heads, strict=True):
        columns = marginals[:, 1 : 1 + len(chosen)].T
        found = [[(n, w) for n, w in enumerate(line) if w > 0] for line in columns.tolist()]
        notes.append(
            [
                "Heads=" + ",".join(f"{n}:{w:.4g}" for n, w in sorted(one, key=lambda p: -p[1]))
                if [n for n, _ in one] != [head]
                else ""
                for one, head in zip(found, chosen, strict=True)
            ]
        )
    return notes


@dataclass(frozen=True)
class Analysis:
    """Predictions of the model for a split.

    Attributes:
        heads: heads of the best tree of each sentence.
        notes: weights of the heads of each word, for MISC; see :func:`notes_of`.
        loss: mean loss per sentence.
        candidates: sparsity of SparseMAP solutions; ``None`` unless trained with a SparseMAP loss.
    """

    heads: list[list[int]]
    notes: list[list[str]]
    loss: float
    candidates: CandidateStatistics | None


class ParsingTask:
    """Untrained arc-factored parser with its data; see ``repro.tasks.protocol.Task``."""

    selectors = ParsingConfig.selectors

    def __init__(
        self, config: ParsingRun, device: torch.device, stored: Mapping[str, Any] | None = None
    ) -> None:
        self.config, self.settings, self.device = config, config.task, device
        self.data = data = encode_treebank(config) if stored is None else restored_treebank(stored)
        self._seen, self._clock = 0, Stopwatch(device)
        frequency, tags = data.encoder.frequency, len(data.encoder.tags)
        self.model = LstmParser(config.model, frequency, tags).to(device)
        kind = config.structure or HeadStructureConfig("arborescence")
        trained = build_structure(kind, single_root=self.settings.train_single_root)
        self.criterion = build_structured_loss(config.loss, trained)
        self.structure = build_structure(kind, single_root=self.settings.single_root)
        sparse = isinstance(config.loss, SparseMAPLossConfig)
        # Structure whose SparseMAP solutions are analyzed, for SparseMAP losses only.
        self.candidates = trained if sparse else None

    def batches(self, epoch: int) -> LazyBatches[TreeBatch]:
        """Return the training batches of one epoch."""
        lengths = [len(tree.words) for tree in self.data.train]
        size = self.config.training.batch_size
        return self._lazy(self.data.train, epoch_batches(lengths, size, self.config.seed, epoch))

    def ordered(self, trees: Sequence[Tree]) -> LazyBatches[TreeBatch]:
        """Return evaluation batches that hold every sentence once."""
        lengths = [1 + len(tree.words) for tree in trees]
        batches = word_batches(lengths, self.settings.evaluation_words)
        return self._lazy(trees, batches)

    def _lazy(self, trees: Sequence[Tree], batches: list[list[int]]) -> LazyBatches[TreeBatch]:
        summed = self.settings.reduction == "sum"
        return LazyBatches(batches, lambda rows: collate_trees(trees, rows).to(self.device), summed)

    def loss(self, batch: TreeBatch) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch and its number of words."""
        scores = self.scores(batch)
        with self._clock:
            losses = self.losses(scores, batch)
        self._seen += len(batch)
        total = losses.sum() if self.settings.reduction == "sum" else losses.mean()
        return total, batch.lengths.sum()

    @property
    def tally(self) -> dict[str, float]:
        """Seconds of inference in the loss, and the number of sentences; see ``Trainable``."""
        return {"inference_share": self._clock.seconds(), "sentences_per_second": self._seen}

    def scores(self, batch: TreeBatch) -> Tensor:
        """Compute the arc scores of a batch, in float32."""
        with autocast(self.config, self.device):
            scores: Tensor = self.model(batch.words, batch.tags, batch.lengths)
        return scores.float()

    def validate(self) -> Validation:
        """Compute the attachment score, mean loss and sparsity of SparseMAP on validation data."""
        found = self.analyze(self.data.dev)
        metrics = {"uas": METRICS["uas"].value(_parsed(self.data.dev, found))}
        details: dict[str, Distribution] = {}
        if found.candidates is not None:
            metrics |= found.candidates.means()
            details = found.candidates.distributions()
            trees, count = self.data.train, self.settings.compared
            if count:
                # Compare with the sparsity on evenly spaced training sentences.
                step = max(1, len(trees) // count)
                training = self.analyze(trees[::step][:count]).candidates
                assert training is not None
                counted = training.distributions()
                details |= {f"training_{name}": counts for name, counts in counted.items()}
        return Validation(found.loss, metrics, details)

    def evaluate(self, folder: RunFolder) -> Scores:
        """Score validation and test data; write trees, statistics and candidate trees."""
        treebank = self.data.treebank
        dev, test = self.analyze(self.data.dev), self.analyze(self.data.test)
        whole = score_outputs("dev", _parsed(self.data.dev, dev))
        whole.update(score_outputs("test", _parsed(self.data.test, test)))
        whole.values["dev/tree_loss"] = dev.loss
        folder.write_statistics(whole.statistics)
        for name, sentences, found in (("dev", treebank.dev, dev), ("test", treebank.test, test)):
            path = folder.predictions / f"{name}.conllu"
            write_conllu(path, sentences, found.heads, found.notes)
        if dev.candidates is not None:
            means = dev.candidates.means().items()
            whole.values.update({f"dev/{name}": value for name, value in means})
            whole.values.update(sparsity_trends(folder.read_history()))
            folder.write_candidates(self.candidate_rows(treebank.dev, self.stored_sentences()))
        return whole.values

    @torch.no_grad()
    def analyze(self, trees: Sequence[Tree]) -> Analysis:
        """Parse every sentence of a split; the model must be in evaluation mode.

        If a run has several processes, each parses its share of the batches.
        """
        parsed: dict[int, tuple[list[int], list[str]]] = {}
        candidates, total = CandidateStatistics(), 0.0
        for batch in distributed.share(self.ordered(trees)):
            scores = self.scores(batch)
            total += float(self.losses(scores, batch).double().sum())
            heads, notes, solution = self._parse(scores, batch)
            parsed |= zip(batch.indices.tolist(), zip(heads, notes, strict=True), strict=True)
            if solution is not None:
                candidates.add(solution, batch.host_lengths)
        found, total = distributed.in_order(parsed), sum(distributed.gather(total))
        candidates = CandidateStatistics.joined(distributed.gather(candidates))
        return Analysis(
            [heads for heads, _ in found],
            [notes for _, notes in found],
            total / len(trees),
            None if self.candidates is None else candidates,
        )

    def _parse(
        self, scores: Tensor, batch: TreeBatch
    ) -> tuple[list[list[int]], list[list[str]], Solution | None]:
        """Return the best heads and the notes of each sentence, and the SparseMAP solution."""
        best = self.structure.map(scores, lengths=batch.host_lengths)
        pairs = zip(best.tolist(), batch.host_lengths.tolist(), strict=True)
        heads = [row[1 : 1 + length] for row, length in pairs]  # without root and padding
        if self.candidates is None:
            return heads, [[] for _ in heads], None
        solution = self._solve(scores, batch)
        return heads, notes_of(solution, heads), solution

    def preparation(self) -> dict[str, Any]:
        """Return the vocabularies of words and tags; see ``Predictor``."""
        encoder = self.data.encoder
        vocabularies = {"words": encoder.words.tokens, "tags": encoder.tags.tokens}
        return {**vocabularies, "frequency": encoder.frequency, "column": encoder.tag_column}

    def read(self, lines: Iterable[tuple[int, str]], path: Path) -> Iterator[Sentence]:
        """Read sentences in CoNLL-U, whose heads are ignored; see ``Predictor``."""
        column = self.data.encoder.tag_column

        def checked(sentence: Sentence) -> Sentence:
            check_length(sentence.words)
            if set(sentence.column(column)) == {UNSPECIFIED}:
                raise ValueError(f"expected tags, found _ as {column} of every word")
            return sentence

        return each_line(read_sentences(lines, path, trees=False), path, checked)

    @torch.no_grad()
    def predict(
        self, examples: Sequence[Sentence], wanted: Wanted
    ) -> Iterator[tuple[int, Prediction]]:
        """Parse sentences; SparseMAP also gives weights of heads and candidate trees."""
        for batch in self.ordered([self.data.encoder.encode(sentence) for sentence in examples]):
            heads, notes, solution = self._parse(self.scores(batch), batch)
            trees: list[list[dict[str, Any]]] = [[] for _ in heads]
            if solution is not None and wanted.weights:
                trees = weighted_trees(solution, batch.host_lengths)
            for row, place in enumerate(batch.indices.tolist()):
                sentence, count = examples[place], len(heads[row])
                words, attention = sentence.column("FORM"), None
                if solution is not None and wanted.weights:
                    weights = solution.marginals[row, : count + 1, 1 : count + 1].T.cpu()
                    attention = AttentionMap(weights, words, ["ROOT", *words])
                output = format_sentence(sentence, heads[row], notes[row]).removesuffix("\n")
                yield (
                    place,
                    Prediction(
                        output,
                        output,
                        words,
                        [*map(str, heads[row])],
                        attention=attention,
                        candidates=[Candidate(one["weight"], one["heads"]) for one in trees[row]],
                    ),
                )

    def losses(self, scores: Tensor, batch: TreeBatch) -> Tensor:
        """Compute the loss of each sentence."""
        # The reader of treebanks refuses all but trees.
        losses: Tensor = self.criterion(scores, batch.heads, batch.host_lengths, check_target=False)
        return losses

    @property
    def examples_file(self) -> str:
        """Name of the file of sentences; see ``Illustrated``."""
        return f"parsing.{self.config.data.treebank.split('-')[0]}.conllu"

    def write_own_examples(self, path: Path, folder: RunFolder) -> None:
        """Write the candidate trees of the sentences of a file; see ``Illustrated``."""
        sentences = [sentence for _, sentence in read_sentences(numbered_lines(path), path)]
        if self.candidates is not None:
            rows = self.candidate_rows(sentences, range(len(sentences)))
            folder.write_candidates([row | {"split": OWN_SPLIT} for row in rows])

    def stored_sentences(self) -> list[int]:
        """Return the positions of the validation sentences that figures may show."""
        texts = (" ".join(sentence.column("FORM")) for sentence in self.data.treebank.dev)
        return first_or_named(texts, self.settings.stored_examples, self.settings.shown)

    @torch.no_grad()
    def candidate_rows(
        self, sentences: Sequence[Sentence], places: Sequence[int]
    ) -> list[dict[str, Any]]:
        """Return the candidate trees of the sentences at some positions."""
        rows: list[dict[str, Any]] = []
        encode = self.data.encoder.encode
        for batch in self.ordered([encode(sentences[place]) for place in places]):
            found = weighted_trees(self._solve(self.scores(batch), batch), batch.host_lengths)
            for number, candidates in zip(batch.indices.tolist(), found, strict=True):
                sentence = sentences[places[number]]
                row = {
                    "index": places[number],
                    "sentence": sentence.identifier,
                    "words": sentence.column("FORM"),
                    "tags": sentence.column(self.data.encoder.tag_column),
                    "gold": sentence.heads,
                    "candidates": candidates,
                }
                rows.append(row)
        return sorted(rows, key=lambda row: int(row["index"]))

    def _solve(self, scores: Tensor, batch: TreeBatch) -> Solution:
        """Solve SparseMAP in at most ``task.candidate_iterations`` steps, without warnings."""
        assert self.candidates is not None
        most = self.settings.candidate_iterations
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return sparsemap(self.candidates, scores, lengths=batch.host_lengths, max_iter=most)


def _parsed(trees: Sequence[Tree], found: Analysis) -> ParsedSentences:
    return ParsedSentences([tree.heads for tree in trees], found.heads)
