from collections.abc import Callable
from dataclasses import replace

import pytest

from repro.results import Record

BASE = Record(
    run_id="0123456789ab",
    kind="run",
    scale="demo",
    seed=1,
    config={"task": {"name": "morphology"}, "mapping": {"name": "entmax", "alpha": 1.5}, "seed": 1},
    metrics={"test/accuracy": 94.25, "dev/loss": 1.0},
    signatures={"test/accuracy": "accuracy|macro:language", "dev/loss": 'α "x",\u2028\n'},
    corpus="demo-inflection",
    fingerprint="f" * 64,
    epoch=6,
    commit="abc1234",
    device="cpu",
    versions="python 3.11.7; torch 2.13.0",
    wall_time=12.5,
    finished="2026-01-02T03:04:05+00:00",
    command="repro run mapping.alpha=1.5 'data.release=\"2.0\"' seed=1",
    members=[],
)


@pytest.fixture
def make_record() -> Callable[..., Record]:
    return lambda **changes: replace(BASE, **changes)
