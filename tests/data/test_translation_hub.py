"""Parallel corpora of the Hub, from Parquet files that the tests write."""

from dataclasses import replace

import datasets
import pytest

from repro.data.errors import DataError
from repro.data.parallel import read_pairs
from repro.data.receipts import read_receipt
from repro.data.translation import open_corpus
from repro.data.translation_hub import HUB_CORPORA, fetch_from_hub

ROWS = [{"ro": f"marea {n}", "en": f"the\nsea {n}"} for n in range(5)]


def ignore(done, total, name):
    assert 1 <= done <= total == 3
    assert name.startswith("wmt/wmt16 ")


@pytest.fixture
def look_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")

    def make(rows):
        for split in ("train", "validation", "test"):
            path = tmp_path / "hub" / "ro-en" / f"{split}-00000-of-00001.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            datasets.Dataset.from_list([{"translation": row} for row in rows]).to_parquet(path)
        return tmp_path / "hub"

    return make


def test_rows_become_the_plain_files_that_the_reader_finds(look_alike, tmp_path):
    corpus = replace(HUB_CORPORA["wmt16_ro@hub"], sizes={"train": 5, "test": 3}, first={"test": 3})
    folder = look_alike([*ROWS, {"ro": "", "en": "blank"}])
    report = fetch_from_hub(corpus, tmp_path / "data", ignore, folder)
    assert report.downloaded == 6
    read = open_corpus(tmp_path / "data", "wmt16_ro", "ro", "en")
    assert list(read_pairs(read.splits["dev"])) == [
        (f"marea {n}", f"the sea {n}") for n in range(5)
    ]
    assert len(list(read_pairs(read.splits["test"]))) == 3
    receipt = read_receipt(tmp_path / "data" / corpus.receipt)
    assert set(receipt.files) == {
        f"wmt16_ro_en/{split}.{one}" for split in ("train", "dev", "test") for one in ("ro", "en")
    }


def test_wrong_sizes_and_rows_are_refused(look_alike, tmp_path):
    corpus, folder = HUB_CORPORA["wmt16_ro@hub"], look_alike(ROWS)
    with pytest.raises(DataError, match=r"train\.ro has 5 lines, the corpus has 604217 to 616423"):
        fetch_from_hub(corpus, tmp_path / "data", ignore, folder)
    look_alike([{"fr": "mer", "en": "sea"}])
    with pytest.raises(DataError, match=r"row 0: expected texts in ro and en under 'translation'"):
        fetch_from_hub(corpus, tmp_path / "data", ignore, folder)
    with pytest.raises(DataError, match="cannot read"):
        fetch_from_hub(corpus, tmp_path / "data", ignore, tmp_path / "nowhere")


def test_the_official_finnish_test_set_is_taken_without_its_second_half():
    corpus = HUB_CORPORA["wmt16_fi@hub"]
    assert corpus.first["test"] == corpus.sizes["test"] == 3_000
