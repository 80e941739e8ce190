from dataclasses import replace
from pathlib import Path

import pytest

from repro.data.corpora.treebanks import CORPORA
from repro.data.demo.parsing import write_demo_treebank
from repro.data.dependencies import universal_dependencies
from repro.data.dependencies.conllu import COLUMNS
from repro.data.dependencies.universal_dependencies import (
    HELD_OUT,
    SPLITS,
    check_tags,
    load_treebank,
)
from repro.errors import DataError

NAME = "UD_Demo-Initial"
TITLE = f"{NAME} 9.9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_demo_treebank(tmp_path, "9.9", NAME)
    return tmp_path / "ud-treebanks-v9.9" / NAME


def test_splits_are_found_by_release_and_treebank(folder):
    loaded = load_treebank(folder, TITLE)
    assert loaded.name == f"{NAME} 9.9"
    assert [len(part) for part in (loaded.train, loaded.dev, loaded.test)] == [300, 80, 80]
    assert loaded.dev[0].identifier == "dev-1"


def test_the_fingerprint_follows_the_files(folder):
    before = load_treebank(folder, TITLE).fingerprint
    assert load_treebank(folder, TITLE).fingerprint == before
    (path,) = folder.glob("*-ud-test.conllu")
    path.write_text(path.read_text().replace("# sent_id = test-1\n", "# sent_id = first\n"))
    assert load_treebank(folder, TITLE).fingerprint != before


def test_a_split_is_one_file(folder):
    (path,) = folder.glob("*-ud-test.conllu")
    (folder / "other-ud-test.conllu").write_bytes(path.read_bytes())
    for _ in range(2):
        with pytest.raises(DataError, match=r"expected one file \*-ud-test\.conllu") as caught:
            load_treebank(folder, TITLE)
        assert str(folder) in str(caught.value)
        for found in folder.glob("*-ud-test.conllu"):
            found.unlink()


def test_without_validation_data_every_tenth_training_sentence_is_held_out(folder):
    whole = load_treebank(folder, TITLE)
    (path,) = folder.glob("*-ud-dev.conllu")
    path.unlink()
    for old in folder.glob("*.conllu"):
        old.rename(folder / f"{old.stem.rsplit('-', 1)[1]}.conllu")
    loaded = load_treebank(folder, "mine")
    assert loaded.dev == whole.train[HELD_OUT - 1 :: HELD_OUT]
    assert loaded.train == [one for one in whole.train if one not in loaded.dev]
    assert loaded.test == whole.test
    blocks = (folder / "train.conllu").read_text().split("\n\n")
    (folder / "train.conllu").write_text("\n\n".join(blocks[:9]) + "\n\n")
    with pytest.raises(DataError, match=r"train\.conllu has 9 sentences and there is no valid"):
        load_treebank(folder, "mine")


def write_tags(path: Path, upos: str, xpos: str) -> None:
    """Write the same tags beside every word."""
    rows = [line.split("\t") for line in path.read_text("utf-8").split("\n")]
    for row in rows:
        if len(row) == len(COLUMNS):
            row[3:5] = [upos, xpos]
    path.write_text("\n".join("\t".join(row) for row in rows), "utf-8")


@pytest.mark.parametrize(("column", "other"), [("UPOS", "xpos"), ("XPOS", "upos")])
@pytest.mark.parametrize("split", SPLITS)
def test_columns_without_tags_are_refused(folder, split, column, other):
    for path in folder.glob("*.conllu"):
        write_tags(path, "NOUN", "NN")
    check_tags(load_treebank(folder, TITLE), column)
    (path,) = folder.glob(f"*-ud-{split}.conllu")
    write_tags(path, *(("_", "NN") if column == "UPOS" else ("NOUN", "_")))
    check_tags(load_treebank(folder, TITLE), other.upper())
    with pytest.raises(DataError, match=rf"task\.tags={other}$") as caught:
        check_tags(load_treebank(folder, TITLE), column)
    assert str(caught.value).startswith(f"{path}: ")
    write_tags(path, "_", "_")
    with pytest.raises(DataError, match="UPOS and XPOS") as caught:
        check_tags(load_treebank(folder, TITLE), column)
    assert str(caught.value).startswith(f"{path}: ")


def test_declared_sizes_are_checked_unless_that_is_turned_off(folder, monkeypatch):
    known = next(one for one in CORPORA if one.treebank == "UD_Vietnamese")
    assert known.sizes == {"train": 1400, "dev": 800, "test": 800}
    toy = replace(known, release="9.9", treebank=NAME, sizes={"train": 300, "dev": 80, "test": 80})
    monkeypatch.setattr(universal_dependencies, "declared_corpora", lambda: {"toy": toy})
    load_treebank(folder, TITLE)
    toy = replace(toy, sizes={"train": 300, "dev": 80, "test": 81})
    with pytest.raises(DataError, match=r"data\.check_size=false"):
        load_treebank(folder, TITLE)
    load_treebank(folder, TITLE, check_size=False)
