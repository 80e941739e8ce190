"""Attention with bounds and memory, against its formulas step by step."""

import pytest
import torch
from plain_decoder import attend, small

from repro.config.schema.seq2seq import FertilityConfig
from repro.data.batching import collate
from repro.data.pair import Pair
from repro.data.vocabulary import Vocabulary
from repro.decoding import beam_search
from repro.mappings import Csoftmax, Csparsemax, Entmax, Softmax, Sparsemax, csparsemax
from repro.models.seq2seq.attention import AttentionNormalizer, BoundedNormalizer, GlobalAttention
from repro.models.seq2seq.fertility import (
    AlignedFertility,
    ConstantFertility,
    FertilityTagger,
    PredictedFertility,
    TableFertility,
)
from repro.models.seq2seq.model import Seq2Seq
from repro.models.seq2seq.translator import TranslatorParts

SINK = 8
PAIRS = [
    Pair([4, 5, 6, 7, SINK], [4, 5, 6, 4, 5, 6, 4]),
    Pair([5, 4, SINK], [6, 6, 5, 7, 4, 5]),
    Pair([7, SINK], [4]),
]


def model(weighting, fertility=None, coverage_vector=False, output=None):
    torch.manual_seed(0)
    parts = TranslatorParts(9, 8, weighting, output or Softmax(), fertility)
    return Seq2Seq(small(layers=2, coverage_vector=coverage_vector), parts)


@pytest.mark.parametrize("mapping", [Csoftmax(), Csparsemax()], ids=["csoftmax", "csparsemax"])
def test_no_word_gets_more_than_its_fertility(mapping):
    net = model(BoundedNormalizer(mapping, exhaustion=0.2), ConstantFertility(1.0, SINK)).eval()
    batch = collate(PAIRS, [0, 1, 2])
    attention = net(batch.source, batch.source_lengths, batch.target).attention
    torch.testing.assert_close(attention.sum(-1), torch.ones(batch.target.shape))
    words = batch.source_mask & (batch.source != SINK)
    assert attention.sum(1)[words].max() <= 1 + 1e-5
    sinks = attention.sum(1)[batch.source == SINK]
    assert sinks[1] >= 7 - 2 - 1e-4  # seven steps, two words of fertility one
    assert (attention[(~batch.source_mask).unsqueeze(1).expand_as(attention)] == 0).all()


def test_bounded_attention_follows_the_formula():
    torch.manual_seed(1)
    attention = GlobalAttention(3, 4, BoundedNormalizer(Csparsemax(), exhaustion=0.2)).double()
    memory, mask = torch.randn(1, 4, 4).double(), torch.tensor([[True, True, True, False]])
    fertility = torch.tensor([[1.0, 0.6, torch.inf, 1.0]]).double()
    source = attention.attend_to(memory, mask, fertility)
    spent = torch.zeros(3).double()
    for _ in range(3):
        query = 3 * torch.randn(1, 3).double()
        left = (fertility[0, :3] - spent).clamp(min=0)
        scores = torch.stack([query[0] @ attention.key.weight @ h for h in memory[0, :3]])
        bonus = 0.2 * torch.stack([left[0], left[1], torch.tensor(0.0).double()])
        expected = csparsemax(scores + bonus, left)
        context, weights = attend(attention, query, source)
        torch.testing.assert_close(weights[0, :3], expected)
        torch.testing.assert_close(context[0], expected @ memory[0, :3])
        spent, source = spent + expected, source.after(weights)


def test_a_detached_bonus_changes_no_value_and_passes_no_gradient():
    torch.manual_seed(1)
    memory, mask = torch.randn(1, 3, 4).double(), torch.ones(1, 3, dtype=torch.bool)
    query = torch.randn(1, 3).double()
    attention = GlobalAttention(3, 4, BoundedNormalizer(Csparsemax(), exhaustion=0.2)).double()
    scores = torch.stack([query[0] @ attention.key.weight @ h for h in memory[0]]).detach()
    for detach in (False, True):
        attention.weighting.detach = detach
        fertility = torch.tensor([[1.0, 0.6, 2.0]]).double().requires_grad_()
        _, weights = attend(attention, query, attention.attend_to(memory, mask, fertility))
        bonus = 0.2 * (fertility.detach() if detach else fertility)
        expected = csparsemax(scores + bonus, fertility)
        torch.testing.assert_close(weights, expected)
        (found,) = torch.autograd.grad(weights.square().sum(), fertility)
        (wanted,) = torch.autograd.grad(expected.square().sum(), fertility)
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    "parts",
    [
        (BoundedNormalizer(Csparsemax()), ConstantFertility(2.0, SINK), False, Entmax(1.5)),
        (AttentionNormalizer(Sparsemax()), None, True, Sparsemax()),
        (AttentionNormalizer(Softmax()), None, False, Softmax()),
        (AttentionNormalizer(Entmax(1.5)), None, False, Entmax(1.5)),
    ],
    ids=["bounded", "coverage vector", "softmax", "entmax"],
)
def test_steps_equal_teacher_forcing_also_for_gathered_rows(parts):
    net = model(*parts).eval()
    batch = collate(PAIRS, [0, 1, 2])
    forced = net(batch.source, batch.source_lengths, batch.target)
    rows = torch.tensor([2, 0, 1])
    state = net.start(batch.source, batch.source_lengths).select(rows)
    previous = torch.full((3,), Vocabulary.BOS)
    for t in range(batch.target.shape[1]):
        step = net.step(state, previous)
        torch.testing.assert_close(step.probs, net.output_mapping(forced.scores[rows, t]))
        torch.testing.assert_close(step.attention, forced.attention[rows, t])
        state, previous = step.state, batch.target[rows, t]


