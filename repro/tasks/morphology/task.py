"""Training, decoding and scoring of a multilingual inflection model or an ensemble."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from repro.config.schema.morphology import MorphologyConfig, MorphologyRun
from repro.data.batching import Seq2SeqBatch, collate
from repro.data.files import write_if_changed
from repro.data.pair import Pair
from repro.data.sentence_search import sentence_digest
from repro.data.sigmorphon import Inflection, source_tokens
from repro.decoding import BeamResult, Ensemble, Hypothesis, StepModel, beam_search, complete_set
from repro.evaluation.metrics import METRICS, Evaluation, score_outputs
from repro.evaluation.metrics.inflection import (
    RULE_BASELINE_FILE,
    InflectedForms,
    read_rule_baseline,
)
from repro.prediction import shorten
from repro.results import OWN_SPLIT, RunFolder
from repro.tasks.common import check_length, each_line, own_examples
from repro.tasks.morphology.corpus import EncodedCorpus, encode_corpus, restored_corpus
from repro.tasks.protocol import Scores, Task
from repro.tasks.seq2seq import Seq2SeqTask, stored_attention
from repro.training.protocol import Validation

_BATCH = 32


@dataclass(frozen=True)
class Example:
    """Inflection of a split, with its position in the split."""

    split: str
    index: int
    inflection: Inflection
    pair: Pair

    @property
    def source(self) -> list[str]:
        """Symbols that the model reads."""
        return source_tokens(self.inflection)

    def described(self) -> dict[str, Any]:
        """Return the fields that rows about this example start with, as JSON values."""
        return {
            "index": self.index,
            "split": self.split,
            "language": self.inflection.language,
            "lemma": self.inflection.lemma,
            "tags": list(self.inflection.tags),
            "gold": self.inflection.form,
            "source": self.source,
        }


def _examples(data: EncodedCorpus, split: str) -> list[Example]:
    inflections: list[Inflection] = getattr(data.corpus, split)
    together = enumerate(zip(inflections, getattr(data, split), strict=True))
    return [Example(split, index, *both) for index, both in together]


class MorphologyTask(Seq2SeqTask):
    """Untrained model for all languages of a corpus; see ``repro.tasks.protocol.Task``.

    The first ``task.stored_examples`` validation examples of each language are stored, and the
    examples of any split that ``task.shown`` names. ``stored`` is what :meth:`preparation`
    returned, instead of a corpus.

    Raises:
        DataError: the folder of the corpus has a malformed file of the rule baseline.
    """

    selectors = MorphologyConfig.selectors

    def __init__(
        self, config: MorphologyRun, device: torch.device, stored: Mapping[str, Any] | None = None
    ) -> None:
        data = encode_corpus(config) if stored is None else restored_corpus(stored)
        splits = {"train": data.train, "dev": data.dev}
        super().__init__(config, data.source, data.target, splits, device)
        self.data, self.decoding = data, config.decoding
        self.baseline: Scores = {}
        path = config.corpus_path / RULE_BASELINE_FILE
        if stored is None and config.data.folder is None and path.exists():
            measured, languages = read_rule_baseline(path), data.corpus.languages
            known = {name: (name, config.task.setting) for name in languages}
            found = {name: measured[key] for name, key in known.items() if key in measured}
            self.baseline = {f"test/rule_baseline/{name}": value for name, value in found.items()}
            if len(found) == len(languages):
                self.baseline["test/rule_baseline"] = sum(found.values()) / len(found)
        dev = _examples(data, "dev")
        self.shown: list[Example] = []
        for language in data.corpus.languages:
            own = [example for example in dev if example.inflection.language == language]
            self.shown += own[: config.task.stored_examples]
        # An entry of ``task.shown`` is a lemma, or a lemma and its form.
        keys = {sentence_digest(text) for text in config.task.shown}
        chosen = {example.index for example in self.shown}
        for split in ("dev", "test", "train") if keys else ():
            for example in _examples(data, split):
                lemma, form = example.inflection.lemma, example.inflection.form
                wanted = not keys.isdisjoint(map(sentence_digest, (lemma, f"{lemma} {form}")))
                if wanted and not (split == "dev" and example.index in chosen):
                    self.shown.append(example)

    def validate(self) -> Validation:
        """Compute teacher-forced loss and sparsity, and mean accuracy over languages (greedy)."""
        statistics = self.teacher_forced(self.data.dev)
        found = self.search(self.model, self.data.dev, beam_size=1)
        forms = InflectedForms(self.data.corpus.dev, self._texts(found))
        accuracy = METRICS["accuracy"].value(forms)
        return Validation(statistics.loss, {"accuracy": accuracy, **statistics.sparsity})

    def evaluate(self, folder: RunFolder) -> Scores:
        """Score beam search and sparsity; write predictions, statistics and examples."""
        statistics = self.teacher_forced(self.data.dev)
        scores = self.evaluate_model(self.model, folder)
        scores["dev/loss"] = statistics.loss
        return scores | {f"dev/{name}": value for name, value in statistics.sparsity.items()}

    def evaluate_model(self, model: StepModel[Any], folder: RunFolder) -> Scores:
        """Score beam search with this model or an ensemble; write predictions and examples."""
        whole = Evaluation(dict(self.baseline), {})
        for split in ("dev", "test"):
            examples: list[Inflection] = getattr(self.data.corpus, split)
            found = self.search(model, getattr(self.data, split))
            predicted, certificates = self._texts(found), {}
            if split == "dev":
                names = ("certified", "certified_printed", "optimal", "single")
                certificates = {name: [getattr(one, name) for one in found] for name in names}
            forms = InflectedForms(examples, predicted, certificates)
            whole.update(score_outputs(split, forms))
            # Lines "lemma TAB form TAB tags", one file for each language.
            lines = dict.fromkeys(self.data.corpus.languages, "")
            for example, form in zip(examples, predicted, strict=True):
                lines[example.language] += f"{_line(example, form)}\n"
            for language, text in lines.items():
                write_if_changed(folder.predictions_file(split, language), text.encode())
        folder.write_statistics(whole.statistics)
        self.store_examples(model, self.shown, folder)
        return whole.values

    examples_file = "morphology.tsv"

    def write_own_examples(self, path: Path, folder: RunFolder) -> None:
        """Write hypotheses and attention of the lemmas of a file; see ``Illustrated``."""
        examples = [
            replace(
                one, split=OWN_SPLIT, index=place, inflection=replace(one.inflection, form=gold)
            )
            for place, (one, gold) in enumerate(own_examples(self.read, path))
        ]
        self.store_examples(self.model, examples, folder)

    def _texts(self, results: Sequence[BeamResult]) -> list[str]:
        """Return the best form of each example, empty if the search found none."""
        best = [result.hypotheses[:1] for result in results]
        return [self.text(found[0]) if found else "" for found in best]

    def text(self, hypothesis: Hypothesis) -> str:
        """Return a hypothesis as a form."""
        return "".join(self.data.target.decode(hypothesis.tokens))

    def line(self, example: Example, output: str) -> str:
        """Return lemma, form and tags, as in files of the shared task."""
        return _line(example.inflection, output)

    def preparation(self) -> dict[str, Any]:
        """Return languages and vocabularies; see ``Predictor``."""
        data = self.data
        sides = {"source": data.source.tokens, "target": data.target.tokens}
        return {"languages": data.corpus.languages, **sides}

    def read(self, lines: Iterable[tuple[int, str]], path: Path) -> Iterator[Example]:
        """Read lines ``lemma TAB tags``, with ``TAB language`` if the model knows several."""
        return each_line(lines, path, self._input)

    def _input(self, line: str) -> Example:
        languages = self.data.corpus.languages
        fields = line.split("\t")
        if len(fields) == 2 and len(languages) == 1:
            fields.append(languages[0])
        if len(fields) != 3 or not all(field.strip() for field in fields):
            wanted = "lemma TAB tags" + " TAB language" * (len(languages) > 1)
            raise ValueError(f"expected {wanted}, none of them blank, found {line[:80]!r}")
        lemma, tags, language = fields
        if language not in languages:
            raise ValueError(f"unknown language {language!r}; choose from: {', '.join(languages)}")
        inflection = Inflection(language, lemma, "", tuple(tags.split(";")))
        symbols = source_tokens(inflection)
        check_length(symbols)
        return Example("input", 0, inflection, Pair(self.data.source.encode(symbols), []))

    def store_examples(
        self, model: StepModel[Any], shown: Sequence[Example], folder: RunFolder
    ) -> None:
        """Write hypotheses and attention of the examples that figures may show."""
        hypotheses, attention = [], []
        for start in range(0, len(shown), _BATCH):
            examples = shown[start : start + _BATCH]
            pairs = [example.pair for example in examples]
            batch = collate(pairs, range(len(pairs))).to(self.device)
            source, lengths, longest = batch.source, batch.source_lengths, self.decoding.max_length
            most, size = self.decoding.max_hypotheses, self.decoding.beam_size
            sets = complete_set(model, source, lengths, max_hypotheses=most, max_length=longest)
            beams = beam_search(
                model, source, lengths, beam_size=size, max_length=longest, keep_attention=True
            )
            for example, complete, beam in zip(examples, sets, beams, strict=True):
                found = [
                    {
                        "tokens": [self.target_symbols[n] for n in hypothesis.tokens],
                        "probability": shorten(hypothesis.probability),
                        "steps": [shorten(value) for value in hypothesis.step_probabilities],
                    }
                    for hypothesis in (complete if complete.finite else beam).hypotheses
                ]
                row = {**example.described(), "finite": complete.finite, "hypotheses": found}
                hypotheses.append(row)
                for best in beam.hypotheses[:1]:
                    found_by = {"output": self.symbols(best), "weights": stored_attention(best)}
                    attention.append(example.described() | found_by)
        folder.write_hypotheses(hypotheses)
        folder.write_attention(attention)


def _line(inflection: Inflection, form: str) -> str:
    """Return lemma, form and tags joined by TAB."""
    return f"{inflection.lemma}\t{form}\t{';'.join(inflection.tags)}"


def evaluate_ensemble(members: Sequence[Task[Seq2SeqBatch]], folder: RunFolder) -> Scores:
    """Evaluate several models that average their raw probabilities at every step.

    References:
        Peters et al. (2019), §4.1.
    """
    tasks = [cast(MorphologyTask, member) for member in members]
    return tasks[0].evaluate_model(Ensemble([task.model for task in tasks]), folder)
