"""Copies of corpora on the Hub, from Parquet files that the tests write."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from repro.data.corpora import declared, declared_corpora
from repro.data.corpora.inference import MULTINLI, SNLI
from repro.data.corpora.translation import ParallelTexts
from repro.data.download import fetch_from_hub, read_receipt, receipt_path, verify
from repro.data.nli import NliReading, load_nli
from repro.data.parallel import read_pairs
from repro.data.translation import open_corpus
from repro.errors import DataError

ROMANIAN = declared(ParallelTexts, "data.corpus", "wmt16_ro")
ROWS = [{"ro": f"marea {n}", "en": f"the\nsea {n}"} for n in range(5)]
PAIR = {"premise": "A dog runs .", "hypothesis": "It moves", "label": 0}
PARSED = {
    "pairID": "63735n", "premise": "It's on", "premise_binary_parse": "( It ( 's on ) )",
    "hypothesis": "On", "hypothesis_binary_parse": "On", "label": 2,
}  # fmt: skip
Write = Callable[[str, list[dict[str, Any]]], Path]


def quiet(done: int, total: int, name: str) -> None:
    assert 1 <= done <= total


@pytest.fixture
def parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")

    def write(pattern: str, rows: list[dict[str, Any]]) -> Path:
        path = tmp_path / "hub" / pattern.replace("*", "00000-of-00001")
        path.parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_list(rows).to_parquet(path)
        return tmp_path / "hub"

    return write


def test_rows_become_the_plain_files_that_the_reader_finds(parquet, tmp_path):
    hub = replace(ROMANIAN.hub, sizes={"train": 5, "test": 3}, first={"test": 3})
    corpus, data = replace(ROMANIAN, hub=hub), tmp_path / "data"
    for pattern in hub.files.values():
        rows = [*ROWS, {"ro": "", "en": "blank"}]
        folder = parquet(pattern, [{"translation": row} for row in rows])
    assert fetch_from_hub(corpus, data, quiet, folder) == (6, 0)
    read = open_corpus(corpus, data, "ro", "en")
    assert list(read_pairs(read.splits["dev"])) == [
        (f"marea {n}", f"the sea {n}") for n in range(5)
    ]
    assert len(list(read_pairs(read.splits["test"]))) == 3
    receipt = read_receipt(receipt_path(corpus, data, hub=True))
    assert set(receipt.files) == {
        f"wmt16_ro_en/{split}.{one}" for split in ("train", "dev", "test") for one in ("ro", "en")
    }
    assert verify(corpus, data, hub=True).complete
    assert verify(corpus, data).complete
    changed = data / "wmt16_ro_en" / "dev.ro"
    changed.write_bytes(changed.read_bytes().replace(b"marea", b"luna!"))
    for hub in (True, False):  # by content, not by name
        assert verify(corpus, data, hub=hub).corrupt == ["wmt16_ro_en/dev.ro"]


def test_wrong_sizes_and_rows_are_refused(parquet, tmp_path):
    pattern = ROMANIAN.hub.files["train"]
    folder = parquet(pattern, [{"translation": row} for row in ROWS])
    with pytest.raises(DataError, match=r"train\.ro has 5 lines, the corpus has 604217 to 616423$"):
        fetch_from_hub(ROMANIAN, tmp_path / "data", quiet, folder)
    parquet(pattern, [{"translation": {"fr": "mer", "en": "sea"}}])
    with pytest.raises(DataError, match=r"row 0: expected texts in ro and en under 'translation'"):
        fetch_from_hub(ROMANIAN, tmp_path / "data", quiet, folder)
    with pytest.raises(DataError, match="cannot read"):
        fetch_from_hub(ROMANIAN, tmp_path / "data", quiet, tmp_path / "nowhere")


def test_a_file_that_is_damaged_in_the_middle_is_named(tmp_path):
    path = tmp_path / "hub" / SNLI.hub.files["train"].replace("*", "0")
    path.parent.mkdir(parents=True)
    rows = pa.Table.from_pylist([PAIR | {"premise": f"{n}"} for n in range(1000)])
    pq.write_table(rows, path, row_group_size=100)
    content = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(9).column(0).dictionary_page_offset
    content[start : start + 100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read .*train-\*\.parquet: "):
        fetch_from_hub(SNLI, tmp_path / "data", quiet, tmp_path / "hub")
    assert not list((tmp_path / "data").rglob("*.jsonl"))


def test_without_a_network_the_hub_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError, match="cannot reach the Hub for stanfordnlp/snli: "):
        fetch_from_hub(SNLI, tmp_path / "data", quiet)


def test_the_official_finnish_test_set_is_taken_without_its_second_half():
    hub = declared_corpora()["wmt16_fi"].hub
    assert hub.first["test"] == hub.sizes["test"] == 3_000


@pytest.mark.parametrize("corpus", [SNLI, MULTINLI], ids=lambda corpus: corpus.name)
def test_pairs_become_the_files_of_the_archives(parquet, tmp_path, corpus):
    assert len(bytes.fromhex(corpus.hub.revision)) == 20
    assert corpus.hub.files.keys() == corpus.files.keys()
    for pattern in corpus.hub.files.values():
        folder = parquet(pattern, [PAIR | {"label": -1}, PAIR, PAIR])
    assert fetch_from_hub(corpus, tmp_path / "data", quiet, folder)[0] == len(corpus.files)
    read = load_nli(corpus, tmp_path / "data", NliReading(check_size=False))
    assert [(one.pair_id, one.label) for one in read.train] == [("train-1", 0), ("train-2", 0)]
    assert read.train[0].premise == ("A", "dog", "runs", ".")


def test_parses_and_names_are_kept(tmp_path):
    (path,) = MULTINLI.write_hub_split("train", [PARSED], tmp_path)
    row = json.loads(path.read_text())
    assert (row["pairID"], row["gold_label"]) == ("63735n", "contradiction")
    assert row["sentence1_binary_parse"] == "( It ( 's on ) )"


@pytest.mark.parametrize("label", [3, -2, None, "neutral"])
def test_malformed_labels_are_named(tmp_path, label):
    with pytest.raises(DataError, match=r"nyu-mll/multi_nli train, row 1: label: expected -1"):
        MULTINLI.write_hub_split("train", [PAIR, PAIR | {"label": label}], tmp_path)
    assert not list(tmp_path.rglob("*.jsonl"))