@pytest.mark.parametrize("coverage_vector", [False, True])
def test_rows_of_the_same_sentences_share_what_depends_on_the_sentence(coverage_vector):
    net = model(BoundedNormalizer(Csparsemax()), ConstantFertility(2.0, SINK), coverage_vector)
    batch = collate(PAIRS, [0, 1, 2])
    state = (
        net.eval().start(batch.source, batch.source_lengths).select(torch.tensor([0, 0, 1, 2, 2]))
    )
    state = net.step(state, torch.tensor([4, 5, 4, 5, 4])).state
    rows = torch.tensor([1, 1, 2, 4, 3])  # within the sentences
    expected, found = state.select(rows), state.select(rows, same_sources=True)
    assert found.source.memory is state.source.memory
    assert found.feed.equal(expected.feed)
    for name, part in vars(expected.source).items():
        assert part is None or part.equal(getattr(found.source, name))


def test_beam_search_runs_with_bounds():
    net = model(BoundedNormalizer(Csparsemax()), ConstantFertility(1.0, SINK)).eval()
    batch = collate(PAIRS, [0, 1, 2])
    results = beam_search(
        net, batch.source, batch.source_lengths, beam_size=3, max_length=6, keep_attention=True
    )
    for result, pair in zip(results, PAIRS, strict=True):
        spent = result.hypotheses[0].attention.sum(0)
        assert spent[: len(pair.source) - 1].max() <= 1 + 1e-5


def test_without_bounds_nothing_is_remembered():
    state = model(AttentionNormalizer(Softmax())).start(torch.tensor([[4, 5]]), torch.tensor([2]))
    assert state.source.coverage is None
    assert state.source.fertility is None


@pytest.mark.parametrize(
    ("fertility", "message"),
    [(None, "needs fertilities"), (ConstantFertility(1.0, None), "a distribution needs")],
    ids=["none", "used up, and no sink"],
)
def test_fertilities_that_bound_no_distribution_are_refused(fertility, message):
    net, batch = model(BoundedNormalizer(Csparsemax()), fertility), collate(PAIRS, [2])
    with pytest.raises(ValueError, match=message):
        net(batch.source, batch.source_lengths, torch.tensor([[4, 5, 6, 3]]))


def tagger_of(**settings):
    return FertilityTagger(
        9, FertilityConfig(embedding_size=6, hidden_size=8, classes=4, **settings)
    )


def test_table_and_tagger_give_their_bounds_and_an_unbounded_sink():
    source = torch.tensor([[4, 5, SINK], [6, SINK, 0]])
    lengths = (source > 0).sum(1)
    table = TableFertility(torch.arange(9), SINK)(source, lengths)
    assert table.tolist() == [[4, 5, torch.inf], [6, torch.inf, 0]]
    tagger = tagger_of(layers=1, least=0)
    bounds = PredictedFertility(tagger, SINK)(source, lengths)
    assert bounds[0, 2] == torch.inf
    probs = tagger(source, lengths)[0, 0].softmax(-1)
    expected = sum(k * p for k, p in enumerate(probs.tolist()))
    assert bounds[0, 0].item() == pytest.approx(1 + expected, abs=1e-5)
    assert not any(p.requires_grad for p in tagger.parameters())


def test_aligned_fertilities_are_those_of_the_sentence():
    sentences = [([4, 5, SINK], [1, 2]), ([4, 5, SINK], [3, 1]), ([6, SINK], [2])]
    aligned = AlignedFertility(sentences, SINK, margin=0.5)
    source = torch.tensor([[4, 5, SINK], [6, SINK, 0]])
    bounds = aligned(source, torch.tensor([3, 2]))
    assert bounds.tolist()[0] == [3.5, 2.5, torch.inf]  # the larger one of both sentences
    assert bounds.tolist()[1][:2] == [2.5, torch.inf]
    unknown = torch.tensor([[5, 4, SINK]])
    with pytest.raises(ValueError, match=r"no aligned fertilities for the source sentence \[5, 4"):
        aligned(unknown, torch.tensor([3]))


def test_aligned_fertilities_bound_training_and_expected_ones_new_text():
    tagger = tagger_of(layers=2, dropout=0.9, least=1)
    source = torch.tensor([[4, 5, SINK]])
    lengths = (source > 0).sum(1)
    predicted = PredictedFertility(
        tagger, SINK, 1.0, AlignedFertility([([4, 5, SINK], [7, 0])], SINK, 1.0)
    )
    assert predicted.train()(source, lengths).tolist() == [[8, 1, torch.inf]]
    expected = predicted.eval()(source, lengths)
    assert (expected >= 2).all()
    assert (expected[:, :2] <= 5).all()
    always = PredictedFertility(tagger, SINK, 1.0)
    assert always.train()(source, lengths).tolist() == expected.tolist()  # no dropout in the tagger
