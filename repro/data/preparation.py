"""Preparation of a parallel corpus in cached stages: vocabularies and ids.

Text is normalized and tokenized, split into subwords, counted for vocabularies and encoded. Each
stage is cached in a folder named by a digest of the corpus and of all settings up to that stage.
"""

import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path

from repro.atomic import atomic_write_json
from repro.config.schema.text_pairs import EncodingSettings, TextSettings
from repro.data.arrow import ArrowPairs, write_pairs
from repro.data.pair import Pair
from repro.data.parallel import ParallelCorpus, ParallelText, read_pairs, write_lines
from repro.data.segmentation import SubwordSegmenter, moses_tokenizer
from repro.data.stages import cached_stage, identity_digest
from repro.data.vocabulary import SINK, SPECIALS, Vocabulary, with_sink
from repro.errors import DataError

_VERSION = 2
"""Version of the stages, incremented when the output of one changes."""
_CODES = "source.codes"
_PRUNING_VERSION = 1
"""Version of the stage of pruned test sets, incremented when its output changes."""


@dataclass(frozen=True)
class PreparedCorpus:
    """Encoded corpus: vocabularies of both sides and ids.

    Attributes:
        splits: ids of every split, on disk.
        texts: tokens of every split, before segmentation into subwords.
        codes: merges of the source in the format of subword-nmt; empty without subwords.
        name: folder of the ids, named by a digest of all that determines them; empty if restored.
        cache: folder of the cached stages, alignments and taggers.
    """

    corpus: ParallelCorpus
    source: Vocabulary
    target: Vocabulary
    splits: dict[str, ArrowPairs]
    texts: dict[str, ParallelText]
    codes: str = ""
    name: str = ""
    cache: Path = Path()

    def splitter(self, text: TextSettings, side: int) -> Callable[[str], list[str]]:
        """Return a function that splits a line of new text into symbols as :func:`prepare` does.

        ``side`` is 0 for the source, 1 for the target.

        Raises:
            DataError: the merges of the target were learned separately and are not stored.
        """
        if side and text.merges and not text.joint:
            raise DataError("data.joint=false: the merges of the target are not stored")
        normalize = normalizers(self.corpus, text)[side]
        segment = SubwordSegmenter(self.codes) if text.merges else str
        return lambda line: segment(normalize(line)).split()


def prepare(
    corpus: ParallelCorpus,
    text: TextSettings,
    encoding: EncodingSettings,
    cache: Path,
    sink: bool = False,
) -> PreparedCorpus:
    """Prepare a corpus, running only the stages that are not cached.

    Text becomes tokens, then ids; with ``sink``, every source ends in
    :data:`~repro.data.vocabulary.SINK`.

    Raises:
        DataError: a line of the corpus is malformed, or no training pair is short enough.
    """
    start = _origin(corpus)
    identity = start | asdict(replace(text, merges=0, joint=True))
    write = partial(_write_words, corpus, text)
    words = pieces = cached_stage(cache, "words", identity, write, corpus.checksums)
    identity = start | asdict(text)
    if text.merges:
        pieces = cached_stage(cache, "subwords", identity, partial(_write_subwords, words, text))
    identity |= asdict(encoding) | {"sink": sink}
    encoded = cached_stage(cache, "encoded", identity, partial(_write_ids, pieces, encoding, sink))
    source, target = (
        Vocabulary(json.loads((encoded / f"{name}.json").read_text(encoding="utf-8")))
        for name in ("source", "target")
    )
    splits = {split: ArrowPairs(encoded / f"{split}.arrow") for split in corpus.splits}
    texts = {split: _files(words, split) for split in corpus.splits}
    codes = (pieces / _CODES).read_text(encoding="utf-8") if text.merges else ""
    return PreparedCorpus(corpus, source, target, splits, texts, codes, encoded.name, cache)


def _origin(corpus: ParallelCorpus) -> dict[str, object]:
    """Return the part of an identity that a corpus determines."""
    return {
        "version": _VERSION,
        "corpus": corpus.fingerprint,
        "languages": [corpus.source, corpus.target],
        "tokenised": corpus.tokenised,
        **({"unknown": list(corpus.unknown)} if corpus.unknown else {}),
    }


def strip_diacritics(text: str) -> str:
    """Remove diacritics from letters: Romanian "ș" becomes "s"."""
    parts = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(c for c in parts if not unicodedata.combining(c)))


def _files(folder: Path, split: str) -> ParallelText:
    return ParallelText(folder / f"{split}.source", folder / f"{split}.target")


