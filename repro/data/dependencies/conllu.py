"""CoNLL-U: sentences with dependency trees, ten columns per word, read without loss.

References:
    Nivre et al. (2016), Universal Dependencies v1; format of release 2.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import zip_longest
from pathlib import Path

from repro.atomic import atomic_write_text
from repro.data.files import decoded_lines
from repro.errors import DataError

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
HEAD, DEPREL, DEPS, MISC = map(COLUMNS.index, ("HEAD", "DEPREL", "DEPS", "MISC"))
UNSPECIFIED = "_"
_WORD = re.compile(r"[1-9][0-9]*")
# At most nine digits: Python refuses to convert strings of more than 4,300 digits to int.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")

Row = tuple[str, ...]


@dataclass(frozen=True)
class Sentence:
    """Sentence, with the text exactly as in the file.

    Attributes:
        comments: the lines before the words, with their ``#``.
        rows: the columns of every line: words, ranges of multiword tokens and empty nodes.
        words: the rows of the words only, which are the vertices of the tree.
    """

    comments: tuple[str, ...]
    rows: tuple[Row, ...]
    words: tuple[Row, ...]

    @property
    def heads(self) -> list[int]:
        """Position of the head of each word, counted from one; 0 for the word below the root."""
        return [int(row[HEAD]) for row in self.words]

    def column(self, name: str) -> list[str]:
        """Return the values of a column, named as in :data:`COLUMNS`, of all words."""
        return [row[COLUMNS.index(name)] for row in self.words]

    @property
    def identifier(self) -> str:
        """Value of the comment ``# sent_id = …``; empty without one."""
        found = (re.fullmatch(r"#\s*sent_id\s*=\s*(.*)", line) for line in self.comments)
        return next((match.group(1) for match in found if match), "")


def parse_conllu(content: bytes, path: Path) -> list[Sentence]:
    """Read sentences and check that each is a tree with a single word below the root.

    Args:
        content: UTF-8, with or without a byte order mark; lines end with LF (or CR LF), every
            sentence with an empty line.
        path: the file, for messages.

    Raises:
        DataError: a line is malformed or a sentence is not such a tree; names the file, the line
            and what was expected.
    """
    lines = decoded_lines(BytesIO(content), path)
    sentences = [one for _, one in read_sentences(lines, path)]
    if not sentences:
        raise DataError(f"{path} is empty: expected sentences in CoNLL-U")
    return sentences


def read_sentences(
    numbered: Iterable[tuple[int, str]], path: Path, trees: bool = True
) -> Iterator[tuple[int, Sentence]]:
    """Yield sentences with the numbers of their first lines; see :func:`parse_conllu`.

    Args:
        numbered: lines with their numbers.
        path: the file, for messages.
        trees: whether heads are read and checked; without, HEAD becomes 0 and the last sentence
            need not end with an empty line.
    """
    lines: list[tuple[int, str]] = []
    for number, line in numbered:
        if line:
            lines.append((number, line))
        elif lines:
            yield lines[0][0], _sentence(lines, path, trees)
            lines = []
        else:
            raise DataError(f"{path}:{number}: expected a sentence, found a second empty line")
    if lines and trees:
        raise DataError(f"{path}:{lines[-1][0]}: expected an empty line after the last sentence")
    if lines:
        yield lines[0][0], _sentence(lines, path, trees)


def format_sentence(sentence: Sentence, heads: Sequence[int], notes: Sequence[str] = ()) -> str:
    """Format one sentence with predicted heads, including the empty line that ends it.

    The heads replace the gold ones, and the columns DEPREL and DEPS become ``_``: an
    unlabeled parser predicts no relations, and gold relations on predicted heads would yield a
    meaningless labeled score. Words, lemmas, tags and features are kept. MISC of each word gets its
    note, unless that is empty.

    Raises:
        ValueError: the numbers of heads and of words differ.
    """
    if len(heads) != len(sentence.words):
        raise ValueError(f"{len(heads)} heads for {len(sentence.words)} words")
    lines, following = list(sentence.comments), zip_longest(heads, notes, fillvalue="")
    for row in sentence.rows:
        columns = list(row)
        columns[DEPREL] = columns[DEPS] = UNSPECIFIED
        if _WORD.fullmatch(row[0]):
            head, note = next(following)
            columns[HEAD] = str(head)
            kept = "" if columns[MISC] == UNSPECIFIED else columns[MISC]
            columns[MISC] = "|".join(filter(None, (kept, note))) or UNSPECIFIED
        lines.append("\t".join(columns))
    return "\n".join(lines) + "\n\n"


