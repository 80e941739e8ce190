"""Search for given sentences in a corpus, whatever its case, tokenisation and subwords."""

import html
from collections.abc import Iterable, Sequence

from repro.data.pair import Pair
from repro.data.segmentation import SEPARATOR
from repro.data.vocabulary import SPECIALS, Vocabulary


def sentence_key(text: str) -> str:
    """Letters and digits in lower case: equal for all tokenisations and subwords of a sentence.

    Entities such as ``&apos;``, which the Moses tokeniser writes, are undone first.
    """
    return "".join(letter for letter in html.unescape(text).lower() if letter.isalnum())


def preference(names: Iterable[str], prefer: Sequence[str]) -> int:
    """Position in ``prefer`` of the first text that is one of the names, else its length."""
    keys = {sentence_key(name) for name in names}
    return next((n for n, text in enumerate(prefer) if sentence_key(text) in keys), len(prefer))


def find_pairs(
    pairs: Iterable[Pair],
    source: Vocabulary,
    target: Vocabulary,
    wanted: Iterable[str],
    ignored: Sequence[str] = (),
) -> dict[str, int]:
    """Position of the first pair one side of which is a wanted sentence.

    Args:
        pairs: ids of both sides.
        source: vocabulary of the sources.
        target: vocabulary of the targets.
        wanted: sentences; case, spaces and punctuation do not matter.
        ignored: tokens that are no part of a sentence. Unknown words match nothing.

    Returns:
        Wanted sentence to position; sentences that no pair has are left out.
    """
    rest = {key: text for text in wanted if (key := sentence_key(text))}
    keys, other_keys = _token_keys(source, ignored), _token_keys(target, ignored)
    found: dict[str, int] = {}
    for position, pair in enumerate(pairs):
        if not rest:
            break
        ours = "".join(map(keys.__getitem__, pair.source))
        theirs = "".join(map(other_keys.__getitem__, pair.target))
        found |= {rest.pop(key): position for key in {ours, theirs} & rest.keys()}
    return found


def _token_keys(vocabulary: Vocabulary, ignored: Sequence[str]) -> list[str]:
    """Key of each token: a sentence is the concatenation of its tokens."""
    blank = {*SPECIALS, *ignored}
    keys = [
        "" if token in blank else sentence_key(token.removesuffix(SEPARATOR))
        for token in vocabulary.tokens
    ]
    keys[Vocabulary.UNK] = SPECIALS[Vocabulary.UNK]  # its brackets are in no key
    return keys
