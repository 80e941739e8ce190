import pytest

from repro.data.errors import DataError
from repro.data.files import git_blob_id
from repro.data.sources import corpus_sources, is_safe_path, read_manifest

DIGEST = "0" * 64


def test_sigmorphon_manifest_holds_the_used_files_and_no_stub() -> None:
    source = corpus_sources()["sigmorphon2018"]
    endings = ("-train-high", "-train-medium", "-dev", "-test")
    counts = [sum(path.endswith(ending) for path in source.files) for ending in endings]
    assert counts == [86, 102, 103, 103]
    assert len(source.files) == 394
    stubs = ("gothic", "low-german", "manx", "tajik")
    names = {path.rsplit("/", 1)[1] for path in source.files}
    assert not names & {f"{stub}-test" for stub in stubs}
    assert not any("covered" in name for name in names)
    assert "conll2018/task1/surprise/english-train-high" in source.files


def test_source_is_pinned() -> None:
    assert corpus_sources()["sigmorphon2018"].base_url == (
        "https://raw.githubusercontent.com/sigmorphon/conll2018/"
        "490e2e0693241f708670d9d1c56803b754fab7cd"
    )


def test_treebanks_are_pinned_to_tags_and_lie_where_the_reader_looks() -> None:
    treebanks = [s for name, s in corpus_sources().items() if name.startswith("ud2.0-")]
    assert len(treebanks) == 5
    vietnamese = corpus_sources()["ud2.0-vietnamese"]
    folder = "ud-treebanks-v2.0/UD_Vietnamese"
    for source in treebanks:
        assert len(source.files) == 3
        assert {len(known) for known in source.files.values()} == {40}
    assert vietnamese.address(f"{folder}/vi-ud-train.conllu") == "r2.0/vi-ud-train.conllu"
    assert vietnamese.address(f"{folder}/vi-ud-test.conllu") == "r2.0-test/vi-ud-test.conllu"


def test_git_names_files_by_length_and_content() -> None:
    """The id of the empty file, and that of ``test content`` in the book Pro Git, chapter 10.2."""
    assert git_blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert git_blob_id(b"test content\n") == "d670460b4b4aece5915caf5c68d12f560a9fe3e4"


@pytest.mark.parametrize(
    "path",
    ["../x", "c/../../x", "/etc/x", "c//x", "c/./x", "c", "d/x", "c\\x", "c/.x", "C:/x", "c/x\x00"],
)
def test_unsafe_paths_are_refused(path: str) -> None:
    assert not is_safe_path(path, "c")
    with pytest.raises(DataError, match=r"m:1: "):
        read_manifest(f"{DIGEST}  {path}\n", "c", "m")


def test_manifest_reads_both_modes_of_sha256sum() -> None:
    text = f"{DIGEST}  c/a\n{'f' * 64} *c/b-1\n"
    assert read_manifest(text, "c", "m") == {"c/a": DIGEST, "c/b-1": "f" * 64}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (f"{DIGEST[:-1]}  c/b", "m:2: expected a checksum"),
        (f"{DIGEST} c/b", "m:2: expected a checksum"),
        ("", "m:2: expected a checksum"),
        (f"{DIGEST}  c/a", "m:2: c/a stands twice"),
    ],
)
def test_malformed_manifest_is_named(second: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_manifest(f"{DIGEST}  c/a\n{second}\n", "c", "m")