def write_conllu(
    path: Path,
    sentences: Sequence[Sentence],
    heads: Sequence[Sequence[int]],
    notes: Sequence[Sequence[str]],
) -> None:
    """Write sentences with predicted heads atomically; see :func:`format_sentence`."""
    triples = zip(sentences, heads, notes, strict=True)
    atomic_write_text(path, "".join(format_sentence(*triple) for triple in triples))


def _sentence(lines: Sequence[tuple[int, str]], path: Path, tree: bool) -> Sentence:
    """Read the numbered lines between two empty lines."""
    comments = tuple(line for _, line in lines if line.startswith("#"))
    rows: list[Row] = []
    words: list[Row] = []
    numbers = []
    for number, line in lines:
        if line.startswith("#") and not rows:
            continue
        try:
            row = _row(line, len(words), rows, tree)
        except ValueError as error:
            raise DataError(f"{path}:{number}: {error}") from None
        rows.append(row)
        if _WORD.fullmatch(row[0]):
            words.append(row)
            numbers.append(number)
    if not words:
        raise DataError(f"{path}:{lines[0][0]}: expected a sentence with words")
    sentence = Sentence(comments, tuple(rows), tuple(words))
    if not tree:
        return sentence
    # A tree: every head is another word or the root, one word is below the root, and all words are
    # reached from it.
    heads = sentence.heads
    children: dict[int, list[int]] = {}
    for position, (head, number) in enumerate(zip(heads, numbers, strict=True), start=1):
        if head > len(heads) or head == position:
            raise DataError(
                f"{path}:{number}: word {position} has the head {head}; expected 0 (the root) or "
                f"another word of the {len(heads)}"
            )
        children.setdefault(head, []).append(position)
    roots = children.get(0, [])
    if len(roots) != 1:
        raise DataError(
            f"{path}:{lines[0][0]}: expected one word below the root, found {len(roots)}: {roots}"
        )
    lost, waiting = set(range(1, len(heads) + 1)), roots
    while waiting:
        lost.difference_update(waiting)
        waiting = [child for word in waiting for child in children.get(word, [])]
    if lost:
        number = numbers[min(lost) - 1]
        raise DataError(f"{path}:{number}: expected a tree, found a cycle above word {min(lost)}")
    return sentence


def _row(line: str, words: int, rows: Sequence[Row], tree: bool) -> Row:
    """Split a line into columns and check them, also against the preceding rows."""
    if line.startswith("#"):
        raise ValueError("expected comments before the words only")
    row = tuple(line.split("\t"))
    if len(row) != len(COLUMNS):
        raise ValueError(f"expected {len(COLUMNS)} columns joined by TAB, found {len(row)}")
    if not all(row):
        raise ValueError(f"column {COLUMNS[row.index('')]} is empty; expected a value or _")
    following = str(words + 1)
    if row[0] != following:
        span = _RANGE.fullmatch(row[0])
        # Empty nodes are counted from one after each word.
        _, _, last_empty = (rows[-1][0] if rows else "").partition(".")
        is_empty = row[0] == f"{words}.{int(last_empty or 0) + 1}"
        if not is_empty and not (span and span[1] == following and int(span[2]) > words):
            raise ValueError(
                f"expected the ID {following}, a range {following}-… or an empty node {words}.…, "
                f"found {row[0][:40]!r}"
            )
    if not tree:
        row = (*row[:HEAD], "0" if _WORD.fullmatch(row[0]) else row[HEAD], *row[HEAD + 1 :])
    if _WORD.fullmatch(row[0]) and not _NUMBER.fullmatch(row[HEAD]):
        raise ValueError(f"expected an integer as HEAD, found {row[HEAD][:40]!r}")
    return row
