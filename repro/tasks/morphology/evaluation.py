"""Decoding and scoring of an inflection model, or of an ensemble, on validation and test data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from repro.config.schema import RunConfig
from repro.config.schema.morphology import MorphologyConfig
from repro.config.schema.seq2seq import BeamConfig
from repro.data.sigmorphon import Inflection
from repro.decoding import BeamResult, StepModel
from repro.evaluation.inflection import (
    inflection_statistics,
    macro_percentage,
    score_inflections,
    write_predictions,
)
from repro.evaluation.rule_baseline import RULE_BASELINE_FILE, read_rule_baseline
from repro.evaluation.sufficient_statistics import GROUPS
from repro.results import RunFolder
from repro.tasks.location import corpus_dir
from repro.tasks.morphology.corpus import EncodedCorpus
from repro.tasks.morphology.examples import ExampleAnalysis
from repro.tasks.protocol import Scores
from repro.tasks.seq2seq import search


class Evaluator:
    """Evaluates step models on one corpus.

    Args:
        config: of the run.
        data: the encoded corpus.
        device: where the models live.

    Raises:
        DataError: the file of the rule baseline lies beside the corpus and is malformed.
    """

    def __init__(self, config: RunConfig, data: EncodedCorpus, device: torch.device) -> None:
        assert isinstance(config.decoding, BeamConfig)
        self.decoding, self.data, self.device = config.decoding, data, device
        self.baseline = _rule_baseline(config, data.corpus.languages)
        self.analysis = ExampleAnalysis(config, data, device)

    def greedy_accuracy(self, model: StepModel[Any]) -> float:
        """Word accuracy on the validation data in percent, averaged over languages."""
        found = search(model, self.data.dev, self.decoding, self.device, beam_size=1)
        predicted = self._texts(found)
        return score_inflections(self.data.corpus.dev, predicted).macro_accuracy

    def evaluate(self, model: StepModel[Any], folder: RunFolder) -> Scores:
        """Beam search on both splits; predictions and analysed examples go into ``folder``."""
        dev = search(model, self.data.dev, self.decoding, self.device)
        test = search(model, self.data.test, self.decoding, self.device)
        scores = self._score("dev", self.data.corpus.dev, dev, folder)
        scores |= self._score("test", self.data.corpus.test, test, folder)
        counted = self._statistics("dev", self.data.corpus.dev, dev)
        folder.write_statistics(counted | self._statistics("test", self.data.corpus.test, test))
        languages = [example.language for example in self.data.corpus.dev]
        for name in ("certified", "optimal", "single"):
            holds = [getattr(result, name) for result in dev]
            scores[f"dev/{name}"] = macro_percentage(languages, holds)
        self.analysis.store(model, folder)
        return scores | self.baseline

    def _texts(self, results: Sequence[BeamResult]) -> list[str]:
        """The best form of each example; empty where nothing was found."""
        best = [result.hypotheses[:1] for result in results]
        ids = [found[0].tokens if found else [] for found in best]
        return ["".join(self.data.target.decode(tokens)) for tokens in ids]

    def _score(
        self,
        split: str,
        examples: Sequence[Inflection],
        results: Sequence[BeamResult],
        folder: RunFolder,
    ) -> Scores:
        predicted = self._texts(results)
        for language in self.data.corpus.languages:
            own = [n for n, example in enumerate(examples) if example.language == language]
            path = folder.predictions_file(split, language)
            write_predictions(path, [examples[n] for n in own], [predicted[n] for n in own])
        return score_inflections(examples, predicted).as_metrics(split)

    def _statistics(
        self, split: str, examples: Sequence[Inflection], results: Sequence[BeamResult]
    ) -> dict[str, NDArray[np.number]]:
        rows, languages = inflection_statistics(examples, self._texts(results))
        return {f"{split}/accuracy": rows, f"{split}/accuracy{GROUPS}": languages}


def _rule_baseline(config: RunConfig, languages: Sequence[str]) -> Scores:
    """Test accuracy of the organisers' rule baseline, if its file lies beside the corpus."""
    path = corpus_dir(config) / RULE_BASELINE_FILE
    if not path.exists():
        return {}
    assert isinstance(config.task, MorphologyConfig)
    measured = read_rule_baseline(path)
    known = {name: measured.get((name, config.task.setting)) for name in languages}
    found = {name: value for name, value in known.items() if value is not None}
    scores = {f"test/rule_baseline/{name}": value for name, value in found.items()}
    if len(found) == len(known):
        scores["test/rule_baseline"] = sum(found.values()) / len(found)
    return scores
