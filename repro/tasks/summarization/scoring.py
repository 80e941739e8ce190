"""Scores of summaries: ROUGE, cut to 75 bytes and whole."""

from collections.abc import Sequence
from statistics import fmean

from repro.data.parallel import read_pairs, stream_lines
from repro.data.preparation import PreparedCorpus
from repro.evaluation.metrics import METRICS, Evaluation, score_outputs
from repro.evaluation.metrics.summarization import Summaries

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
        texts = self._summaries("dev", outputs)
        return fmean(METRICS[name].value(texts) for name in ("rouge1", "rouge2", "rougeL"))

    def score(self, split: str, outputs: Sequence[Words]) -> Evaluation:
        """F scores of every kind, and precision and recall of ROUGE-L, cut and whole.

        References:
            Niculae & Blondel (2017), §4.3, Tables 6 and 7.
        """
        return score_outputs(split, self._summaries(split, outputs))

    def _summaries(self, split: str, outputs: Sequence[Words]) -> Summaries:
        first = [title for _, title in read_pairs(self.data.texts[split])]
        further = self.data.corpus.references.get(split, ())
        others = ([line.strip() for line in stream_lines(path)] for path in further)
        references = list(zip(first, *others, strict=True))
        return Summaries([" ".join(words) for words in outputs], references)
