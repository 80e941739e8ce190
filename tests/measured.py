"""A made-up measurement, from which tests make others."""

from repro import NUMERIC_EPOCH
from repro.results import Measurement

MEASUREMENT = Measurement(
    run_id="run",
    kind="run",
    row="1 / a",
    column="avg",
    seed=1,
    scale="full",
    metric="test/accuracy",
    value=50.0,
    signature="acc|made:up",
    corpus="made-up",
    fingerprint="0123456789abcdef" * 4,
    epoch=NUMERIC_EPOCH,
    commit="c0ffee",
    device="cpu",
    versions="python 3.11; torch 2.13",
    wall_time=60.0,
    tuned=None,
)
