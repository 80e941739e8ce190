"""Test sets without their long pairs, as some papers evaluate."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import compress
from pathlib import Path

from repro.config.schema.text_pairs import TextSettings
from repro.data.errors import DataError
from repro.data.parallel import ParallelCorpus, ParallelText, read_pairs, write_lines
from repro.data.preparation import normalisers
from repro.data.stages import cached_stage, identity_digest

_VERSION = 1
"""Raised when the stage changes what it writes."""


def prune_tests(
    corpus: ParallelCorpus, text: TextSettings, longest: int | None, cache: Path
) -> ParallelCorpus:
    """Leave out the test pairs of which one side has more than ``longest`` tokens.

    The pairs that stay are written to a cached stage, further references included, so that
    hypotheses, references and all metrics see the same pairs.

    Args:
        corpus: whose test sets to prune.
        text: how text becomes tokens, which are counted before they are split into subwords.
        longest: ``None`` returns the corpus as it is.
        cache: where stages are kept.

    Raises:
        DataError: no pair of a test set is short enough.
    """
    if longest is None:
        return corpus
    words = replace(text, merges=0, joint=True)
    identity = {
        "version": _VERSION,
        "corpus": corpus.fingerprint,
        "languages": [corpus.source, corpus.target],
        "longest": longest,
        **asdict(words),
    }
    build = partial(_write, corpus, words, longest)
    folder = cached_stage(cache, "pruned", identity, build)
    references = {
        split: tuple(_files(folder, split, n).target for n in range(1, 1 + len(paths)))
        for split, paths in corpus.references.items()
    }
    return replace(
        corpus,
        splits={**corpus.splits, **{split: _files(folder, split, 0) for split in corpus.tests}},
        references=references,
        fingerprint=identity_digest(identity),
    )


def _files(folder: Path, split: str, number: int) -> ParallelText:
    """The sources of a split with its targets (0), or with one of its further references."""
    return ParallelText(folder / f"{split}.{number}.source", folder / f"{split}.{number}.target")


def _write(corpus: ParallelCorpus, words: TextSettings, longest: int, folder: Path) -> None:
    for split in corpus.tests:
        text = corpus.splits[split]
        kept = list(_short(corpus, text, words, longest))
        if not any(kept):
            raise DataError(
                f"data.max_test_length={longest} leaves no pair of {split}: one side of each "
                "has more tokens"
            )
        for number, target in enumerate((text.target, *corpus.references.get(split, ()))):
            pairs = read_pairs(ParallelText(text.source, target))
            write_lines(compress(pairs, kept), _files(folder, split, number))


def _short(
    corpus: ParallelCorpus, text: ParallelText, words: TextSettings, longest: int
) -> Iterator[bool]:
    """Return whether both sides of each pair have at most ``longest`` tokens."""
    tokenise = normalisers(corpus, words)
    for pair in read_pairs(text):
        yield all(len(t(side).split()) <= longest for t, side in zip(tokenise, pair, strict=True))
