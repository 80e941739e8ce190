import logging

import pytest

from repro.config.compose import compose_run
from repro.runs.device import warn_of_precision


@pytest.mark.parametrize(
    ("precision", "amx", "warned"), [("bf16", False, 1), ("bf16", True, 0), ("fp32", False, 0)]
)
def test_bfloat16_on_a_processor_without_it_is_warned_of_once(
    precision, amx, warned, caplog, monkeypatch
):
    flags = "avx2 amx_tile" if amx else "avx2"
    monkeypatch.setattr("repro.runs.environment.cpuinfo", lambda field: flags)
    runs = [compose_run([f"precision={precision}", "hardware=cpu"])] * 3
    with caplog.at_level(logging.WARNING):
        warn_of_precision(runs)
    assert len(caplog.records) == warned
