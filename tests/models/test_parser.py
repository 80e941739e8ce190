import pytest
import torch

from repro.config.schema.parsing import ParserConfig
from repro.data.batching import collate_trees
from repro.data.dependencies.trees import Tree
from repro.data.vocabulary import Vocabulary
from repro.models.parser import ArcScorer, LstmParser

FREQUENCY = [0, 0, 0, 0, 1, 3, 100, 1]
TREES = [
    Tree([4, 5, 6], [4, 5, 4], [2, 0, 2]),
    Tree([7], [5], [0]),
    Tree([6, 5, 5, 4, 6], [4, 4, 5, 5, 4], [0, 1, 2, 3, 4]),
]


@pytest.fixture
def parser() -> LstmParser:
    sizes = {"word_size": 6, "tag_size": 3, "lstm_size": 5, "layers": 2, "arc_size": 4}
    config = ParserConfig(name="parser", word_dropout=0.25, **sizes)
    return LstmParser(config, FREQUENCY, tags=6).double()


def test_arc_scores_are_those_of_the_layer_on_joined_states():
    scorer = ArcScorer(3, 4).double()
    torch.nn.init.normal_(scorer.head.bias)
    states = torch.randn(2, 5, 3, dtype=torch.float64)
    weight = torch.cat([scorer.head.weight, scorer.modifier.weight], dim=1)
    scores = scorer(states)
    for b in range(2):
        for i in range(5):
            for j in range(5):
                joined = torch.cat([states[b, i], states[b, j]])
                hidden = torch.tanh(weight @ joined + scorer.head.bias)
                torch.testing.assert_close(scores[b, i, j], scorer.score.weight[0] @ hidden)


def test_padding_and_neighbors_in_the_batch_change_nothing(parser):
    parser.eval()
    together = collate_trees(TREES, [0, 1, 2])
    scores = parser(together.words, together.tags, together.lengths)
    assert scores.shape == (3, 6, 6)
    for index in range(3):
        alone = collate_trees(TREES, [index])
        size = 1 + len(TREES[index].words)
        expected = parser(alone.words, alone.tags, alone.lengths)[0]
        torch.testing.assert_close(scores[index, :size, :size], expected)


def test_rare_words_are_dropped_more_often_and_marks_never(parser):
    torch.manual_seed(1)
    words = torch.arange(8).expand(20_000, 8)
    dropped = parser.drop_words(words) != words
    rates = dropped.double().mean(0)
    expected = torch.tensor([0, 0, 0, 0, 0.2, 0.25 / 3.25, 0.25 / 100.25, 0.2])
    torch.testing.assert_close(rates, expected.double(), atol=0.01, rtol=0)
    assert (rates[:4] == 0).all()
    torch.manual_seed(1)
    assert (parser.drop_words(words)[dropped] == Vocabulary.UNK).all()


def test_words_are_dropped_in_training_only(parser):
    batch = collate_trees(TREES, [0])
    parser.eval()
    first = parser(batch.words, batch.tags, batch.lengths)
    torch.testing.assert_close(parser(batch.words, batch.tags, batch.lengths), first)
    parser.train()
    parser.word_dropout = 1e9
    unknown = torch.full_like(batch.words, Vocabulary.UNK)
    unknown[:, 0] = Vocabulary.BOS
    trained = parser(batch.words, batch.tags, batch.lengths)
    parser.eval()
    torch.testing.assert_close(trained, parser(unknown, batch.tags, batch.lengths))
    assert not torch.allclose(trained, first)


def test_no_dropout_is_a_choice(parser):
    parser.word_dropout = 0.0
    words = torch.arange(8).expand(100, 8)
    assert torch.equal(parser.drop_words(words), words)


def test_every_parameter_is_trained_and_padding_is_not(parser):
    parser.eval()
    batch = collate_trees(TREES, [0, 1, 2])
    parser(batch.words, batch.tags, batch.lengths).square().sum().backward()
    for name, parameter in parser.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    assert (parser.words.weight.grad[Vocabulary.PAD] == 0).all()


def test_weights_start_as_stated(parser):
    assert (parser.words.weight[Vocabulary.PAD] == 0).all()
    assert 0.5 < parser.words.weight[1:].std() < 1.5
    bound = (5 / 3) * (6 / (10 + parser.arcs.head.out_features)) ** 0.5
    assert 0.8 * bound < parser.arcs.head.weight.abs().max() <= bound
    bias = parser.lstm.bias_ih_l0
    assert bias.tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 10
    assert (parser.lstm.bias_hh_l0 == 0).all()
    assert "word_frequency" not in parser.state_dict()
