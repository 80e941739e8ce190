"""LSTMs over padded rows against those over packed rows, which skip the padding."""

import pytest
import torch
from torch import Tensor, nn

from repro.models import layers
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


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padded_rows_have_states_and_gradients_of_packed_ones(inputs, depth, bidirectional):
    lstm = nn.LSTM(5, 6, depth, batch_first=True, bidirectional=bidirectional).double()
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


def test_cudnn_is_told_whether_a_backward_pass_may_follow(inputs, monkeypatch):
    """It refuses the backward pass of a call that was not in training."""
    lstm, told = nn.LSTM(5, 6, batch_first=True).double(), []
    whole = torch.lstm

    def spied(*arguments):
        told.append(arguments[6])
        return whole(*arguments)

    monkeypatch.setattr(torch, "lstm", spied)
    for mode in (lstm.train, lstm.eval):
        mode()
        padded_states(lstm, inputs, LENGTHS)
        with torch.no_grad():
            padded_states(lstm, inputs, LENGTHS)
    assert told == [True, False, True, False]


def test_autocast_leaves_cudnn_alone(monkeypatch):
    lstm, inputs = nn.LSTM(5, 6, batch_first=True), torch.randn(len(LENGTHS), SIZE, 5)
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)  # torch.autocast would not without a device
    try:
        with layers.cudnn_precision(torch.device("cuda")):
            assert not torch.is_autocast_enabled("cuda")
        with layers.cudnn_precision(torch.device("cpu")):
            assert torch.is_autocast_enabled("cuda")
    finally:
        torch.set_autocast_enabled("cuda", before)
    monkeypatch.setattr(layers, "cudnn_precision", lambda _: torch.autocast("cpu", enabled=False))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states, last = padded_states(lstm, inputs.bfloat16(), LENGTHS)
    assert {one.dtype for one in (states, *last)} == {torch.float32}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "units", "rows", "bound"),
    [
        (torch.float64, 6, 7, 1e-10),
        # The inflection model: for few units cuDNN may take one kernel for all positions.
        (torch.float32, 150, 64, 1e-4),
        (torch.float32, 150, 7, 1e-4),
    ],
    ids=["float64", "float32", "few rows in float32"],
)
def test_cudnn_finds_states_and_gradients_of_packed_rows(
    dtype, units, rows, bound, depth, monkeypatch
):
    """Without a warning, which is an error, of weights that it has to copy."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    lstm = nn.LSTM(30, units, depth, batch_first=True, bidirectional=True).double()
    lengths = LENGTHS.repeat(10)[:rows]
    inputs = torch.randn(rows, SIZE, 30, dtype=torch.float64).requires_grad_()
    states, last = lstm_states(lstm, inputs, lengths)
    expected = gradients([states, *last], [inputs, *lstm.parameters()])
    given, lstm = inputs.detach().to("cuda", dtype).requires_grad_(), lstm.to("cuda", dtype)
    states, last = lstm_states(lstm, given, lengths.cuda())
    found = gradients([one.cpu().double() for one in (states, *last)], [given, *lstm.parameters()])
    for one, right in zip(found, expected, strict=True):
        scale = max(1.0, float(right.detach().abs().max()))
        torch.testing.assert_close(one.cpu().double(), right, rtol=0, atol=bound * scale)


def test_states_of_a_gru_are_in_bfloat16_on_a_cpu_under_autocast():
    gru, inputs = nn.GRU(5, 6, batch_first=True), torch.randn(3, 4, 5)
    first = torch.randn(1, 3, 6)
    assert torch.equal(layers.gru_states(gru, inputs, first), gru(inputs, first)[0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layers.gru_states(gru, inputs).dtype == gru(inputs)[0].dtype