def _splits(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.source"))


def _rewrite(
    text: ParallelText, change: Sequence[Callable[[str], str]], into: ParallelText
) -> None:
    """Write all pairs with one function of ``change`` applied to each side.

    Raises:
        DataError: nothing is left of a line; names the file of ``text`` and the line.
    """

    def changed() -> Iterator[tuple[str, str]]:
        for number, pair in enumerate(read_pairs(text), start=1):
            one, other = (apply(side) for apply, side in zip(change, pair, strict=True))
            if not (one and other):
                path = text.target if one else text.source
                raise DataError(f"{path}:{number}: no words; every line must be a sentence")
            yield one, other

    write_lines(changed(), into)


def _write_words(corpus: ParallelCorpus, settings: TextSettings, folder: Path) -> None:
    change = normalizers(corpus, settings)
    for split, text in corpus.splits.items():
        _rewrite(text, change, _files(folder, split))


def prune_tests(
    corpus: ParallelCorpus, text: TextSettings, longest: int | None, cache: Path
) -> ParallelCorpus:
    """Remove test pairs with more than ``longest`` tokens on one side; ``None`` keeps all.

    Tokens are counted before segmentation into subwords. The remaining pairs, with additional
    references, are written to a cached stage, so that hypotheses, references and all metrics use
    the same pairs.

    Raises:
        DataError: no pair of a test set is short enough.
    """
    if longest is None:
        return corpus
    words = replace(text, merges=0, joint=True)
    identity = _origin(corpus) | asdict(words) | {"version": _PRUNING_VERSION, "longest": longest}
    if not corpus.tokenised:  # left out, so that fingerprints in records stay valid
        del identity["tokenised"]

    def build(folder: Path) -> None:
        """Write ``<split>.0`` with the targets, ``<split>.<n>`` with each additional reference."""
        tokenize = normalizers(corpus, words)
        for split in corpus.tests:
            text = corpus.splits[split]
            kept = [
                all(len(t(side).split()) <= longest for t, side in zip(tokenize, pair, strict=True))
                for pair in read_pairs(text)
            ]
            if not any(kept):
                raise DataError(
                    f"data.max_test_length={longest} leaves no pair of {split}: one side of each "
                    "has more tokens"
                )
            for number, target in enumerate((text.target, *corpus.references.get(split, ()))):
                pairs = read_pairs(ParallelText(text.source, target))
                write_lines(compress(pairs, kept), _files(folder, f"{split}.{number}"))

    folder = cached_stage(cache, "pruned", identity, build, corpus.checksums)
    references = {
        split: tuple(_files(folder, f"{split}.{n}").target for n in range(1, 1 + len(paths)))
        for split, paths in corpus.references.items()
    }
    tests = {split: _files(folder, f"{split}.0") for split in corpus.tests}
    splits, digest = {**corpus.splits, **tests}, identity_digest(identity)
    return replace(corpus, splits=splits, references=references, fingerprint=digest)


def normalizers(
    corpus: ParallelCorpus, settings: TextSettings
) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Return functions that turn a line of the source and of the target into tokens."""
    unknown = dict.fromkeys(corpus.unknown, SPECIALS[Vocabulary.UNK])

    def normalize(text: str, side: str, language: str) -> str:
        if unknown:
            text = " ".join(unknown.get(word, word) for word in text.split())
        text = text.lower() if settings.lowercase else text
        text = strip_diacritics(text) if settings.strip_diacritics in (side, "both") else text
        return " ".join(text.split()) if corpus.tokenised else moses_tokenizer(language)(text)

    return (
        partial(normalize, side="source", language=corpus.source),
        partial(normalize, side="target", language=corpus.target),
    )


def _write_subwords(words: Path, settings: TextSettings, folder: Path) -> None:
    train = _files(words, "train")

    def learn(*sides: int) -> SubwordSegmenter:
        sentences = (pair[side] for side in sides for pair in read_pairs(train))
        return SubwordSegmenter.learn(sentences, settings.merges)

    if settings.joint:
        one = other = learn(0, 1)
    else:
        one, other = learn(0), learn(1)
    one.save(folder / _CODES)
    other.save(folder / "target.codes")
    for split in _splits(words):
        _rewrite(_files(words, split), (one, other), _files(folder, split))


def _write_ids(pieces: Path, settings: EncodingSettings, sink: bool, folder: Path) -> None:
    train = _files(pieces, "train")
    if all(max(len(side.split()) for side in p) > settings.max_length for p in read_pairs(train)):
        raise DataError(
            f"data.max_length={settings.max_length} leaves no training pair: "
            "one side of each has more symbols"
        )

    def frequent(*sides: int, extra: Sequence[str] = ()) -> Vocabulary:
        """Build a vocabulary of the most frequent symbols of these sides, then ``extra``."""
        words = (pair[side].split() for pair in read_pairs(train) for side in sides)
        kept = Vocabulary.build(words).tokens[: len(SPECIALS) + settings.vocabulary]
        return Vocabulary([*(token for token in kept if token not in extra), *extra])

    extra = [SINK] if sink else []
    if settings.shared:
        source = target = frequent(0, 1, extra=extra)
    else:
        source, target = frequent(0, extra=extra), frequent(1)
    for name, vocabulary in (("source", source), ("target", target)):
        atomic_write_json(folder / f"{name}.json", vocabulary.tokens)
    unknown = dict.fromkeys(extra, SPECIALS[Vocabulary.UNK])  # no word of a text is the sink
    for split in _splits(pieces):
        texts = read_pairs(_files(pieces, split))
        words = ([[unknown.get(w, w) for w in side.split()] for side in pair] for pair in texts)
        pairs = (
            Pair(source.encode(with_sink(first) if sink else first), target.encode(second))
            for first, second in words
            if split != "train" or max(len(first), len(second)) <= settings.max_length
        )
        write_pairs(folder / f"{split}.arrow", pairs)
