"""Every generated corpus is a function of its seed, and writing it again repairs it."""

from functools import partial

import pytest

from repro.data.demo.morphology import write_demo_corpus
from repro.data.demo.nli import PREMISES, write_demo_nli
from repro.data.demo.parsing import HEAD_FINAL, write_demo_treebank
from repro.data.demo.summaries import write_summary_demo
from repro.data.demo.translation import write_translation_demo

WRITERS = {
    "morphology": write_demo_corpus,
    "nli": partial(write_demo_nli, premises=dict.fromkeys(PREMISES, 20)),
    **{name: partial(write_demo_treebank, release="demo", treebank=name) for name in HEAD_FINAL},
    "summaries": write_summary_demo,
    "translation": write_translation_demo,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_seed_decides_every_file_and_right_ones_are_left_alone(write, tmp_path):
    write(tmp_path / "first", seed=1)
    write(tmp_path / "other", seed=2)
    files = sorted(path for path in (tmp_path / "first").rglob("*") if path.is_file())
    others = sorted(path for path in (tmp_path / "other").rglob("*") if path.is_file())
    before = [(path.stat().st_ino, path.read_bytes()) for path in files]
    assert [path.name for path in others] == [path.name for path in files]
    for (_, content), other in zip(before, others, strict=True):
        assert other.read_bytes() != content
    files[0].write_bytes(b"broken")
    write(tmp_path / "first", seed=1)
    after = [(path.stat().st_ino, path.read_bytes()) for path in files]
    assert after[1:] == before[1:]
    assert after[0][1] == before[0][1]
    assert sorted(path for path in (tmp_path / "first").rglob("*") if path.is_file()) == files
