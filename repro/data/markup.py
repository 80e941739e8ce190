"""Text in the markup of evaluation campaigns: transcripts with tags, segments of SGM and XML.

Both are read line by line with regular expressions, never by an XML parser: the files are often not
well-formed, and a parser would expand entities that a malicious file defines.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import unescape

from repro.data.parallel import stream_lines
from repro.errors import DataError

_HEADING = re.compile(r"<(title|description)>(.*?)(?:</\1>)?")
_SEGMENT_TAG = re.compile(r"<(/?)seg\b[^>]*>", re.IGNORECASE)
_QUOTES = {"&quot;": '"', "&apos;": "'"}
_COLUMNS = "|||"


def transcript_lines(path: Path, headings: bool = False) -> Iterator[str]:
    """Yield the lines of ``train.tags.<pair>.<language>`` of IWSLT that do not start with a tag.

    With ``headings``, titles and descriptions of the talks are yielded as well.

    Raises:
        DataError: the file is missing, or a line is not UTF-8.
    """
    for line in stream_lines(path):
        heading = _HEADING.fullmatch(line.strip()) if headings else None
        if heading:
            yield heading[2]
        elif not line.lstrip().startswith("<"):
            yield line


def segments(path: Path) -> Iterator[str]:
    """Yield the texts between ``<seg …>`` and ``</seg>``, with the five entities of XML resolved.

    Raises:
        DataError: the file is missing or has no segment, a segment is nested or lacks its start or
            end, or a line is not UTF-8; names the line.
    """
    parts: list[str] | None = None
    found = number = 0
    for number, line in enumerate(stream_lines(path), start=1):
        position = 0
        for tag in _SEGMENT_TAG.finditer(line):
            if bool(tag[1]) == (parts is None):
                where = "outside a segment" if parts is None else "inside a segment"
                raise DataError(f"{path}:{number}: {tag[0]} {where}")
            if parts is not None:
                lines = (part.strip() for part in (*parts, line[position : tag.start()]))
                yield unescape(" ".join(lines).strip(), _QUOTES)
                found += 1
            parts, position = (None if tag[1] else []), tag.end()
        if parts is not None:
            parts.append(line[position:])
    if parts is not None:
        raise DataError(f"{path}:{number}: the file ends inside a segment")
    if not found:
        raise DataError(f"{path}: contains no <seg> … </seg>")


def column(path: Path, index: int) -> Iterator[str]:
    """Yield the text before (0) or after (1) ``|||`` on every line.

    Raises:
        DataError: the file is missing, or a line does not have two columns.
    """
    for number, line in enumerate(stream_lines(path), start=1):
        columns = line.split(_COLUMNS)
        if len(columns) != 2:
            raise DataError(f"{path}:{number}: expected two columns joined by {_COLUMNS}")
        yield columns[index]
