from collections.abc import Callable
from dataclasses import replace

import pytest

from repro.results import Record

BASE = Record(
    run_id="0123456789ab",
    kind="run",
    experiment="peters2019/table1",
    row="1.5 / 2",
    column="high (avg.)",
    seed=1,
    scale="demo",
    metric="test/accuracy",
    value=94.25,
    signature="accuracy|macro:language",
    corpus="demo-inflection",
    fingerprint="f" * 64,
    commit="abc1234",
    device="cpu",
    versions="python 3.11.7; torch 2.13.0",
    wall_time=12.5,
    command="repro train seed=1",
)


@pytest.fixture
def make_record() -> Callable[..., Record]:
    return lambda **changes: replace(BASE, **changes)
