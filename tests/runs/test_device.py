"""Precision of a run, which its device computes in."""

import os
import warnings
from collections.abc import Iterator
from typing import Any

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


def test_a_notice_of_deprecated_settings_is_hidden(monkeypatch):
    """PyTorch 2.9 warns where they are set, by which the first run of a process would fail here."""
    notice = "Please use the new API settings to control TF32 behavior, such as "
    found: list[bool] = []

    class Setting:
        def __get__(self, *_: Any) -> bool:
            return bool(found)

        def __set__(self, _: Any, value: bool) -> None:
            warnings.warn(notice + "torch.backends.cudnn.conv.fp32_precision", stacklevel=1)
            found.append(value)

    monkeypatch.setattr(type(torch.backends.cudnn), "allow_tf32", Setting())
    prepare_device(compose_run(["hardware=cpu"]))
    assert found == [False]


def test_products_of_a_prediction_leave_those_of_a_training_deterministic(monkeypatch):
    """What the first product of a process has found in the variable counts for all others."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    prepare_device(compose_run(["hardware=cpu"]))
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_the_precision_is_part_of_the_identity():
    configs = (compose_run([f"precision={one}"]) for one in ("fp32", "tf32", "bf16"))
    assert len({run_id(config, "") for config in configs}) == 3
