"""What summaries are worth: ROUGE, cut to 75 bytes and whole."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from repro.data.parallel import read_pairs, stream_lines
from repro.data.preparation import PreparedCorpus
from repro.evaluation.rouge import Overlap, RougeSettings, corpus_rouge, rouge
from repro.tasks.protocol import Scores

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
        found = self._rouge("dev", outputs, MAX_BYTES)
        return fmean(found[kind].fmeasure for kind in ("rouge1", "rouge2", "rougeL"))

    def score(self, split: str, outputs: Sequence[Words]) -> Scores:
        """F scores of every kind, and precision and recall of ROUGE-L, cut and whole.

        References:
            Niculae & Blondel (2017), §4.3, Tables 6 and 7.
        """
        scores: Scores = {}
        for suffix, cut in _CUTS.items():
            found = self._rouge(split, outputs, cut)
            for kind, name in _NAMES.items():
                scores[f"{split}/{name}{suffix}"] = found[kind].fmeasure
            scores[f"{split}/rougeL_precision{suffix}"] = found["rougeL"].precision
            scores[f"{split}/rougeL_recall{suffix}"] = found["rougeL"].recall
        return scores

    def _rouge(
        self, split: str, outputs: Sequence[Words], max_bytes: int | None
    ) -> dict[str, Overlap]:
        summaries = [" ".join(words) for words in outputs]
        settings = RougeSettings(max_bytes=max_bytes)
        return corpus_rouge(rouge(summaries, self._references(split), settings))

    def _references(self, split: str) -> list[tuple[str, ...]]:
        """All titles of each article."""
        first = [title for _, title in read_pairs(self.data.texts[split])]
        further = self.data.corpus.references.get(split, ())
        return list(zip(first, *(_lines(path) for path in further), strict=True))


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in stream_lines(path)]
