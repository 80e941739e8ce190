"""The decoder against a plain one: values, gradients, launches, and what it never waits for."""

from collections import Counter

import pytest
import torch
from plain_decoder import plain_decode, small
from torch import Tensor
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from repro.mappings import Csoftmax, Csparsemax, Entmax, Softmax, Sparsemax, _bounded, _entmax
from repro.models.layers import Dropout, dropout_mask
from repro.models.seq2seq.attention import (
    AttentionNormalizer,
    BoundedNormalizer,
    FeedForwardAttention,
    GlobalAttention,
)
from repro.models.seq2seq.model import (
    Decoded,
    DecoderState,
    Encoding,
    InputFeedingDecoder,
)

ROWS, SOURCE, STEPS, UNITS, EMBEDDING = 3, 5, 4, 6, 5
ATTENTION = {
    "softmax": lambda n: GlobalAttention(n, n, AttentionNormalizer(Softmax())),
    "entmax": lambda n: GlobalAttention(n, n, AttentionNormalizer(Entmax(1.5))),
    "sparsemax": lambda n: GlobalAttention(n, n, AttentionNormalizer(Sparsemax())),
    "csoftmax": lambda n: GlobalAttention(n, n, BoundedNormalizer(Csoftmax(), 0.2)),
    "csparsemax": lambda n: GlobalAttention(n, n, BoundedNormalizer(Csparsemax(), 0.2)),
    "coverage": lambda n: GlobalAttention(n, n, AttentionNormalizer(Softmax()), True),
    "coverage of memory": lambda n: GlobalAttention(
        n, n, AttentionNormalizer(Softmax()), True, True
    ),
    "bounded coverage": lambda n: GlobalAttention(n, n, BoundedNormalizer(Csoftmax()), True),
    "mlp": lambda n: FeedForwardAttention(n, n, AttentionNormalizer(Sparsemax())),
    "mlp coverage": lambda n: FeedForwardAttention(n, n, AttentionNormalizer(Softmax()), True),
}
every_attention = pytest.mark.parametrize("kind", ATTENTION)


def decoder_of(kind: str, layers: int = 2, dropout: float = 0.3) -> InputFeedingDecoder:
    torch.manual_seed(0)
    attention, sizes = ATTENTION[kind](UNITS), {"embedding_size": EMBEDDING, "hidden_size": UNITS}
    bias = kind != "entmax"
    config = small(layers=layers, dropout=dropout, output_bias=bias, **sizes)
    return InputFeedingDecoder(config, attention)


def inputs_of(decoder: InputFeedingDecoder, steps: int = STEPS) -> tuple[Tensor, ...]:
    """Memory, hidden state, cell state, and embedded symbols."""
    shape = (len(decoder.cells), ROWS, UNITS)
    memory, hidden, cell = torch.randn(ROWS, SOURCE, UNITS), torch.randn(shape), torch.randn(shape)
    return memory, hidden, cell, torch.randn(ROWS, steps, EMBEDDING)


def start(
    decoder: InputFeedingDecoder, memory: Tensor, hidden: Tensor, cell: Tensor
) -> DecoderState:
    mask = torch.arange(SOURCE) < torch.tensor([[SOURCE], [2], [4]])
    fertility = torch.full((ROWS, SOURCE), 1.2, dtype=memory.dtype)
    fertility[:, 0] = torch.inf  # the sink
    return decoder.start(Encoding(memory, hidden, cell), mask, fertility)


def deferred(decoder, memory, hidden, cell, embedded) -> Decoded:
    torch.manual_seed(1)
    return decoder(start(decoder, memory, hidden, cell), embedded)


def plain(decoder, memory, hidden, cell, embedded) -> Decoded:
    torch.manual_seed(1)
    shape = (embedded.shape[1], len(decoder.cells), ROWS, UNITS)
    masks = dropout_mask(shape, decoder.dropout, embedded)
    return plain_decode(decoder, start(decoder, memory, hidden, cell), embedded, masks)


def total(decoded: Decoded) -> Tensor:
    """A scalar that depends on every output, every weight and every last state."""
    outputs, attention, _, state = decoded
    values = [outputs, attention, *state.hidden, *state.cell, state.feed]
    weights = [torch.linspace(-1, 1, value.numel()).view_as(value) for value in values]
    return sum((value * weight).sum() for value, weight in zip(values, weights, strict=True))


