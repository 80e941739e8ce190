"""LSTMs over padded rows against those over packed rows, which skip the padding."""

import pytest
import torch
from torch import Tensor, nn

from repro.models.layers import BidirectionalLstm, lstm_states, padded_layer, padded_states

LENGTHS = torch.tensor([11, 9, 9, 5, 3, 1, 1])
SIZE = 12  # one more than the longest row


@pytest.fixture
def inputs() -> Tensor:
    drawn = torch.randn(len(LENGTHS), SIZE, 5, dtype=torch.float64)
    return drawn.requires_grad_()


def gradients(outputs: list[Tensor], wanted: list[Tensor]) -> list[Tensor]:
    """Return outputs, and gradients of a random linear function of them."""
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(one.shape, generator=generator, dtype=one.dtype) for one in outputs]
    total = sum((one * weight).sum() for one, weight in zip(outputs, weights, strict=True))
    return [*outputs, *torch.autograd.grad(total, wanted)]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padded_rows_have_states_and_gradients_of_packed_ones(inputs, layers, bidirectional):
    lstm = nn.LSTM(5, 6, layers, batch_first=True, bidirectional=bidirectional).double()
    wanted = [inputs, *lstm.parameters()]
    (packed, packed_last), (padded, padded_last) = (
        states(lstm, inputs, LENGTHS) for states in (lstm_states, padded_states)
    )
    expected = gradients([packed, *packed_last], wanted)
    for found, right in zip(gradients([padded, *padded_last], wanted), expected, strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-12)


def test_both_directions_in_one_call_are_those_of_two_layers(inputs):
    lstm = BidirectionalLstm(5, 6).double()
    wanted = [inputs, *lstm.parameters()]
    weights = [*lstm.rightward.all_weights, *lstm.leftward.all_weights]
    mask = (torch.arange(SIZE) < LENGTHS.unsqueeze(1)).unsqueeze(-1)
    expected = gradients([lstm(inputs, LENGTHS)], wanted)
    found = gradients([padded_layer(inputs, mask, weights)[0]], wanted)
    for one, right in zip(found, expected, strict=True):
        torch.testing.assert_close(one, right, rtol=0, atol=1e-12)


def test_padding_does_not_matter(inputs):
    lstm = nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True).double()
    real = (torch.arange(SIZE) < LENGTHS.unsqueeze(1)).unsqueeze(-1)
    others = torch.where(real, inputs, 1e6)
    states, last = padded_states(lstm, inputs, LENGTHS)
    again, last_again = padded_states(lstm, others, LENGTHS)
    for one, other in zip((states, *last), (again, *last_again), strict=True):
        assert torch.equal(one, other)


def test_upper_layers_drop_their_inputs_in_training():
    lstm = nn.LSTM(5, 6, 2, batch_first=True, dropout=0.5)
    inputs = torch.randn(len(LENGTHS), SIZE, 5)
    states, _ = padded_states(lstm, inputs, LENGTHS)
    assert not torch.equal(states, padded_states(lstm, inputs, LENGTHS)[0])
    lstm.eval()
    states, _ = padded_states(lstm, inputs, LENGTHS)
    assert torch.equal(states, padded_states(lstm, inputs, LENGTHS)[0])
