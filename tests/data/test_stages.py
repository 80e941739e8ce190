"""Stages are built once, whole, and named by their identity; damaged ones are built anew."""

import multiprocessing
import time
from pathlib import Path

import pytest

from repro.checksums import sha256_of_file
from repro.data.stages import cached_stage, identity_digest
from repro.errors import DataError


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


def test_a_stage_of_files_that_change_meanwhile_is_not_kept(tmp_path):
    source, root = tmp_path / "text", tmp_path / "stages"
    source.write_text("first", encoding="utf-8")
    sources = {source: sha256_of_file(source)}

    def build(folder):
        write_marker(folder)
        source.write_text("second", encoding="utf-8")

    with pytest.raises(DataError, match="text changed"):
        cached_stage(root, "tokenised", {}, build, sources)
    assert list(root.iterdir()) == []


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


DAMAGES = {
    "cut": lambda content: content[:-1],
    "empty": lambda content: b"",
    "flip": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "lose": lambda content: None,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", ["content.txt", "ids.bin", "identity.json", "SHA256SUMS"])
def test_a_damaged_stage_is_named_once_and_built_anew(tmp_path, caplog, name, damage):
    folder = cached_stage(tmp_path, "tokenised", {"a": 1}, write_two)
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / name).unlink()
    if (damaged := damage(whole[name])) is not None:
        (folder / name).write_bytes(damaged)
    for _ in range(2):
        assert cached_stage(tmp_path, "tokenised", {"a": 1}, write_two) == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
    (message,) = caplog.messages
    assert str(folder) in message
    assert list(tmp_path.iterdir()) == [folder]


def test_a_damaged_stage_that_cannot_be_built_is_not_used(tmp_path):
    folder = cached_stage(tmp_path, "tokenised", {}, write_two)
    (folder / "ids.bin").write_bytes(b"")

    def fail(_folder):
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            cached_stage(tmp_path, "tokenised", {}, fail)
    assert list(tmp_path.iterdir()) == [folder]


def _use(root: Path, barrier, used) -> None:
    """Open the stage as another process does, and read it as long as others may replace it."""

    def build(folder):
        barrier.wait()  # all found the damage
        write_two(folder)

    folder = cached_stage(root, "tokenised", {}, build)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        used.put((folder / "ids.bin").read_bytes())


def test_processes_that_replace_a_damaged_stage_at_once_all_read_a_whole_one(tmp_path):
    folder = cached_stage(tmp_path, "tokenised", {}, write_two)
    (folder / "ids.bin").write_bytes(b"")
    context = multiprocessing.get_context("fork")
    barrier, used = context.Barrier(4), context.SimpleQueue()
    workers = [context.Process(target=_use, args=(tmp_path, barrier, used)) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = set()
    while any(worker.is_alive() for worker in workers) or not used.empty():
        if used.empty():
            time.sleep(0.01)
        else:
            found.add(used.get())
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert found == {bytes(range(8))}
    assert list(tmp_path.iterdir()) == [folder]
