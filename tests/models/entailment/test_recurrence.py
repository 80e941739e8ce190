import pytest
import torch

from repro.models.entailment.classifiers import initialize, last_states, word_embedding
from repro.models.layers import BidirectionalLstm, length_mask

LENGTHS = torch.tensor([3, 1, 5])


def test_states_are_those_of_packed_rows():
    """PyTorch's own bidirectional layer, on each row without padding."""
    ours = BidirectionalLstm(4, 3).double()
    theirs = torch.nn.LSTM(4, 3, batch_first=True, bidirectional=True).double()
    weights = {**ours.rightward.state_dict()}
    weights |= {f"{name}_reverse": w for name, w in ours.leftward.state_dict().items()}
    theirs.load_state_dict(weights)
    inputs = torch.randn(3, 5, 4, dtype=torch.float64)
    states = ours(inputs, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, _ = theirs(inputs[row : row + 1, :length])
        torch.testing.assert_close(states[row, :length], alone[0], atol=1e-14, rtol=0)
        assert (states[row, length:] == 0).all()


def test_gradients_do_not_reach_padding():
    layer = BidirectionalLstm(4, 3)
    inputs = torch.randn(3, 5, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(inputs, LENGTHS).square().sum(), inputs)
    reached = (gradient != 0).any(-1)
    assert torch.equal(reached, length_mask(LENGTHS, 5))


def test_last_states_are_at_the_last_words():
    states = torch.arange(15.0).view(3, 5, 1)
    assert last_states(states, LENGTHS).tolist() == [[2.0], [5.0], [14.0]]


@pytest.mark.parametrize("trainable", [False, True])
def test_word_vectors_are_fixed_or_trained_and_padding_stays(trainable):
    matrix = torch.randn(4, 3)
    matrix[0] = 0
    embedding = word_embedding(matrix, trainable)
    assert embedding.weight.requires_grad == trainable
    assert torch.equal(embedding(torch.tensor([2])), matrix[2:3])
    if trainable:
        embedding(torch.tensor([0, 1])).sum().backward()
        assert embedding.weight.grad.sum(1).tolist() == [0.0, 3.0, 0.0, 0.0]


def test_initial_weights():
    model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.GRU(20, 10))
    initialize(model)
    linear, gru = model
    assert linear.weight.abs().max().item() == pytest.approx((6 / 50) ** 0.5, rel=0.05)
    for gate in gru.weight_hh_l0.split(10):
        torch.testing.assert_close(gate @ gate.T, torch.eye(10), atol=1e-5, rtol=0)
    for gate in gru.weight_ih_l0.split(10):
        assert gate.abs().max().item() == pytest.approx((6 / 30) ** 0.5, rel=0.05)
    for bias in (linear.bias, gru.bias_ih_l0, gru.bias_hh_l0):
        assert (bias == 0).all()