@every_attention
@pytest.mark.parametrize("layers", [1, 2])
def test_values_and_gradients_are_those_of_the_plain_decoder(kind, layers):
    decoder = decoder_of(kind, layers)
    inputs = [value.requires_grad_() for value in inputs_of(decoder)]
    variables = [*inputs, *decoder.parameters()]
    found, expected = deferred(decoder, *inputs), plain(decoder, *inputs)
    torch.testing.assert_close(found.outputs, expected.outputs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.attention, expected.attention, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        found.attention_scores, expected.attention_scores, rtol=1e-6, atol=1e-6
    )
    wanted = torch.autograd.grad(total(expected), variables)
    for got, want in zip(torch.autograd.grad(total(found), variables), wanted, strict=True):
        assert want.any()
        torch.testing.assert_close(got, want, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize(
    "kind", ["softmax", "csoftmax", "bounded coverage", "coverage of memory", "mlp coverage"]
)
def test_gradients_agree_with_finite_differences(kind):
    decoder = decoder_of(kind).double()
    names, parameters = zip(*decoder.named_parameters(), strict=True)

    def function(memory, hidden, cell, embedded, *values):
        class Call(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.decoder = decoder

            def forward(self):
                return deferred(self.decoder, memory, hidden, cell, embedded)[:2]

        replaced = {f"decoder.{name}": value for name, value in zip(names, values, strict=True)}
        return functional_call(Call(), replaced, ())

    inputs = [value.double().requires_grad_() for value in inputs_of(decoder, steps=3)]
    assert torch.autograd.gradcheck(function, (*inputs, *parameters), fast_mode=True)


@every_attention
def test_steps_one_by_one_are_those_of_a_sequence(kind):
    decoder = decoder_of(kind).eval()
    memory, hidden, cell, embedded = inputs_of(decoder)
    together = deferred(decoder, memory, hidden, cell, embedded)
    state = start(decoder, memory, hidden, cell)
    for step, symbol in enumerate(embedded.unbind(1)):
        outputs, attention, _, state = decoder(state, symbol.unsqueeze(1))
        torch.testing.assert_close(outputs[:, 0], together.outputs[:, step])
        torch.testing.assert_close(attention[:, 0], together.attention[:, step])


def test_a_graph_can_be_traversed_twice_and_is_freed():
    decoder = decoder_of("softmax")
    inputs = inputs_of(decoder)
    loss = total(deferred(decoder, *inputs))
    once = torch.autograd.grad(loss, list(decoder.parameters()), retain_graph=True)
    twice = torch.autograd.grad(loss, list(decoder.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(once, twice, strict=True))


def test_frozen_matrices_get_no_gradient_and_change_no_other():
    decoder = decoder_of("softmax")
    inputs = inputs_of(decoder)
    total(deferred(decoder, *inputs)).backward()
    wanted = decoder.cells[0].weight_ih.grad.clone()
    decoder.zero_grad()
    decoder.cells[0].weight_hh.requires_grad_(False)
    total(deferred(decoder, *inputs)).backward()
    assert decoder.cells[0].weight_hh.grad is None
    assert torch.equal(decoder.cells[0].weight_ih.grad, wanted)


class Operations(TorchDispatchMode):
    """Counts the operations of ATen, except for views."""

    VIEWS = frozenset({
        "view", "_unsafe_view", "expand", "t", "transpose", "slice", "select", "split", "unbind",
        "split_with_sizes", "as_strided", "detach", "squeeze", "unsqueeze", "alias", "permute",
    })  # fmt: skip
    WAITING = frozenset({"_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select"})

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in self.WAITING, f"{name} waits for the device"
        if name not in self.VIEWS:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


def operations(kind: str, steps: int) -> int:
    decoder = decoder_of(kind, layers=1)
    inputs = inputs_of(decoder, steps)
    with Operations() as seen:
        total(deferred(decoder, *inputs)).backward()
    return seen.counts.total()


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have mappings treat tensors as on an accelerator, whose values they do not read."""
    for module in (_entmax, _bounded):
        monkeypatch.setattr(module, "is_concrete", lambda tensor: False)


@pytest.mark.usefixtures("unreadable")
@pytest.mark.parametrize(
    ("kind", "bound"),
    [("softmax", 51), ("entmax", 51), ("csoftmax", 64), ("coverage", 62), ("mlp", 60)],
)
def test_a_step_launches_few_operations_and_never_waits(kind, bound):
    longer = operations(kind, 9) - operations(kind, 5)
    assert longer / 4 <= bound


def test_autocast_multiplies_in_bfloat16_and_keeps_states_whole():
    decoder = decoder_of("softmax", dropout=0.0)
    inputs = inputs_of(decoder)
    whole = deferred(decoder, *inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = deferred(decoder, *inputs)
        products = decoder._steps(start(decoder, *inputs[:3]).source, inputs[3])[0]
    assert all(product.matrix.dtype == torch.bfloat16 for product in products.gates)
    assert products.attention.scores.matrix.dtype == torch.bfloat16
    states = [*half.state.hidden, *half.state.cell, half.outputs, half.attention]
    assert {state.dtype for state in states} == {torch.float32}
    torch.testing.assert_close(half.outputs, whole.outputs, rtol=0, atol=0.03)
    total(half).backward()
    found = [p.grad.clone() for p in decoder.parameters()]
    decoder.zero_grad()
    total(whole).backward()
    for got, want in zip(found, (p.grad for p in decoder.parameters()), strict=True):
        assert got.dtype == torch.float32
        assert (got - want).norm() <= 0.05 * want.norm()


def test_dropout_drops_the_given_share_and_keeps_the_mean():
    mask = dropout_mask((400, 500), 0.3, torch.empty(0))
    torch.testing.assert_close(mask.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert (mask == 0).float().mean() == pytest.approx(0.3, abs=0.005)
    values = torch.randn(50, 40)
    layer = Dropout(0.5)
    assert layer(values).eq(0).float().mean() == pytest.approx(0.5, abs=0.05)
    assert layer.eval()(values) is values
