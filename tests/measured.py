"""A made-up table, measurement and record, from which tests make others."""

from dataclasses import replace
from typing import Any

from repro.config.experiment import Experiment, ScalePlan
from repro.results import Measurement, Record
from repro.version import NUMERIC_EPOCH


def made_up_table(**fields: Any) -> Experiment:
    """Return Table 9 of a paper, without rows and columns unless they are given."""
    known = {"paper": "paper2020", "artefact": "table9", "kind": "table", "place": "Table 9, §3"}
    plan = {"title": "A made-up table", "scales": {"demo": ScalePlan(), "full": ScalePlan()}}
    return Experiment(**(known | plan | fields))


MEASUREMENT = Measurement(
    run_id="run", kind="run", row="1 / a", column="avg", seed=1, scale="full",
    metric="test/accuracy", value=50.0, signature="acc|made:up", corpus="made-up",
    fingerprint="0123456789abcdef" * 4, epoch=NUMERIC_EPOCH, commit="c0ffee", device="cpu",
    versions="python 3.11; torch 2.13", wall_time=60.0, tuned=None,
)  # fmt: skip
RECORD = Record(
    run_id="0123456789ab", kind="run", scale="demo", seed=1,
    config={"task": {"name": "morphology"}, "mapping": {"name": "entmax", "alpha": 1.5}, "seed": 1},
    metrics={"test/accuracy": 94.25, "dev/loss": 1.0},
    signatures={"test/accuracy": "accuracy|macro:language", "dev/loss": 'α "x",\u2028\n'},
    corpus="demo-inflection", fingerprint="f" * 64, epoch=6, commit="abc1234", device="cpu",
    versions="python 3.11.7; torch 2.13.0", wall_time=12.5, finished="2026-01-02T03:04:05+00:00",
    command="repro run mapping.alpha=1.5 'data.release=\"2.0\"' seed=1", members=[],
)  # fmt: skip


def measurement(**changes: Any) -> Measurement:
    """Return the made-up measurement with some changes."""
    return replace(MEASUREMENT, **changes)
