"""Machine translation (Malaviya et al., 2018; Peters et al., 2019; Niculae & Blondel, 2017)."""

from functools import lru_cache
from pathlib import Path

from repro.config.schema.text_pairs import SEARCH_SETTINGS, NmtRun
from repro.data.corpora import declared
from repro.data.corpora.translation import ParallelTexts
from repro.data.demo.translation import DEMO, write_translation_demo
from repro.data.parallel import ParallelCorpus, open_folder
from repro.data.translation import open_corpus
from repro.tasks.common import FolderState, corpus_folder
from repro.tasks.protocol import CorpusIdentity, TaskSpec, imported


def identify(config: NmtRun) -> CorpusIdentity:
    """Find (or generate) the corpus of a configuration and return its identity."""
    corpus = parallel_corpus(config)
    return CorpusIdentity(f"{corpus.name} {corpus.source}-{corpus.target}", corpus.fingerprint)


def parallel_corpus(config: NmtRun) -> ParallelCorpus:
    """Find the files of the corpus of a configuration.

    Raises:
        DataError: the corpus is unknown, missing or not of the expected size.
    """
    data = config.data
    folder = corpus_folder(config, data.corpus, DEMO.name, write_translation_demo, data.seed)
    if data.folder is not None:
        return open_folder(folder, data.source, data.target, tokenised=data.tokenised)
    cache = config.corpora_path.resolve() / "prepared"
    name = None if data.generated else data.corpus
    return _open(name, FolderState.of(folder), data.source, data.target, data.check_size, cache)


@lru_cache(maxsize=8)
def _open(
    name: str | None, folder: FolderState, source: str, target: str, check_sizes: bool, cache: Path
) -> ParallelCorpus:
    corpus = DEMO if name is None else declared(ParallelTexts, "data.corpus", name)
    return open_corpus(corpus, folder.path, source, target, check_sizes=check_sizes, cache=cache)


SPEC = TaskSpec(
    identify=identify,
    build=imported("repro.tasks.nmt.task:NmtTask"),
    check=imported("repro.tasks.nmt.task:check"),
    restore=imported("repro.tasks.nmt.task:NmtTask"),
    unread_in_training=SEARCH_SETTINGS | {"task.tuned_metric"},
)
