"""LSTM cells: numbers on a CPU; on accelerators shapes, and numbers where there is a device."""

import pytest
import torch
from torch import Tensor

from repro.models.seq2seq.lstm_cell import _cell, fused_cell, lstm_step
from repro.models.seq2seq.step_products import added_product, step_products

ROWS, UNITS = 5, 3


def parts(device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = (ROWS, 4 * UNITS), (ROWS, 4 * UNITS), (ROWS, UNITS)
    drawn = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [one.to(device).requires_grad_() for one in drawn]


def test_results_and_gradients_have_the_shapes_of_states_and_gates():
    base, product, cell = given = parts("meta")
    hidden, after = fused_cell(base, product, cell)
    assert hidden.shape == after.shape == cell.shape
    for outputs in ([hidden, after], [hidden], [after]):
        moved = torch.autograd.grad(sum(one.sum() for one in outputs), given, retain_graph=True)
        assert [one.shape for one in moved] == [one.shape for one in given]


def test_a_step_is_that_of_torch():
    cell = torch.nn.LSTMCell(4, UNITS)
    inputs, states = torch.randn(ROWS, 4), torch.randn(2, ROWS, UNITS)
    base = (cell.bias_ih + cell.bias_hh).expand(ROWS, -1)
    (gates,) = step_products(base, torch.cat([cell.weight_ih, cell.weight_hh], 1), 1)
    expected = cell(inputs, tuple(states))
    for one, right in zip(lstm_step(gates, inputs, *states), expected, strict=True):
        torch.testing.assert_close(one, right)


def test_a_product_and_its_base_are_the_sum():
    base, matrix = torch.randn(2 * ROWS, 7), torch.randn(7, 4)
    added, alone = step_products(base, matrix, 2)
    values = torch.randn(ROWS, 4)
    torch.testing.assert_close(added(values), base[:ROWS] + values @ matrix.mT)
    torch.testing.assert_close(alone.base + alone.product(values), base[ROWS:] + values @ matrix.mT)
    with pytest.raises(RuntimeError, match="has been computed"):
        alone(values)  # its input would be counted twice in the gradient of the matrix


@pytest.mark.parametrize("batch", [(), (2,)])
def test_products_of_steps_are_added_in_place_to_parts_of_one_base(batch):
    """Also if the sum of a step is saved for the backward pass before the next one is computed."""
    shapes = (*batch, 2 * ROWS, 7), (*batch, ROWS, 4), (*batch, ROWS, 4)
    given = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    matrix = torch.randn(*batch, 7, 4, dtype=torch.float64)

    def sums(base: Tensor, *values: Tensor, in_place: bool = True) -> Tensor:
        copied = base.clone()
        found = []
        for part, value in zip(copied.chunk(2, dim=-2), values, strict=True):
            added = added_product(part, value, matrix) if in_place else part + value @ matrix.mT
            assert (added.data_ptr() == part.data_ptr()) == in_place
            found.append(added.square())
        return torch.stack(found)

    torch.testing.assert_close(sums(*given), sums(*given, in_place=False))
    assert torch.autograd.gradcheck(sums, given)


def test_the_bases_of_products_on_accelerators_are_copies():
    """A step alone must not write into the memory of its caller, as that of a mask is."""
    base, matrix = torch.empty(ROWS, 7, device="meta"), torch.empty(7, 4, device="meta")
    (one,) = step_products(base, matrix, 1)
    assert one.base._base is not base


def test_autocast_does_not_round_states(monkeypatch):
    enabled: list[bool] = []

    def spied(*_arguments: Tensor) -> None:
        enabled.append(torch.is_autocast_enabled("cuda"))

    monkeypatch.setattr(torch.ops.aten, "_thnn_fused_lstm_cell", spied)
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)  # torch.autocast would not without a device
    try:
        _cell(*parts("cpu"))
    finally:
        torch.set_autocast_enabled("cuda", before)
    assert enabled == [False]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_states_under_autocast_are_in_float32():
    base, product, cell = given = [one.float().detach().requires_grad_() for one in parts("cuda")]
    with torch.autocast("cuda", dtype=torch.bfloat16):
        hidden, after = fused_cell(base, product, cell)
    assert hidden.dtype == after.dtype == torch.float32
    moved = torch.autograd.grad((hidden + after).sum(), given)
    assert [one.shape for one in moved] == [one.shape for one in given]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_states_and_gradients_are_those_of_the_formula():
    base, product, cell = given = parts("cuda")
    others = [one.detach().cpu().requires_grad_() for one in given]
    i, f, g, o = (others[0] + others[1]).chunk(4, -1)
    after = f.sigmoid() * others[2] + i.sigmoid() * g.tanh()
    expected = o.sigmoid() * after.tanh(), after
    found = fused_cell(base, product, cell)
    for one, right in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), right)
    weights = torch.randn(2, ROWS, UNITS, dtype=torch.float64)
    moved = torch.autograd.grad((torch.stack(found) * weights.cuda()).sum(), given)
    wanted = torch.autograd.grad((torch.stack(expected) * weights).sum(), others)
    for one, right in zip(moved, wanted, strict=True):
        torch.testing.assert_close(one.cpu(), right)
