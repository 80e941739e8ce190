import json
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.data.corpora.inference import MULTINLI, SNLI
from repro.data.nli import (
    LABELS,
    NliExample,
    NliReading,
    archive_files,
    check_size,
    fingerprint,
    halves,
    load_nli,
    punctuation_words,
    read_file,
    read_unlabeled,
)
from repro.errors import DataError

ANY = NliReading(check_size=False)
RECORD = {
    "gold_label": "entailment",
    "sentence1": "Two dogs don't run.",
    "sentence2": "Dogs rest",
    "pairID": "p1",
}
PARSED = RECORD | {
    "gold_label": "contradiction",
    "sentence1_binary_parse": "( ( Two dogs ) ( ( ( do n't ) run ) . ) )",
    "sentence2_binary_parse": "( Dogs rest )",
}


def write_lines(path: Path, records: list[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def named(number: int, **changes: str) -> dict[str, str]:
    return RECORD | {"pairID": f"p{number}"} | changes


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    for part in ("train", "dev", "test"):
        path = tmp_path / "snli_1.0" / f"snli_1.0_{part}.jsonl"
        write_lines(path, [named(1, gold_label="-"), named(2, sentence2=f"it is {part}")])
    write_lines(tmp_path / "multinli_1.0" / "multinli_1.0_train.jsonl", [RECORD])
    matched = [named(number) for number in range(7)]
    write_lines(tmp_path / "multinli_1.0" / "multinli_1.0_dev_matched.jsonl", matched)
    return tmp_path


def test_snli_keeps_labeled_pairs_of_each_part(corpora):
    corpus = load_nli(SNLI, corpora, ANY)
    for part in ("train", "dev", "test"):
        (example,) = getattr(corpus, part)
        assert example.hypothesis == ("it", "is", part)
        assert (example.pair_id, LABELS[example.label]) == ("p2", "entailment")
    assert load_nli(SNLI, corpora / "snli_1.0", ANY) == corpus


def test_fingerprint_follows_every_file(corpora):
    before = fingerprint(archive_files(SNLI, corpora))
    for part in ("train", "dev", "test"):
        path = corpora / "snli_1.0" / f"snli_1.0_{part}.jsonl"
        content = path.read_bytes()
        path.write_bytes(content + content)
        assert fingerprint(archive_files(SNLI, corpora)) != before
        path.write_bytes(content)
    assert fingerprint(archive_files(SNLI, corpora)) == before


def test_multinli_halves_follow_the_hash_of_the_pair(corpora):
    corpus = load_nli(MULTINLI, corpora, ANY)
    by_hash = sorted(range(7), key=lambda number: sha256(f"p{number}".encode()).hexdigest())
    assert [example.pair_id for example in corpus.dev] == [f"p{n}" for n in sorted(by_hash[:4])]
    assert [example.pair_id for example in corpus.test] == [f"p{n}" for n in sorted(by_hash[4:])]
    assert len(corpus.train) == 1


@given(st.lists(st.text(max_size=3), unique=True, max_size=20))
def test_halves_are_equal_and_do_not_depend_on_the_order(names):
    examples = [NliExample(name, ("a",), ("b",), 0) for name in names]
    first, second = halves(examples)
    assert len(first) - len(second) == len(names) % 2
    by_name = attrgetter("pair_id")
    assert sorted([*first, *second], key=by_name) == sorted(examples, key=by_name)
    backwards = halves(examples[::-1])
    assert (backwards[0][::-1], backwards[1][::-1]) == (first, second)


def test_halves_refuse_duplicate_names():
    example = NliExample("p9", ("a",), ("b",), 0)
    with pytest.raises(DataError, match="duplicates: \\['p9'\\]"):
        halves([example, example])


def test_provided_words_are_those_of_the_parse(tmp_path):
    path = write_lines(tmp_path / "x.jsonl", [PARSED, RECORD])
    parsed, plain = read_file(path, ANY)
    assert parsed.premise == ("Two", "dogs", "do", "n't", "run", ".")
    assert plain.premise == ("Two", "dogs", "don't", "run.")
    assert LABELS[parsed.label] == "contradiction"


def test_punctuation_rule_and_lower_case(tmp_path):
    path = write_lines(tmp_path / "x.jsonl", [PARSED])
    (example,) = read_file(path, NliReading("punctuation", True, False))
    assert example.premise == ("two", "dogs", "do", "n't", "run", ".")
    assert example.hypothesis == ("dogs", "rest")


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("It's 3.5 miles, isn't it?", ["It", "'s", "3.5", "miles", ",", "is", "n't", "it", "?"]),
        ("a t-shirt (red)", ["a", "t-shirt", "(", "red", ")"]),
        ("he can’t go...", ["he", "ca", "n’t", "go", ".", ".", "."]),
        ("do n't you 've '", ["do", "n't", "you", "'ve", "'"]),
        ("", []),
    ],
)
def test_punctuation_words(sentence, words):
    assert punctuation_words(sentence) == words


