"""Words of a sentence pair: those of the annotated parse, of the spaces, or of a stated rule."""

import re

_WORDS = re.compile(
    r"""
      \w+?(?=n['’]t\b)          # the verb before n't: do|n't
    | n['’]t\b                  # the negation
    | ['’](?:s|m|d|re|ve|ll)\b  # a clitic: it|'s
    | \d+(?:[.,:]\d+)+          # 3.5, 1,000, 10:30
    | \w+(?:-\w+)*              # a word, hyphens inside it
    | [^\w\s]                   # any other mark by itself
    """,
    re.VERBOSE | re.IGNORECASE,
)


def parse_words(parse: str) -> list[str]:
    """Leaves of a binary parse such as ``( ( A dog ) ( runs . ) )``, in their order."""
    return [piece for piece in parse.split() if piece not in ("(", ")")]


def punctuation_words(sentence: str) -> list[str]:
    """Words, clitics and punctuation marks of raw text.

    ``n't`` and the clitics ``'s 'm 'd 're 've 'll`` are words; numbers keep inner points, commas
    and colons, words their inner hyphens; every other mark is a token. Text that is split so
    already, and joined by spaces, is split in the same way again.
    """
    return _WORDS.findall(sentence)
