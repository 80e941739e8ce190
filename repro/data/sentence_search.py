"""Search for sentences in a corpus, irrespective of case, tokenization and subwords."""

import html
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

from repro.data.pair import Pair
from repro.data.segmentation import SEPARATOR
from repro.data.vocabulary import SINK, SPECIALS, Vocabulary


def sentence_key(text: str) -> str:
    """Return letters and digits in lower case, which all tokenizations of a sentence share.

    Entities such as ``&apos;``, which the Moses tokenizer writes, are resolved first.
    """
    return "".join(letter for letter in html.unescape(text).lower() if letter.isalnum())


def sentence_digest(text: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of :func:`sentence_key`.

    Configurations name sentences of corpora, which are not part of the suite, by this digest. A
    text that is such a digest stands for itself.
    """
    is_digest = re.fullmatch("[0-9a-f]{16}", text)
    return text if is_digest else sha256(sentence_key(text).encode()).hexdigest()[:16]


def preference(names: Iterable[str], prefer: Sequence[str]) -> int:
    """Return the index in ``prefer`` of the first text among ``names``, else ``len(prefer)``.

    Texts of ``prefer`` may be digests.
    """
    keys = {sentence_digest(name) for name in names}
    return next((n for n, text in enumerate(prefer) if sentence_digest(text) in keys), len(prefer))


def first_or_named(texts: Iterable[str], first: int, named: Iterable[str]) -> list[int]:
    """Return the positions below ``first`` and those of the texts (or digests) in ``named``."""
    wanted = {*map(sentence_digest, named)}
    return [n for n, text in enumerate(texts) if n < first or sentence_digest(text) in wanted]


def find_pairs(
    pairs: Iterable[Pair], source: Vocabulary, target: Vocabulary, wanted: Iterable[str]
) -> dict[str, int]:
    """Find the position of the first pair with each wanted sentence on one side, if there is one.

    A sentence, of which case, spaces and punctuation do not matter, may be given by its digest.
    The sink is not part of a sentence, and unknown words match nothing.
    """
    rest = {sentence_digest(text): text for text in wanted if sentence_key(text)}
    keys, other_keys = _token_keys(source), _token_keys(target)
    found: dict[str, int] = {}
    for position, pair in enumerate(pairs):
        if not rest:
            break
        sides = map(keys.__getitem__, pair.source), map(other_keys.__getitem__, pair.target)
        digests = {sha256("".join(side).encode()).hexdigest()[:16] for side in sides}
        found |= {rest.pop(digest): position for digest in digests & rest.keys()}
    return found


def _token_keys(vocabulary: Vocabulary) -> list[str]:
    """Return the key of each token; that of a sentence is the concatenation over its tokens."""
    blank = {*SPECIALS, SINK}
    keys = [
        "" if token in blank else sentence_key(token.removesuffix(SEPARATOR))
        for token in vocabulary.tokens
    ]
    keys[Vocabulary.UNK] = SPECIALS[Vocabulary.UNK]  # matches nothing: no key has brackets
    return keys
