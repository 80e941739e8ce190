"""Machine translation: metrics of the outputs, and the check of the corpus."""

import logging
from collections.abc import Sequence
from functools import cache, lru_cache, partial

from repro.config.schema.text_pairs import NmtConfig, NmtRun
from repro.data.alignment.model import TwoWayAligner, train_two_way
from repro.data.corpora import declared
from repro.data.corpora.translation import ParallelTexts
from repro.data.pair import Links
from repro.data.parallel import ParallelText, about, read_pairs
from repro.evaluation.meteor import METEOR_JAR, find_java, meteor
from repro.evaluation.metrics import METRICS, Evaluation, score_outputs
from repro.evaluation.metrics.translation import Translations
from repro.tasks.nmt import parallel_corpus
from repro.tasks.text_pairs import TextPairsTask, Words, prepare_text

_warn = cache(logging.getLogger(__name__).warning)
"""Log a warning once, not for every run of a sweep."""


class NmtTask(TextPairsTask):
    """Machine translation from one language to another."""

    task: NmtConfig
    find_corpus = staticmethod(parallel_corpus)

    def quality(self, outputs: Sequence[Words]) -> float:
        """Return ``task.tuned_metric``, a BLEU of tokenized text, on the validation data."""
        return METRICS[self.task.tuned_metric].value(Translations(outputs, self._references("dev")))

    def score(self, split: str, outputs: Sequence[Words]) -> Evaluation:
        """Compute BLEU variants, REP, DROP, METEOR 1.5 if installed, and for English NLTK's METEOR.

        References:
            Malaviya et al. (2018), §5.
        """
        corpus, plain = self.data.corpus, None
        if not corpus.tokenised:
            # BLEU of plain text compares with the references as they were before tokenization.
            gold = [target for _, target in read_pairs(corpus.splits[split])]
            plain = [self.detokenize(" ".join(words)) for words in outputs], gold
        texts = Translations(
            outputs,
            self._references(split),
            language=corpus.target,
            sources=[source.split() for source, _ in read_pairs(self.data.texts[split])],
            align=partial(_align, trained_aligner(self.data.texts["train"])),
            plain=plain,
        )
        found = score_outputs(split, texts)
        jar = self.config.corpus_path / METEOR_JAR
        if jar.is_file():
            score = meteor(*texts.lines, jar=jar, language=corpus.target)
            found.values[f"{split}/meteor"] = score
        return found

    def _references(self, split: str) -> list[Words]:
        return [target.split() for _, target in read_pairs(self.data.texts[split])]


@lru_cache(maxsize=2)
def trained_aligner(train: ParallelText) -> TwoWayAligner:
    """Train an aligner for new text on a training corpus, once per process."""
    pairs = ((source.split(), target.split()) for source, target in read_pairs(train))
    return train_two_way(pairs).pruned()


def _align(
    aligner: TwoWayAligner, sources: Sequence[Sequence[str]], outputs: Sequence[Sequence[str]]
) -> list[Links]:
    """Return the links of each pair; an empty output, which aligners refuse, has none."""
    found = aligner.align(pair for pair in zip(sources, outputs, strict=True) if pair[1])
    return [next(found) if output else frozenset() for output in outputs]


def check(config: NmtRun) -> None:
    """Prepare the corpus of a configuration on disk, for the runs of a sweep.

    If the paper reports the number of training pairs that are short enough, a different number is
    logged as a warning: lengths depend on tokenizer and subwords, so the corpus may be intact.

    Raises:
        DataError: the corpus is malformed, or leaves no training pair.
        MeteorError: METEOR 1.5 would score the outputs after training, but there is no Java.
    """
    data = config.data
    if (config.corpus_path / METEOR_JAR).is_file():
        find_java()
    prepared = prepare_text(config, parallel_corpus(config))
    if data.generated or data.folder is not None:
        return
    published = declared(ParallelTexts, "data.corpus", data.corpus).short_pairs
    settings = (data.merges, data.joint, data.max_length, data.check_size)
    count = len(prepared.splits["train"])
    if settings == (32_000, True, 50, True) and published and count not in about(published):
        _warn(
            "%s: %d training pairs have at most %d symbols a side; Malaviya et al. (2018) count %d",
            data.corpus,
            count,
            data.max_length,
            published,
        )