@given(st.text(alphabet="abnts3.,'’-:! ", max_size=25))
def test_punctuation_words_lose_nothing_and_are_stable(sentence):
    words = punctuation_words(sentence)
    assert "".join(words) == "".join(sentence.split())
    assert punctuation_words(" ".join(words)) == words


def test_words_of_a_parse_skip_brackets_only(tmp_path):
    record = PARSED | {"sentence1_binary_parse": "( ( ( -LRB- a ) (x ) . )"}
    (example,) = read_file(write_lines(tmp_path / "x.jsonl", [record]), ANY)
    assert example.premise == ("-LRB-", "a", "(x", ".")


LONG = json.dumps(RECORD | {"sentence2": "a " * 1001}).encode()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", r"expected a JSON object \(Expecting"),
        (rb'{"pairID": "\ud800"}', "expected text .* lone surrogate"),
        (b"[]", "expected a JSON object, found list"),
        (b'{"gold_label": 1}', "expected a text under 'gold_label', found int"),
        (b'{"gold_label": "maybe"}', "expected the label entailment, .* 'maybe'"),
        (b'{"gold_label": "neutral"}', "expected a text under 'pairID', found NoneType"),
        (b'{"gold_label": "neutral", "pairID": "1"}', ".* under 'sentence1', found NoneType"),
        (b'{"gold_label": "\xff"}', r"not UTF-8 \(byte 17\)"),
        (LONG, r"the hypothesis has 1,001 words.*data\.max_words"),
    ],
)
def test_malformed_lines_are_named(tmp_path, line, message):
    path = write_lines(tmp_path / "x.jsonl", [RECORD])
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(DataError, match=rf"x\.jsonl:2: {message}"):
        read_file(path, ANY)


def test_files_without_labels_or_missing_are_refused(tmp_path):
    path = write_lines(tmp_path / "x.jsonl", [named(1, gold_label="-")])
    with pytest.raises(DataError, match=r"x.jsonl holds no labeled pair"):
        read_file(path, ANY)
    with pytest.raises(DataError, match=r"no snli_1.0/snli_1.0_train.jsonl .*data fetch snli"):
        load_nli(SNLI, tmp_path, ANY)


def test_an_incomplete_corpus_is_refused_before_reading(corpora):
    (corpora / "snli_1.0" / "snli_1.0_train.jsonl").write_text("broken")
    (corpora / "snli_1.0" / "snli_1.0_test.jsonl").unlink()
    with pytest.raises(DataError, match=r"missing: .*snli_1.0_test.jsonl"):
        load_nli(SNLI, corpora, ANY)


def test_sizes(corpora):
    with pytest.raises(
        DataError, match=r"snli train: 1 labeled pairs, .* has 549367; .*data\.check_size=false"
    ):
        load_nli(SNLI, corpora, NliReading())
    check_size(SNLI, "dev", 9842, NliReading())
    check_size(MULTINLI, "dev_matched", 9815, NliReading())
    with pytest.raises(DataError, match="multinli dev_matched: 9814"):
        check_size(MULTINLI, "dev_matched", 9814, NliReading())


def test_long_inputs_are_measured_by_prediction_alone():
    """Advice about training pairs would not help: an input is not left out."""
    lengths: list[int] = []
    lines = [(1, "a " * 1200 + "\tb")]
    (pair,) = read_unlabeled(lines, Path("x"), ANY, False, lambda words: lengths.append(len(words)))
    assert lengths == [len(pair.premise), 1] == [1200, 1]


def test_long_training_pairs_are_left_out_where_that_is_asked_for(corpora):
    train = corpora / "multinli_1.0" / "multinli_1.0_train.jsonl"
    write_lines(train, [named(1), named(2, sentence1="a " * 2000), named(3, sentence2="a b c d e")])
    reading = NliReading(check_size=False, max_words=4)
    corpus = load_nli(MULTINLI, corpora, reading)
    assert [example.pair_id for example in corpus.train] == ["p1"]
    assert len(corpus.dev) + len(corpus.test) == 7
    five = load_nli(MULTINLI, corpora, NliReading(check_size=False, max_words=5))
    assert [example.pair_id for example in five.train] == ["p1", "p3"]
