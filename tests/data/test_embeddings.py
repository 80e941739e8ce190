from pathlib import Path

import pytest
import torch
from torch import Tensor

from repro.config.schema.nli import WordVectorConfig
from repro.data.embeddings import glove_fingerprint, glove_vectors, place_vectors, read_glove
from repro.data.files import sha256_of
from repro.data.vocabulary import SPECIALS, Vocabulary
from repro.errors import DataError

VOCABULARY = Vocabulary([*SPECIALS, "dog", "cat", "née", "."])
GLOVE = WordVectorConfig("glove", False, 2, 0.5)
RANDOM = WordVectorConfig("random", True, 3, 0.5)
LINES = ". . . 9 9\n. 1 -2.5\nthe 7 7\nnée 3e-1 4\ndog 5 6\ndog 8 8\n"


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text(LINES, encoding="utf-8")
    return path


def placed(glove: Path, cache: Path, words: Vocabulary = VOCABULARY, seed: int = 3) -> Tensor:
    return place_vectors(words, GLOVE, seed, glove_vectors(glove, words, 2, cache))


def test_only_the_vocabulary_is_read_and_the_first_counts(glove):
    found = read_glove(glove, VOCABULARY, 2)
    assert found.rows.tolist() == [4, 6, 7]
    assert found.vectors.tolist() == [[5.0, 6.0], [pytest.approx(0.3), 4.0], [1.0, -2.5]]
    assert found.vectors.dtype == torch.float32


def test_a_byte_order_mark_is_no_part_of_the_first_word(glove):
    glove.write_bytes(b"\xef\xbb\xbf" + glove.read_bytes())
    test_only_the_vocabulary_is_read_and_the_first_counts(glove)


def test_other_words_are_drawn_and_padding_is_zero(glove, tmp_path):
    vectors = placed(glove, tmp_path)
    assert vectors[4].tolist() == [5.0, 6.0]
    assert vectors[0].tolist() == [0.0, 0.0]
    assert (vectors[[1, 2, 3, 5]] != 0).all()
    again = placed(glove, tmp_path)
    assert torch.equal(vectors, again)
    other = placed(glove, tmp_path, seed=4)
    assert torch.equal((vectors != other).all(1).nonzero()[:, 0], torch.tensor([1, 2, 3, 5]))


def test_random_vectors_have_the_deviation():
    large = Vocabulary([*SPECIALS, *map(str, range(20_000))])
    vectors = place_vectors(large, RANDOM, 0, None)
    assert vectors.shape == (20_004, 3)
    assert vectors[1:].std().item() == pytest.approx(0.5, rel=0.02)
    assert vectors[1:].mean().item() == pytest.approx(0.0, abs=0.02)


def test_what_was_read_is_cached(glove, tmp_path):
    cache = tmp_path / "cache"
    first = placed(glove, cache)
    stored = [*cache.glob("*/*")]
    written = [path.stat().st_mtime_ns for path in stored]
    assert torch.equal(placed(glove, cache), first)
    assert glove_fingerprint(glove, cache) == sha256_of(glove.read_bytes())
    assert [path.stat().st_mtime_ns for path in stored] == written


def test_no_damaged_byte_of_the_cache_is_used(glove, tmp_path):
    cache = tmp_path / "cache"
    expected = placed(glove, cache)
    content = glove_fingerprint(glove, cache)
    for stored in cache.glob("*/*"):
        whole = stored.read_bytes()
        for position in range(0, len(whole), 7):
            damaged = bytearray(whole)
            damaged[position] ^= 4
            stored.write_bytes(damaged)
            assert glove_fingerprint(glove, cache) == content
            assert torch.equal(placed(glove, cache), expected)
            assert stored.read_bytes() == whole


def test_cache_follows_file_vocabulary_and_dimension(glove, tmp_path):
    cache = tmp_path / "cache"
    placed(glove, cache)
    smaller = Vocabulary([*SPECIALS, "cat", "dog"])
    assert placed(glove, cache, smaller)[5].tolist() == [5.0, 6.0]
    glove.write_text(LINES.replace("dog 5 6", "dog 55 66"), encoding="utf-8")
    assert glove_fingerprint(glove, cache) == sha256_of(glove.read_bytes())
    changed = placed(glove, cache)
    assert changed[4].tolist() == [55.0, 66.0]
    assert len(list(cache.glob("glove-*/*.safetensors"))) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "the 1\n",
            r"vectors.txt:1: expected a word and 2 numbers, .*model\.vector_size.* found 1$",
        ),
        ("the 1 2\ndog 1\n", r"vectors.txt:2: expected a word and 2 numbers, .* found 1$"),
        ("the 1 2\ndog 1 x\n", "vectors.txt:2: expected a word and 2 numbers, all separated"),
        ("the 1 2\ndog  1 2\n", "vectors.txt holds no word"),
        ("the 1 2\ndog 1 nan\n", "vectors.txt:2: expected 2 finite numbers"),
        ("the 1 2\n", "vectors.txt holds no word of the vocabulary \\(8 words\\)"),
    ],
)
def test_malformed_files_are_refused(glove, text, message):
    glove.write_text(text)
    with pytest.raises(DataError, match=message):
        read_glove(glove, VOCABULARY, 2)


def test_absent_vectors_name_the_choices(tmp_path):
    with pytest.raises(
        DataError, match=r"none.txt of data\.glove is missing: .*model\.vectors=random"
    ):
        glove_vectors(tmp_path / "none.txt", VOCABULARY, 2, tmp_path)
