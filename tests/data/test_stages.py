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
