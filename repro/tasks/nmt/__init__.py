"""Machine translation (Malaviya et al., 2018; Peters et al., 2019; Niculae & Blondel, 2017)."""

import logging
from functools import lru_cache, partial
from pathlib import Path

import torch

from repro.config.schema.nmt import NmtRun
from repro.data.corpora import declared
from repro.data.corpora.translation import ParallelTexts
from repro.data.demo.translation import DEMO, write_translation_demo
from repro.data.parallel import ParallelCorpus, about, open_folder
from repro.data.translation import open_corpus
from repro.tasks.common import check_name, own_folder
from repro.tasks.nmt.scoring import TranslationScorer
from repro.tasks.protocol import CorpusIdentity, TaskSpec
from repro.tasks.text_pairs import SEARCH_SETTINGS, TextPairsTask, check_text, prepare_text

_log = logging.getLogger(__name__)


def identify(config: NmtRun) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration, and name it.

    Raises:
        DataError: it is missing or has another size.
    """
    corpus = parallel_corpus(config)
    name = f"{corpus.name} {corpus.source}-{corpus.target}"
    return CorpusIdentity(name, corpus.fingerprint)


def parallel_corpus(config: NmtRun) -> ParallelCorpus:
    """Find the files of the corpus of a configuration.

    Raises:
        DataError: there is no such corpus, it is missing or has another size.
    """
    data, own = config.data, own_folder(config)
    if own is not None:
        return open_folder(own, data.source, data.target, tokenised=data.tokenised)
    folder = config.corpus_path.resolve()
    if data.generated:
        check_name(config, DEMO.name, DEMO.name)
        _generate(folder, data.seed)
    corpus = DEMO if data.generated else declared(ParallelTexts, "data.corpus", data.corpus)
    cache = config.corpora_path.resolve() / "prepared"
    return _open(corpus.name, folder, data.source, data.target, data.check_size, cache)


_generate = lru_cache(maxsize=8)(write_translation_demo)


@lru_cache(maxsize=8)
def _open(
    name: str, folder: Path, source: str, target: str, check_sizes: bool, cache: Path
) -> ParallelCorpus:
    corpus = DEMO if name == DEMO.name else declared(ParallelTexts, "data.corpus", name)
    return open_corpus(corpus, folder, source, target, check_sizes=check_sizes, cache=cache)


def check(config: NmtRun) -> None:
    """Prepare the corpus of a configuration; see :func:`~repro.tasks.text_pairs.check_text`.

    Where a paper counts the training pairs that are short enough, another number is warned of: the
    lengths depend on tokeniser and subwords, so it is no sign of a damaged corpus.
    """
    data = config.data
    prepared = check_text(config, parallel_corpus(config))
    if prepared is None or data.generated or data.folder is not None:
        return
    published = declared(ParallelTexts, "data.corpus", data.corpus).short_pairs
    settings = (data.merges, data.joint, data.max_length, data.check_size)
    count = len(prepared.splits["train"])
    if settings == (32_000, True, 50, True) and published and count not in about(published):
        _log.warning(
            "%s: %d training pairs have at most %d symbols a side; Malaviya et al. (2018) count %d",
            data.corpus,
            count,
            data.max_length,
            published,
        )


def build(config: NmtRun, device: torch.device) -> TextPairsTask:
    """Prepare the corpus and make an untrained model; the random state decides its weights."""
    text = prepare_text(config, parallel_corpus(config))
    return TextPairsTask(config, text, partial(TranslationScorer, config), device)


SPEC = TaskSpec(
    identify=identify,
    build=build,
    check=check,
    unread_in_training=SEARCH_SETTINGS | {"task.tuned_metric"},
)
