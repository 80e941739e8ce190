"""What translations are worth: BLEU, repeated and dropped words, METEOR where its program lies."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from repro.config.schema import RunConfig
from repro.config.schema.nmt import NmtConfig
from repro.data.alignment import Links, TwoWayAligner, train_two_way
from repro.data.parallel import ParallelText, read_pairs
from repro.data.preparation import PreparedCorpus
from repro.data.segmentation import moses_detokeniser
from repro.evaluation.bleu import BleuScore, detokenised_bleu, tokenised_bleu
from repro.evaluation.coverage import RatioScore, drop_score, rep_score
from repro.evaluation.meteor import LANGUAGE, meteor, meteor_nltk, meteor_statistics
from repro.tasks.location import corpus_dir
from repro.tasks.text_pairs import ScoredOutputs, scored_outputs

METEOR_JAR = Path("meteor-1.5") / "meteor-1.5.jar"
"""Where METEOR is looked for below the data folder; without it there is no METEOR score."""

Words = list[str]


class TranslationScorer:
    """Scores translations of one corpus.

    Args:
        config: of the run.
        data: the prepared corpus, with the words of sources and references.
    """

    def __init__(self, config: RunConfig, data: PreparedCorpus) -> None:
        assert isinstance(config.task, NmtConfig)
        self.data, self.tuned_metric = data, config.task.tuned_metric
        jar = corpus_dir(config) / METEOR_JAR
        self.meteor_jar = jar if jar.is_file() else None

    def quality(self, outputs: Sequence[Words]) -> float:
        """Tokenised BLEU on the validation data; ``task.tuned_metric`` may lower-case it."""
        ours, gold = _lines(outputs), _lines(self._references("dev"))
        return tokenised_bleu(ours, gold, lowercase=self.tuned_metric == "bleu_lc").value

    def score(self, split: str, outputs: Sequence[Words]) -> ScoredOutputs:
        """BLEU of several kinds, REP, DROP, METEOR of NLTK for English, METEOR 1.5 by its program.

        References:
            Malaviya et al. (2018), §5.
        """
        references = self._references(split)
        ours, gold = _lines(outputs), _lines(references)
        bleus = {
            "bleu": tokenised_bleu(ours, gold),
            "bleu_lc": tokenised_bleu(ours, gold, lowercase=True),
        }
        if not self.data.corpus.tokenised:
            bleus["bleu_13a"] = self._plain_bleu(split, ours)
        ratios = {
            "rep": rep_score(outputs, references),
            "drop": self._drop(split, outputs, references),
        }
        if self.data.corpus.target == LANGUAGE:
            ratios["meteor_nltk"] = meteor_nltk(outputs, references)
        values = {name: score.value for name, score in (bleus | ratios).items()}
        statistics = {name: score.statistics for name, score in (bleus | ratios).items()}
        if self.meteor_jar is not None:
            language = self.data.corpus.target
            values["meteor"] = meteor(ours, gold, jar=self.meteor_jar, language=language)
            if language == LANGUAGE:
                statistics["meteor"] = meteor_statistics(ours, gold, jar=self.meteor_jar)
        return scored_outputs(split, values, statistics)

    def _references(self, split: str) -> list[Words]:
        return [target.split() for _, target in read_pairs(self.data.texts[split])]

    def _drop(
        self, split: str, outputs: Sequence[Words], references: Sequence[Words]
    ) -> RatioScore:
        aligner = trained_aligner(self.data.texts["train"])
        sources = [source.split() for source, _ in read_pairs(self.data.texts[split])]
        return drop_score(_align(aligner, sources, outputs), _align(aligner, sources, references))

    def _plain_bleu(self, split: str, lines: Sequence[str]) -> BleuScore:
        """BLEU of plain text against the references as they were before tokenisation."""
        detokenise = moses_detokeniser(self.data.corpus.target)
        references = [target for _, target in read_pairs(self.data.corpus.splits[split])]
        plain = [detokenise(line) for line in lines]
        return detokenised_bleu(plain, references, lowercase=True)


@lru_cache(maxsize=2)
def trained_aligner(train: ParallelText) -> TwoWayAligner:
    """Train the aligner of new text on the words of a training corpus, once for each process."""
    pairs = ((source.split(), target.split()) for source, target in read_pairs(train))
    return train_two_way(pairs).pruned()


def _align(
    aligner: TwoWayAligner, sources: Sequence[Words], outputs: Sequence[Words]
) -> list[Links]:
    """Links of each pair; an empty output has none."""
    pairs = [pair for pair in zip(sources, outputs, strict=True) if pair[1]]
    found = iter(aligner.align(pairs)) if pairs else iter(())
    return [next(found) if output else frozenset() for output in outputs]


def _lines(texts: Sequence[Words]) -> list[str]:
    return [" ".join(words) for words in texts]
