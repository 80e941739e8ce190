"""Stages are built once, whole, and named by their identity."""

import pytest

from repro.data.stages import cached_stage, identity_digest


def write_marker(folder):
    (folder / "content.txt").write_text("done", encoding="utf-8")


def test_a_stage_is_built_once(tmp_path):
    calls = []

    def build(folder):
        calls.append(folder)
        write_marker(folder)

    first = cached_stage(tmp_path, "tokenised", {"lowercase": True}, build)
    second = cached_stage(tmp_path, "tokenised", {"lowercase": True}, build)
    assert first == second
    assert len(calls) == 1
    assert (first / "content.txt").read_text(encoding="utf-8") == "done"


def test_another_identity_is_another_stage(tmp_path):
    first = cached_stage(tmp_path, "tokenised", {"lowercase": True}, write_marker)
    second = cached_stage(tmp_path, "tokenised", {"lowercase": False}, write_marker)
    assert first != second


def test_identity_does_not_depend_on_the_order_of_keys():
    assert identity_digest({"a": 1, "b": 2}) == identity_digest({"b": 2, "a": 1})


def test_a_failed_stage_leaves_nothing_behind(tmp_path):
    def fail(folder):
        write_marker(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_stage(tmp_path, "tokenised", {}, fail)
    assert list(tmp_path.iterdir()) == []


def test_of_two_builders_the_first_to_finish_wins(tmp_path):
    def build_slowly(folder):
        cached_stage(tmp_path, "tokenised", {}, write_marker)
        (folder / "content.txt").write_text("late", encoding="utf-8")

    folder = cached_stage(tmp_path, "tokenised", {}, build_slowly)
    assert (folder / "content.txt").read_text(encoding="utf-8") == "done"
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def write_two(folder):
    write_marker(folder)
    (folder / "ids.bin").write_bytes(bytes(range(8)))


@pytest.mark.parametrize("name", ["content.txt", "ids.bin", "identity.json", "SHA256SUMS"])
def test_a_damaged_stage_is_named_and_built_anew(tmp_path, caplog, name):
    folder = cached_stage(tmp_path, "tokenised", {"a": 1}, write_two)
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    damages = [whole[name][:-1], whole[name][:3] + b"\x07" + whole[name][4:], None]
    for damage in damages[: 2 if name == "SHA256SUMS" else 3]:
        (folder / name).unlink()
        if damage is not None:
            (folder / name).write_bytes(damage)
        assert cached_stage(tmp_path, "tokenised", {"a": 1}, write_two) == folder
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
        assert name in caplog.messages[-1]
        assert folder.name in caplog.messages[-1]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_stage_without_checksums_is_accepted(tmp_path):
    folder = cached_stage(tmp_path, "tokenised", {}, write_two)
    (folder / "SHA256SUMS").unlink()
    (folder / "content.txt").write_text("of an earlier version")
    assert cached_stage(tmp_path, "tokenised", {}, write_two) == folder
    assert (folder / "content.txt").read_text() == "of an earlier version"


def test_a_damaged_stage_that_cannot_be_built_stays(tmp_path):
    folder = cached_stage(tmp_path, "tokenised", {}, write_two)
    (folder / "ids.bin").write_bytes(b"")

    def fail(_folder):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_stage(tmp_path, "tokenised", {}, fail)
    assert list(tmp_path.iterdir()) == [folder]
    assert (folder / "content.txt").exists()
