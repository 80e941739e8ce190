"""Decoding and scoring of an inflection model, or of an ensemble, on validation and test data."""

from collections.abc import Sequence
from typing import Any

import torch

from repro.config.schema.morphology import MorphologyRun
from repro.data.files import write_if_changed
from repro.data.sigmorphon import Inflection
from repro.decoding import BeamResult, StepModel
from repro.evaluation.metrics import METRICS, Evaluation, score_outputs
from repro.evaluation.metrics.inflection import InflectedForms
from repro.evaluation.rule_baseline import RULE_BASELINE_FILE, read_rule_baseline
from repro.results import RunFolder
from repro.tasks.morphology.corpus import EncodedCorpus
from repro.tasks.morphology.examples import ExampleAnalysis
from repro.tasks.protocol import Scores
from repro.tasks.seq2seq import search


class Evaluator:
    """Evaluates step models on one corpus.

    Args:
        config: configuration of the run.
        data: the encoded corpus.
        device: where the models live.

    Raises:
        DataError: the file of the rule baseline lies beside the corpus and is malformed.
    """

    def __init__(self, config: MorphologyRun, data: EncodedCorpus, device: torch.device) -> None:
        self.decoding, self.data, self.device = config.decoding, data, device
        self.baseline = _rule_baseline(config, data.corpus.languages)
        self.analysis = ExampleAnalysis(config, data, device)

    def greedy_accuracy(self, model: StepModel[Any]) -> float:
        """Word accuracy on the validation data in percent, averaged over languages."""
        found = search(model, self.data.dev, self.decoding, self.device, beam_size=1)
        forms = InflectedForms(self.data.corpus.dev, self._texts(found))
        return METRICS["accuracy"].value(forms)

    def evaluate(self, model: StepModel[Any], folder: RunFolder) -> Scores:
        """Beam search on both splits; predictions and analysed examples go into ``folder``."""
        whole = Evaluation(dict(self.baseline), {})
        for split in ("dev", "test"):
            examples: list[Inflection] = getattr(self.data.corpus, split)
            found = search(model, getattr(self.data, split), self.decoding, self.device)
            predicted, certificates = self._texts(found), {}
            if split == "dev":
                names = ("certified", "optimal", "single")
                certificates = {name: [getattr(one, name) for one in found] for name in names}
            forms = InflectedForms(examples, predicted, certificates)
            whole.update(score_outputs(split, forms))
            self._write_predictions(split, forms, folder)
        folder.write_statistics(whole.statistics)
        self.analysis.store(model, folder)
        return whole.values

    def _texts(self, results: Sequence[BeamResult]) -> list[str]:
        """The best form of each example; empty where nothing was found."""
        best = [result.hypotheses[:1] for result in results]
        ids = [found[0].tokens if found else [] for found in best]
        return ["".join(self.data.target.decode(tokens)) for tokens in ids]

    def _write_predictions(self, split: str, forms: InflectedForms, folder: RunFolder) -> None:
        """Write ``lemma TAB form TAB tags`` lines, one file for each language."""
        lines: dict[str, list[str]] = {language: [] for language in self.data.corpus.languages}
        for example, form in zip(forms.examples, forms.predicted, strict=True):
            if "\t" in form or "\n" in form:
                raise ValueError(f"prediction {form!r} for {example.lemma!r} does not fit in a TSV")
            line = f"{example.lemma}\t{form}\t{';'.join(example.tags)}\n"
            lines[example.language].append(line)
        for language, rows in lines.items():
            path = folder.predictions_file(split, language)
            write_if_changed(path, "".join(rows).encode())


def _rule_baseline(config: MorphologyRun, languages: Sequence[str]) -> Scores:
    """Test accuracy of the organisers' rule baseline, if its file lies beside the corpus."""
    path = config.corpus_path / RULE_BASELINE_FILE
    if not path.exists():
        return {}
    measured = read_rule_baseline(path)
    known = {name: measured.get((name, config.task.setting)) for name in languages}
    found = {name: value for name, value in known.items() if value is not None}
    scores = {f"test/rule_baseline/{name}": value for name, value in found.items()}
    if len(found) == len(known):
        scores["test/rule_baseline"] = sum(found.values()) / len(found)
    return scores
