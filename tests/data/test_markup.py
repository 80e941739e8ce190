"""Readers of the campaigns' markup, on files that each test writes."""

import pytest

from repro.data.markup import column, segments, transcript_lines
from repro.errors import DataError

TALK = """<url>http://www.example.org/talk</url>
<keywords>talks, sea</keywords>
<speaker>A. Speaker</speaker>
<talkid>7</talkid>
<title>A. Speaker: The sea & us</title>
<description>TED Talk: a < b.</description>
The sea is wide .
 It is deep, too.

"""


@pytest.fixture
def write(tmp_path):
    def make(content):
        path = tmp_path / "file"
        path.write_text(content, encoding="utf-8")
        return path

    return make


def test_transcripts_with_and_without_headings(write):
    path = write(TALK)
    sentences = ["The sea is wide .", " It is deep, too.", ""]
    headings = ["A. Speaker: The sea & us", "TED Talk: a < b."]
    assert list(transcript_lines(path)) == sentences
    assert list(transcript_lines(path, headings=True)) == headings + sentences


def test_segments_of_any_shape(write):
    path = write(
        '<?xml version="1.0"?>\n<srcset setid="x" srclang="any">\n<doc docid="1"><hl>\n'
        '<seg id="1"> Salt &amp; &lt;sea&gt; </seg>\n</hl><p>'
        '<seg id="2">One.</seg> <SEG id="3">Two &quot;&apos;&amp;amp;.</SEG></p>\n'
        '<seg id="4">Over\n  two lines</seg>\n<seg id="5"></seg>\n</doc></srcset>\n'
    )
    expected = ["Salt & <sea>", "One.", "Two \"'&amp;.", "Over two lines", ""]
    assert list(segments(path)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<doc>\nno text\n</doc>\n", "file: contains no <seg>"),
        ('a\n<seg id="1">b <seg id="2">c</seg>\n', r"file:2: <seg id=\"2\"> inside a segment"),
        ("<seg>a</seg>\nb</seg>\n", r"file:2: </seg> outside a segment"),
        ("<seg>a</seg>\n<seg>b\n\n", r"file:3: the file ends inside a segment"),
    ],
)
def test_malformed_segments_are_named(write, content, message):
    with pytest.raises(DataError, match=message):
        list(segments(write(content)))


def test_columns(write):
    path = write("meri ||| sea\nsuola ||| salt\n")
    assert [text.strip() for text in column(path, 0)] == ["meri", "suola"]
    assert [text.strip() for text in column(path, 1)] == ["sea", "salt"]
    with pytest.raises(DataError, match=r"file:2: expected two columns"):
        list(column(write("a ||| b\nc\n"), 0))
