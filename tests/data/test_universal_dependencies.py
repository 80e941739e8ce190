from pathlib import Path

import pytest

from repro.data import universal_dependencies
from repro.data.conllu import COLUMNS
from repro.data.demo.parsing import write_demo_treebank
from repro.data.errors import DataError
from repro.data.universal_dependencies import KNOWN_COUNTS, SPLITS, check_tags, load_treebank

NAME = "UD_Demo-Initial"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_demo_treebank(tmp_path, "9.9", NAME)
    return tmp_path / "ud-treebanks-v9.9" / NAME


def test_splits_are_found_by_release_and_treebank(tmp_path: Path, folder: Path) -> None:
    loaded = load_treebank(tmp_path, "9.9", NAME)
    assert loaded.name == f"{NAME} 9.9"
    assert [len(part) for part in (loaded.train, loaded.dev, loaded.test)] == [300, 80, 80]
    assert loaded.dev[0].identifier == "dev-1"


def test_the_fingerprint_follows_the_files(tmp_path: Path, folder: Path) -> None:
    before = load_treebank(tmp_path, "9.9", NAME).fingerprint
    assert load_treebank(tmp_path, "9.9", NAME).fingerprint == before
    (path,) = folder.glob("*-ud-test.conllu")
    path.write_text(path.read_text().replace("# sent_id = test-1\n", "# sent_id = first\n"))
    assert load_treebank(tmp_path, "9.9", NAME).fingerprint != before


@pytest.mark.parametrize("copies", [0, 2])
def test_a_split_is_one_file(tmp_path: Path, folder: Path, copies: int) -> None:
    (path,) = folder.glob("*-ud-dev.conllu")
    if copies:
        (folder / "other-ud-dev.conllu").write_bytes(path.read_bytes())
    else:
        path.unlink()
    with pytest.raises(DataError, match=r"expected one file \*-ud-dev\.conllu") as caught:
        load_treebank(tmp_path, "9.9", NAME)
    assert str(folder) in str(caught.value)


def write_tags(path: Path, upos: str, xpos: str) -> None:
    """Write the same tags beside every word."""
    rows = [line.split("\t") for line in path.read_text("utf-8").split("\n")]
    for row in rows:
        if len(row) == len(COLUMNS):
            row[3:5] = [upos, xpos]
    path.write_text("\n".join("\t".join(row) for row in rows), "utf-8")


@pytest.mark.parametrize(("column", "other"), [("UPOS", "xpos"), ("XPOS", "upos")])
@pytest.mark.parametrize("split", SPLITS)
def test_columns_without_tags_are_refused(
    tmp_path: Path, folder: Path, split: str, column: str, other: str
) -> None:
    for path in folder.glob("*.conllu"):
        write_tags(path, "NOUN", "NN")
    check_tags(load_treebank(tmp_path, "9.9", NAME), column)
    (path,) = folder.glob(f"*-ud-{split}.conllu")
    write_tags(path, *(("_", "NN") if column == "UPOS" else ("NOUN", "_")))
    check_tags(load_treebank(tmp_path, "9.9", NAME), other.upper())
    with pytest.raises(DataError, match=rf"task\.tags={other}$") as caught:
        check_tags(load_treebank(tmp_path, "9.9", NAME), column)
    assert str(caught.value).startswith(f"{path}: ")
    write_tags(path, "_", "_")
    with pytest.raises(DataError, match="UPOS and XPOS") as caught:
        check_tags(load_treebank(tmp_path, "9.9", NAME), column)
    assert str(caught.value).startswith(f"{path}: ")


def test_known_numbers_of_sentences_are_checked_unless_that_is_turned_off(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ("9.9", NAME)
    monkeypatch.setattr(universal_dependencies, "KNOWN_COUNTS", {key: (300, 80, 80)})
    load_treebank(tmp_path, *key)
    monkeypatch.setattr(universal_dependencies, "KNOWN_COUNTS", {key: (300, 80, 81)})
    with pytest.raises(DataError, match=r"data\.check_counts=false"):
        load_treebank(tmp_path, *key)
    load_treebank(tmp_path, *key, check_counts=False)


def test_the_treebanks_of_the_paper_are_known() -> None:
    assert KNOWN_COUNTS["2.0", "UD_Vietnamese"] == (1400, 800, 800)
    languages = {treebank for release, treebank in KNOWN_COUNTS if release == "2.0"}
    assert languages == {
        f"UD_{x}" for x in ("English", "Chinese", "Vietnamese", "Romanian", "Japanese")
    }
