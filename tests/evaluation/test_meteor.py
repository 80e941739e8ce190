"""The call of the METEOR program, with a program of our own in its place."""

import stat

import pytest

from repro.evaluation.meteor import MeteorError, meteor, meteor_nltk

SCRIPT = """#!/bin/sh
[ "$1 $2" = "-Xmx2G -jar" ] || exit 3
[ "$6 $7" = "-l en" ] || exit 4
lines=$(wc -l < "$4"); others=$(wc -l < "$5")
[ "$lines" = "$others" ] || exit 5
grep -q boom "$4" && { echo "no data" >&2; exit 1; }
echo "Segment 1 score: 0.1"
echo "Final score:            0.25"
"""


@pytest.fixture
def java(tmp_path, monkeypatch):
    """A stand-in for Java that checks its arguments, and a jar."""
    path = tmp_path / "bin" / "java"
    path.parent.mkdir()
    path.write_text(SCRIPT, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    jar = tmp_path / "meteor-1.5.jar"
    jar.write_bytes(b"")
    return jar


def test_the_final_score_is_read_in_percent(java):
    lines = ["a b", "c\nd"], ["a b", "c d"]
    assert meteor(*lines, jar=java, language="en") == pytest.approx(25.0)


def test_a_failure_shows_what_the_program_said(java):
    with pytest.raises(MeteorError, match="no data"):
        meteor(["boom"], ["a"], jar=java, language="en")


def test_missing_jar_and_missing_java_are_named(java, tmp_path, monkeypatch):
    with pytest.raises(MeteorError, match=r"nowhere\.jar is missing"):
        meteor(["a"], ["a"], jar=tmp_path / "nowhere.jar", language="en")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MeteorError, match="no `java` on the PATH"):
        meteor(["a"], ["a"], jar=java, language="en")


def test_lists_of_different_length_are_refused(java):
    with pytest.raises(ValueError, match="as many translations"):
        meteor(["a"], [], jar=java, language="en")


def test_meteor_of_nltk_is_the_formula_of_2007_over_exact_and_stem_matches():
    gold = ["one", "cat", "sat", "on", "a", "mat"]
    ours = ["on", "a", "Mat", "sat", "one", "dog"]
    # "on a mat", "sat" and "one" match: 5 words in 3 chunks, of 6 words on each side
    expected = [5 / 6 * (1 - 0.5 * (3 / 5) ** 3), 1 - 0.5 * (1 / 2) ** 3, 0.0]
    scores = meteor_nltk([ours, ["running", "dogs"], []], [gold, ["runs", "dog"], ["a"]])
    assert scores[:, 0] == pytest.approx(expected)
    assert scores[:, 1].tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="shorter"):
        meteor_nltk([["a"]], [["a"], ["b"]])


def test_meteor_of_nltk_asks_for_no_wordnet():
    """Words of one meaning do not match, whether or not WordNet is installed."""
    assert meteor_nltk([["car"]], [["automobile"]])[0, 0] == 0.0
