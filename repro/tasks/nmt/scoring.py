"""Scores of translations: BLEU, repeated and dropped words, METEOR if its program is found."""

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

from repro.config.schema.nmt import NmtRun
from repro.data.alignment import Links, TwoWayAligner, train_two_way
from repro.data.parallel import ParallelText, read_pairs
from repro.data.preparation import PreparedCorpus
from repro.data.segmentation import moses_detokeniser
from repro.evaluation.meteor import LANGUAGE, meteor
from repro.evaluation.metrics import METRICS, Evaluation, score_outputs
from repro.evaluation.metrics.translation import Translations

METEOR_JAR = Path("meteor-1.5") / "meteor-1.5.jar"
"""Path of METEOR in data_dir; without it there is no METEOR score."""

Words = list[str]


class TranslationScorer:
    """Scores translations of one corpus.

    Args:
        config: configuration of the run.
        data: the prepared corpus, with the words of sources and references.
    """

    def __init__(self, config: NmtRun, data: PreparedCorpus) -> None:
        self.data, self.tuned_metric = data, config.task.tuned_metric
        jar = config.corpus_path / METEOR_JAR
        self.meteor_jar = jar if jar.is_file() else None

    def quality(self, outputs: Sequence[Words]) -> float:
        """Tokenised BLEU on the validation data; ``task.tuned_metric`` may lower-case it."""
        return METRICS[self.tuned_metric].value(Translations(outputs, self._references("dev")))

    def score(self, split: str, outputs: Sequence[Words]) -> Evaluation:
        """BLEU of several kinds, REP, DROP, METEOR of NLTK for English, METEOR 1.5 by its program.

        References:
            Malaviya et al. (2018), §5.
        """
        corpus, plain = self.data.corpus, None
        if not corpus.tokenised:
            # Translations as plain text, and the references before they were tokenised.
            detokenise = moses_detokeniser(corpus.target)
            gold = [target for _, target in read_pairs(corpus.splits[split])]
            plain = [detokenise(" ".join(words)) for words in outputs], gold
        texts = Translations(
            outputs,
            self._references(split),
            language=corpus.target,
            sources=[source.split() for source, _ in read_pairs(self.data.texts[split])],
            align=partial(_align, trained_aligner(self.data.texts["train"])),
            plain=plain,
            meteor_jar=self.meteor_jar,
        )
        found = score_outputs(split, texts)
        if self.meteor_jar is not None and corpus.target != LANGUAGE:
            # The parameters of other languages are known to the program alone.
            score = meteor(*texts.lines, jar=self.meteor_jar, language=corpus.target)
            found.values[f"{split}/meteor"] = score
        return found

    def _references(self, split: str) -> list[Words]:
        return [target.split() for _, target in read_pairs(self.data.texts[split])]


@lru_cache(maxsize=2)
def trained_aligner(train: ParallelText) -> TwoWayAligner:
    """Train the aligner of new text on the words of a training corpus, once for each process."""
    pairs = ((source.split(), target.split()) for source, target in read_pairs(train))
    return train_two_way(pairs).pruned()


def _align(
    aligner: TwoWayAligner, sources: Sequence[Sequence[str]], outputs: Sequence[Sequence[str]]
) -> list[Links]:
    """Links of each pair; an empty output has none."""
    pairs = [pair for pair in zip(sources, outputs, strict=True) if pair[1]]
    found = iter(aligner.align(pairs)) if pairs else iter(())
    return [next(found) if output else frozenset() for output in outputs]
