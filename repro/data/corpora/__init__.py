"""Declarations of all corpora.

They are collected from ``CORPORA`` of the modules of this folder and of ``REPRO_EXTENSIONS``.
"""

from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from repro.config.paths import declared_in, extended
from repro.data.corpora.corpus import Corpus, Download, HubCorpus, HubFiles
from repro.errors import DataError

__all__ = ["Corpus", "Download", "HubCorpus", "HubFiles", "declared", "declared_corpora"]

__path__ += extended(__name__)

CorpusT = TypeVar("CorpusT", bound=Corpus)


@cache
def declared_corpora() -> Mapping[str, Corpus]:
    """Return every declared corpus by its name.

    Raises:
        ConfigError: two corpora have the same name.
    """
    return declared_in(__name__, __path__, "CORPORA", Corpus)


def declared(kind: type[CorpusT], key: str, name: str) -> CorpusT:
    """Return the declaration of a corpus of a kind; ``key`` is the setting that names it.

    Raises:
        DataError: there is no such corpus of this kind.
    """
    choices = {one.name: one for one in declared_corpora().values() if isinstance(one, kind)}
    if name not in choices:
        known = ", ".join(sorted(choices))
        raise DataError(f"{key}={name}: no such corpus; choose from: {known}")
    return choices[name]
