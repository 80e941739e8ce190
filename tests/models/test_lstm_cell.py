"""LSTM cells: numbers on a CPU; on accelerators shapes, and numbers where there is a device."""

import pytest
import torch
from torch import Tensor

from repro.models.seq2seq import operators
from repro.models.seq2seq.lstm_cell import _cell, fused_cell, lstm_step
from repro.models.seq2seq.step_products import added_product, step_products

ROWS, UNITS = 5, 3


def parts(device: str) -> list[Tensor]:
    """Gates and cell state."""
    generator = torch.Generator().manual_seed(1)
    shapes = (ROWS, 4 * UNITS), (ROWS, UNITS)
    drawn = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [one.to(device).requires_grad_() for one in drawn]


@pytest.mark.parametrize("dropped", [False, True])
def test_results_and_gradients_have_the_shapes_of_states_and_gates(dropped):
    gates, cell = given = parts("meta")
    mask = torch.empty(ROWS, UNITS, dtype=torch.float64, device="meta") if dropped else None
    states, after = fused_cell(gates, cell, 3, mask)
    assert [one.shape for one in (*states, after)] == [cell.shape] * 4
    for outputs in ([*states, after], states[:1], states[1:], [after]):
        moved = torch.autograd.grad(sum(one.sum() for one in outputs), given, retain_graph=True)
        assert [one.shape for one in moved] == [one.shape for one in given]


def test_a_step_is_that_of_torch():
    cell = torch.nn.LSTMCell(4, UNITS)
    inputs, states = torch.randn(ROWS, 4), torch.randn(2, ROWS, UNITS)
    base = (cell.bias_ih + cell.bias_hh).expand(ROWS, -1)
    (gates,) = step_products(base, torch.cat([cell.weight_ih, cell.weight_hh], 1), 1)
    expected = cell(inputs, tuple(states))
    mask = torch.rand(ROWS, UNITS)
    (one, dropped), after = lstm_step(gates, inputs, *states, 2, mask)
    for found, right in zip((one, dropped / mask, after), (expected[0], *expected), strict=True):
        torch.testing.assert_close(found, right)


def test_a_product_and_its_base_are_the_sum():
    base, matrix, values = torch.randn(2 * ROWS, 7), torch.randn(7, 4), torch.randn(ROWS, 4)
    for part, one in zip(base.chunk(2), step_products(base, matrix, 2), strict=True):
        torch.testing.assert_close(one(values), part + values @ matrix.mT)
        with pytest.raises(RuntimeError, match="has been computed"):
            one(values)  # its input would be counted twice in the gradient of the matrix


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

    def spied(*arguments: Tensor) -> tuple[Tensor, ...]:
        enabled.append(torch.is_autocast_enabled("cuda"))
        return arguments

    monkeypatch.setattr(torch.ops.aten, "_thnn_fused_lstm_cell", spied)
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)  # torch.autocast would not without a device
    try:
        _cell(*parts("cpu"), None)
    finally:
        torch.set_autocast_enabled("cuda", before)
    assert enabled == [False]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_states_under_autocast_are_in_float32():
    gates, cell = given = [one.float().detach().requires_grad_() for one in parts("cuda")]
    with torch.autocast("cuda", dtype=torch.bfloat16):
        (hidden,), after = fused_cell(gates, cell)
    assert hidden.dtype == after.dtype == torch.float32
    moved = torch.autograd.grad((hidden + after).sum(), given)
    assert [one.shape for one in moved] == [one.shape for one in given]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("mode", ["auto", "torch"])
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("used", [(0, 1, 2, 3), (0, 3), (2,), (3,)])
def test_cells_and_gradients_are_those_of_the_formula(used, dropped, mode, monkeypatch):
    """With kernels and without: of states for three uses, and of the cell state."""
    if mode == "torch":
        monkeypatch.setattr(operators, "has_kernel", lambda _: False)
    gates, cell = given = parts("cuda")
    others = [one.detach().cpu().requires_grad_() for one in given]
    i, f, g, o = others[0].chunk(4, -1)
    after = f.sigmoid() * others[1] + i.sigmoid() * g.tanh()
    hidden = o.sigmoid() * after.tanh()
    mask = torch.rand(ROWS, UNITS, dtype=torch.float64) if dropped else torch.ones_like(hidden)
    expected = torch.stack([hidden, hidden, hidden * mask, after])[[*used]]
    states, found_after = fused_cell(gates, cell, 3, mask.cuda() if dropped else None)
    found = torch.stack([(*states, found_after)[place] for place in used])
    torch.testing.assert_close(found.cpu(), expected)
    weights = torch.randn(expected.shape, dtype=torch.float64)
    moved = torch.autograd.grad((found * weights.cuda()).sum(), given)
    wanted = torch.autograd.grad((expected * weights).sum(), others)
    for one, right in zip(moved, wanted, strict=True):
        torch.testing.assert_close(one.cpu(), right)
