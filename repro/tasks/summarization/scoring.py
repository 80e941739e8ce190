"""What summaries are worth: ROUGE, cut to 75 bytes and whole."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from repro.data.parallel import read_pairs, stream_lines
from repro.data.preparation import PreparedCorpus
from repro.evaluation.rouge import Overlap, RougeSettings, corpus_rouge, rouge
from repro.evaluation.sufficient_statistics import statistics_of_scores
from repro.tasks.text_pairs import ScoredOutputs, scored_outputs

MAX_BYTES = 75
"""Length of a summary in DUC 2004, task 1."""
_NAMES = {"rouge1": "rouge1", "rouge2": "rouge2", "rougeL": "rougeL", "rougeW1.2": "rougeW"}
_CUTS = {"": MAX_BYTES, "_whole": None}

Words = list[str]


class SummaryScorer:
    """Scores summaries of one corpus.

    Args:
        data: the prepared corpus, with the words of the titles.
    """

    def __init__(self, data: PreparedCorpus) -> None:
        self.data = data

    def quality(self, outputs: Sequence[Words]) -> float:
        """Mean of the F scores of ROUGE-1, ROUGE-2 and ROUGE-L on the validation data."""
        found = corpus_rouge(self._rouge("dev", outputs, MAX_BYTES))
        return fmean(found[kind].fmeasure for kind in ("rouge1", "rouge2", "rougeL"))

    def score(self, split: str, outputs: Sequence[Words]) -> ScoredOutputs:
        """F scores of every kind, and precision and recall of ROUGE-L, cut and whole.

        References:
            Niculae & Blondel (2017), §4.3, Tables 6 and 7.
        """
        scores: dict[str, list[float]] = {}
        for suffix, cut in _CUTS.items():
            found = self._rouge(split, outputs, cut)
            for kind, name in _NAMES.items():
                scores[name + suffix] = [one.fmeasure for one in found[kind]]
            scores[f"rougeL_precision{suffix}"] = [one.precision for one in found["rougeL"]]
            scores[f"rougeL_recall{suffix}"] = [one.recall for one in found["rougeL"]]
        values = {name: fmean(each) for name, each in scores.items()}
        statistics = {name: statistics_of_scores(each) for name, each in scores.items()}
        return scored_outputs(split, values, statistics)

    def _rouge(
        self, split: str, outputs: Sequence[Words], max_bytes: int | None
    ) -> dict[str, list[Overlap]]:
        summaries = [" ".join(words) for words in outputs]
        return rouge(summaries, self._references(split), RougeSettings(max_bytes=max_bytes))

    def _references(self, split: str) -> list[tuple[str, ...]]:
        """All titles of each article."""
        first = [title for _, title in read_pairs(self.data.texts[split])]
        further = self.data.corpus.references.get(split, ())
        return list(zip(first, *(_lines(path) for path in further), strict=True))


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in stream_lines(path)]
