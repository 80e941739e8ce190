from pathlib import Path

import datasets
import pytest

from repro.data.errors import DataError
from repro.data.nli import NliReading
from repro.data.nli_hub import HUB_MULTINLI, HUB_SNLI, HubSource, examples_of, load_from_hub

ANY = NliReading(expected="any")
ROW = {"premise": "A dog runs .", "hypothesis": "It moves", "label": 0}
PARSED = {
    "pairID": "63735n",
    "premise": "It's on",
    "premise_binary_parse": "( It ( 's on ) )",
    "hypothesis": "On",
    "hypothesis_binary_parse": "On",
    "label": 2,
}


def test_rows_become_the_examples_of_the_archives() -> None:
    rows = [ROW | {"label": -1}, ROW, PARSED]
    plain, parsed = examples_of(rows, "dev", ANY, "snli dev")
    assert (plain.pair_id, plain.label) == ("dev-1", 0)
    assert plain.premise == ("A", "dog", "runs", ".")
    assert (parsed.pair_id, parsed.label) == ("63735n", 2)
    assert parsed.premise == ("It", "'s", "on")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW | {"label": 3}, "snli dev:2: label: expected -1, 0, 1 or 2, found 3"),
        ({"premise": "a", "label": 1}, "snli dev:2: expected a text under 'sentence2'"),
        ({}, "snli dev:2: label: expected -1, 0, 1 or 2, found None"),
    ],
)
def test_malformed_rows_are_named(row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        examples_of([ROW, row], "dev", ANY, "snli dev")


@pytest.mark.parametrize("hub", [HUB_SNLI, HUB_MULTINLI])
def test_pins_are_full_commits_and_parts_match(hub: HubSource) -> None:
    assert len(bytes.fromhex(hub.revision)) == 20
    assert hub.files.keys() == hub.source.files.keys()


def test_parquet_look_alikes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "data").mkdir()
    rows = [PARSED | {"pairID": f"{number}n"} for number in range(5)]
    for part in ("train", "validation_matched"):
        table = datasets.Dataset.from_list(rows)
        table.to_parquet(tmp_path / "data" / f"{part}-00000-of-00001.parquet")
    corpus = load_from_hub(HUB_MULTINLI, ANY, tmp_path)
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == (5, 3, 2)
    assert corpus.train[0].premise == ("It", "'s", "on")
    with pytest.raises(DataError, match="392702"):
        load_from_hub(HUB_MULTINLI, NliReading(), tmp_path)
    with pytest.raises(DataError, match="cannot read"):
        load_from_hub(HUB_SNLI, ANY, tmp_path)
