"""Sentence summarization: metrics of the outputs, and the check of the corpus."""

from collections.abc import Sequence
from statistics import fmean

from repro.config.schema.text_pairs import SummarizationRun
from repro.data.parallel import read_pairs, stream_lines
from repro.evaluation.metrics import METRICS, Evaluation, score_outputs
from repro.evaluation.metrics.summarization import Summaries
from repro.tasks.summarization import summary_corpus
from repro.tasks.text_pairs import TextPairsTask, Words, prepare_text


class SummarizationTask(TextPairsTask):
    """Generation of titles from sentences."""

    find_corpus = staticmethod(summary_corpus)

    def quality(self, outputs: Sequence[Words]) -> float:
        """Average the F scores of ROUGE-1, ROUGE-2 and ROUGE-L on validation data."""
        texts = self._summaries("dev", outputs)
        return fmean(METRICS[name].value(texts) for name in ("rouge1", "rouge2", "rougeL"))

    def score(self, split: str, outputs: Sequence[Words]) -> Evaluation:
        """Compute the ROUGE metrics, of summaries cut to 75 bytes and of whole ones.

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


def check(config: SummarizationRun) -> None:
    """Prepare the corpus of a configuration on disk, for the runs of a sweep."""
    prepare_text(config, summary_corpus(config))
