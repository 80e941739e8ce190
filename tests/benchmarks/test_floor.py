"""The floor of an update counts every matrix product."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.floor import Product, ProductRecorder, main


def _operations(products: Counter[Product]) -> int:
    return sum(product.operations * count for product, count in products.items())


def _recorded(model: nn.Module, *inputs: Any) -> Counter[Product]:
    with ProductRecorder() as recorder:
        output = model(*inputs)
        (output[0] if isinstance(output, tuple) else output).sum().backward()
    return recorder.products


def test_a_linear_layer_has_three_products() -> None:
    inputs = torch.randn(5, 7, requires_grad=True)
    products = _recorded(nn.Linear(7, 3), inputs)
    assert products == {Product(1, 5, 7, 3): 1, Product(1, 5, 3, 7): 1, Product(1, 3, 5, 7): 1}


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")
def test_the_lstm_of_onednn_counts_as_one_of_single_operations() -> None:
    model, inputs = nn.LSTM(7, 5), torch.randn(6, 4, 7, requires_grad=True)
    states = [torch.zeros(1, 4, 5, requires_grad=True) for _ in range(2)]
    fused = _recorded(model, inputs, states)
    with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        plain = _recorded(model, inputs, states)
    assert fused != plain
    assert _operations(fused) == _operations(plain)


def test_the_command_measures_an_update(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["task=snli", "scale=demo", "--before", "1", "--updates", "2"]
    assert main(settings) == 0
    assert "GFLOP" in capsys.readouterr().out


def test_a_setting_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["task=snli", "model.no_such_key=1"]) == 2
    assert "no_such_key" in capsys.readouterr().err
