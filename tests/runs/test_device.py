"""Precision of a run, which its device computes in."""

from collections.abc import Iterator

import pytest
import torch

from repro.config.compose import compose_run
from repro.config.identity import run_id
from repro.runs.device import prepare_device


@pytest.fixture(autouse=True)
def flags() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_lstm_and_products_have_the_precision_of_the_run(precision):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision != "tf32"
    prepare_device(compose_run(["hardware=cpu", f"precision={precision}"]))
    found = {torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32}
    assert found == {precision == "tf32"}


def test_the_precision_is_part_of_the_identity():
    configs = (compose_run([f"precision={one}"]) for one in ("fp32", "tf32", "bf16"))
    assert len({run_id(config, "") for config in configs}) == 3
