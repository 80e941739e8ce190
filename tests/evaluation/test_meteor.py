"""The call of the METEOR program, with a program of our own in its place."""

import stat

import numpy as np
import pytest

from repro.evaluation.meteor import (
    MeteorError,
    meteor,
    meteor_nltk,
    meteor_of_statistics,
    meteor_statistics,
    without_whole_matches,
)

SCRIPT = """#!/bin/sh
[ "$1 $2" = "-Xmx2G -jar" ] || exit 3
[ "$6 $7" = "-l en" ] || exit 4
lines=$(wc -l < "$4"); others=$(wc -l < "$5")
[ "$lines" = "$others" ] || exit 5
[ "$8" = "-ssOut" ] && { seq -s " " "${NUMBERS:-23}"; seq -s " " 23; exit 0; }
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


# What METEOR 1.5 printed for five made-up sentences, with -ssOut and without.
PRINTED = """
7 6 3 3 2 2 3 3 0 0 0 0 1 1 0 0 0 0 0 0 1 6 6
9 7 5 4 2 2 3 3 1 1 0 0 0 0 0 0 0 0 0 0 5 6 6
5 5 2 2 3 3 2 2 0 0 0 0 0 0 0 0 0 0 0 0 1 5 5
8 7 3 4 0 0 1 1 1 1 0 0 1 1 0 0 2 1 2 1 2 7 5
3 4 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""
SEGMENTS = [0.5317287154700722, 0.33470827750463056, 1.0, 0.30067916946827566, 0.0]
FINAL = 0.34929362751010923


def test_sums_of_statistics_give_the_score_of_the_program():
    rows = without_whole_matches(np.loadtxt(PRINTED.splitlines()))
    assert meteor_of_statistics(rows.sum(0)) == pytest.approx(100 * FINAL, rel=1e-12)
    assert meteor_of_statistics(rows) == pytest.approx([100 * score for score in SEGMENTS])
    assert meteor_of_statistics(np.zeros((2, 23))).tolist() == [0, 0]


def test_statistics_are_read_from_the_program(java):
    found = meteor_statistics(["a b", "c d"], ["a b", "c"], jar=java)
    assert found.tolist() == [[*range(1, 24)]] * 2


def test_other_output_than_statistics_is_refused(java, monkeypatch):
    with pytest.raises(MeteorError, match="expected 23 numbers for each sentence"):
        meteor_statistics(["a"], ["a"], jar=java)  # the stand-in prints two lines
    monkeypatch.setenv("NUMBERS", "22")
    with pytest.raises(MeteorError, match="expected 23 numbers for each sentence"):
        meteor_statistics(["a b", "c d"], ["a b", "c"], jar=java)


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
