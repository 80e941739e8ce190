"""Pruned test sets: which pairs stay, and that every file of a test set loses the same lines."""

from pathlib import Path

import pytest

from repro.config.schema.text_pairs import TextSettings
from repro.data.parallel import ParallelCorpus, ParallelText, read_pairs
from repro.data.preparation import prune_tests
from repro.errors import DataError

SOURCES = ["ein haus", "ein sehr großes haus", "haus", "ja"]
TARGETS = ["a house", "a house", "one really large house", "yes"]
FURTHER = ["the house", "the big house", "the large house", "yes indeed it is so"]


@pytest.fixture
def corpus(tmp_path: Path) -> ParallelCorpus:
    def write(name: str, lines: list[str]) -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return path

    pairs = ParallelText(write("a", SOURCES), write("b", TARGETS))
    splits = dict.fromkeys(("train", "dev", "test", "test_other"), pairs)
    references = {"test": (write("c", FURTHER),)}
    return ParallelCorpus("own", "de", "en", splits, True, "f" * 8, references)


def test_every_file_of_a_test_set_loses_the_same_pairs(corpus, tmp_path):
    pruned = prune_tests(corpus, TextSettings(), 2, tmp_path / "cache")
    kept = [("ein haus", "a house"), ("ja", "yes")]
    for split in ("test", "test_other"):
        assert list(read_pairs(pruned.splits[split])) == kept
    (further,) = pruned.references["test"]
    assert further.read_text("utf-8").splitlines() == [FURTHER[0], FURTHER[3]]
    for split in ("train", "dev"):
        assert pruned.splits[split] == corpus.splits[split]


def test_limits_are_told_apart_and_none_changes_nothing(corpus, tmp_path):
    assert prune_tests(corpus, TextSettings(), None, tmp_path) is corpus
    two, four = (prune_tests(corpus, TextSettings(), n, tmp_path / "cache") for n in (2, 4))
    assert len({corpus.fingerprint, two.fingerprint, four.fingerprint}) == 3
    assert len(list(read_pairs(four.splits["test"]))) == len(SOURCES)


def test_tokens_are_counted_after_tokenization(corpus, tmp_path):
    for path, line in zip(corpus.splits["test"], ("ja!", "yes!"), strict=True):
        path.write_text(f"{line}\n{line[:-1]}\n", "utf-8")
    plain = ParallelCorpus("own", "de", "en", corpus.splits, False, "f" * 8)
    pruned = prune_tests(plain, TextSettings(), 1, tmp_path / "cache")
    assert list(read_pairs(pruned.splits["test"])) == [("ja", "yes")]


def test_a_test_set_is_never_emptied(corpus, tmp_path):
    corpus.splits["test"].source.write_text("ein sehr großes haus\n" * 4, "utf-8")
    with pytest.raises(DataError, match=r"max_test_length=2 leaves no pair of test"):
        prune_tests(corpus, TextSettings(), 2, tmp_path / "cache")
