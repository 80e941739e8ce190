import pytest
import torch
from plain_decoder import attend, small

from repro.data.batching import collate
from repro.data.pair import Pair
from repro.mappings import Entmax, ProbabilityMap, Softmax, Sparsemax
from repro.models.seq2seq.attention import AttentionNormalizer, GlobalAttention
from repro.models.seq2seq.model import LstmEncoder, Seq2Seq
from repro.models.seq2seq.translator import TranslatorParts

MAPPINGS = [Softmax(), Entmax(1.5), Sparsemax()]
PAIRS = [Pair([4, 5, 6, 7], [4, 5]), Pair([5, 4], [6, 6, 5]), Pair([7], [4])]


def model(attention: ProbabilityMap, output: ProbabilityMap) -> Seq2Seq:
    torch.manual_seed(0)
    parts = TranslatorParts(9, 8, AttentionNormalizer(attention), output)
    return Seq2Seq(small(layers=2), parts)


def test_padding_changes_nothing():
    net = model(Sparsemax(), Entmax(1.5)).eval()
    together = collate(PAIRS, [0, 1, 2])
    scores = net(together.source, together.source_lengths, together.target).scores
    for row in range(3):
        alone = collate(PAIRS, [row])
        expected = net(alone.source, alone.source_lengths, alone.target).scores[0]
        torch.testing.assert_close(scores[row, : len(expected)], expected)


@pytest.mark.parametrize(("rate", "dropped"), [(None, True), (0.0, False), (0.5, True)])
def test_embeddings_have_a_dropout_of_their_own(rate, dropped):
    parts = TranslatorParts(9, 8, AttentionNormalizer(Softmax()), Softmax())
    net = Seq2Seq(small(dropout=0.3, embedding_dropout=rate), parts)
    batch = collate(PAIRS, [0, 1, 2])
    seen = []
    net.encoder.lstm.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].data))
    net(batch.source, batch.source_lengths, batch.target)
    assert bool((seen[0] == 0).any()) is dropped
    assert net.dropout.p == (0.3 if rate is None else rate)


@pytest.mark.parametrize("mapping", MAPPINGS, ids=lambda m: type(m).__name__)
def test_half_precision_leaves_the_attention_weights_whole(mapping):
    torch.manual_seed(1)
    attention = GlobalAttention(32, 32, AttentionNormalizer(mapping))
    query, memory = torch.randn(16, 32), torch.randn(16, 40, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        source = attention.attend_to(memory, torch.ones(16, 40, dtype=torch.bool), None)
        _, weights = attend(attention, query, source)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(1), torch.ones(16), rtol=0, atol=1e-6)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_encoder_reads_each_row_in_its_own_length(bidirectional):
    encoder = LstmEncoder(9, small(layers=2, bidirectional=bidirectional)).eval()
    batch = collate(PAIRS, [0, 1, 2])
    encoding = encoder(batch.source, batch.source_lengths)
    assert encoding.memory.shape == (3, 4, 10)
    assert encoding.hidden.shape == encoding.cell.shape == (2, 3, 10)
    for row, length in enumerate(batch.source_lengths.tolist()):
        embedded = encoder.embedding(batch.source[row : row + 1, :length])
        states, (hidden, _) = encoder.lstm(embedded)
        torch.testing.assert_close(encoding.memory[row, :length], states[0])
        assert (encoding.memory[row, length:] == 0).all()
        last = torch.cat([hidden[-2], hidden[-1]], -1) if bidirectional else hidden[-1]
        torch.testing.assert_close(encoding.hidden[-1, row], last[0])


def test_an_encoder_of_one_direction_does_not_see_what_follows():
    """Changing the last source symbol changes the last state only."""
    for bidirectional, unchanged in ((False, True), (True, False)):
        encoder = LstmEncoder(9, small(bidirectional=bidirectional)).eval()
        lengths = torch.tensor([4])
        one, other = (
            encoder(torch.tensor([[4, 5, 6, last]]), lengths).memory[0] for last in (7, 8)
        )
        assert torch.equal(one[:3], other[:3]) is unchanged
        assert not torch.equal(one[3], other[3])
