"""Both classifiers: attention to the premise, and ESIM with every aligner."""

import pytest
import torch
from torch import Tensor, nn

from repro.config.schema.nli import PairModelConfig
from repro.mappings import MAPPINGS, ProbabilityMap, Softmax, Sparsemax
from repro.models.entailment.alignment import (
    Aligner,
    SequentialAligner,
    StructuredAligner,
    WordAligner,
)
from repro.models.entailment.classifiers import (
    AttendedLabels,
    AttentionClassifier,
    Esim,
    last_states,
)
from repro.structures import Matching

UNBOUNDED = [spec for spec in MAPPINGS.values() if not spec.bounded]
WEIGHTINGS = {
    "attention": Sparsemax,
    "softmax": lambda: WordAligner(Softmax()),
    "sparsemax": lambda: WordAligner(Sparsemax()),
    "sequential": SequentialAligner,
    "matching": lambda: StructuredAligner(Matching()),
}


def classifier(vectors: Tensor, weighting: nn.Module, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(3)
    trainable = isinstance(weighting, Aligner)
    kind, sizes = Esim if trainable else AttentionClassifier, {"vector_size": 6, "hidden_size": 5}
    config = PairModelConfig(trainable_vectors=trainable, dropout=dropout, **sizes)
    return kind(vectors, config, weighting, 3)


@pytest.fixture(params=WEIGHTINGS.values(), ids=WEIGHTINGS)
def weighting(request: pytest.FixtureRequest) -> nn.Module:
    made: nn.Module = request.param()
    return made


@pytest.mark.parametrize("spec", UNBOUNDED, ids=lambda spec: spec.name)
def test_any_mapping_attends_to_real_words_only(spec, vectors, batch):
    found = classifier(vectors, spec.module())(batch)
    assert found.logits.shape == (4, 3)
    assert found.attention.shape == batch.premise.shape
    torch.testing.assert_close(found.attention.sum(1), torch.ones(4), atol=1e-5, rtol=0)
    assert (found.attention[batch.premise == 0] == 0).all()
    assert (found.attention >= 0).all()


def weights(found) -> Tensor:
    """The weights over the premise of each sentence, or those from premise to hypothesis."""
    if isinstance(found, AttendedLabels):
        return found.attention.unsqueeze(2)
    return found.alignment.premise_to_hypothesis


def test_padding_changes_nothing(weighting, vectors, pairs):
    model = classifier(vectors.double() * 3, weighting).double()
    bounds = {"atol": 1e-13 if isinstance(weighting, ProbabilityMap) else 1e-9, "rtol": 0}
    together = model(pairs.collate([0, 1, 2, 3]))
    assert together.logits.shape == (4, 3)
    for row in range(4):
        alone, found = model(pairs.collate([row])), weights(together)[row]
        torch.testing.assert_close(together.logits[row], alone.logits[0], **bounds)
        m, n = weights(alone).shape[1:]
        torch.testing.assert_close(found[:m, :n], weights(alone)[0], **bounds)
        assert found[m:].abs().sum() == found[:, n:].abs().sum() == 0


def test_dropout_acts_in_training_only(weighting, vectors, batch):
    model = classifier(vectors, weighting, dropout=0.5)
    assert not torch.equal(model(batch).logits, model(batch).logits)
    model.eval()
    assert torch.equal(model(batch).logits, model(batch).logits)


def test_last_states_and_their_gradient_without_sorting():
    states, lengths = torch.randn(3, 5, 4, requires_grad=True), torch.tensor([5, 1, 3])
    expected = torch.stack([row[length - 1] for row, length in zip(states, lengths, strict=True)])
    (gradient,) = torch.autograd.grad((expected**2).sum(), states)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        found = last_states(states, lengths)
        (actual,) = torch.autograd.grad((found**2).sum(), states)
    assert torch.equal(found, expected)
    assert torch.equal(actual, gradient)
    called = {event.key for event in profile.key_averages()}
    assert not {name for name in called if "scatter" in name or "index_" in name}


def test_the_equations_of_attention(vectors, pairs):
    """The model written out for a single pair, step by step."""
    model = classifier(vectors.double(), Sparsemax()).double()
    pair = pairs.collate([0])
    words = [model.projection(model.embedding(ids)) for ids in (pair.premise, pair.hypothesis)]
    states, last = model.premise_gru(words[0])
    _, final = model.hypothesis_gru(words[1], last)
    query = model.query.weight @ final[0, 0] + model.query.bias
    scores = torch.stack(
        [model.score.weight[0] @ torch.tanh(model.key.weight @ h + query) for h in states[0]]
    )
    expected = model.mapping(scores)
    context = sum(weight * h for weight, h in zip(expected, states[0], strict=True))
    mixed = model.attended.weight @ context + model.combined(final[0, 0])
    torch.testing.assert_close(model(pair).attention[0], expected, atol=1e-13, rtol=0)
    torch.testing.assert_close(
        model(pair).logits[0], model.output(torch.tanh(mixed)), atol=1e-13, rtol=0
    )


def test_the_equations_of_esim(vectors, pairs):
    """The model written out for a single pair, with a softmax alignment."""
    model = classifier(vectors.double(), WordAligner(Softmax())).double()
    pair = pairs.collate([0])
    a = model.encoder(model.embedding(pair.premise), pair.premise_lengths)[0]
    b = model.encoder(model.embedding(pair.hypothesis), pair.hypothesis_lengths)[0]
    scores = a @ b.T
    pooled = []
    for states, other, table in ((a, b, scores), (b, a, scores.T)):
        aligned = table.softmax(1) @ other
        enhanced = torch.cat([states, aligned, states - aligned, states * aligned], dim=1)
        length = torch.tensor([len(states)])
        composed = model.composition(torch.relu(model.projection(enhanced))[None], length)[0]
        pooled += [composed.mean(0), composed.max(0).values]
    expected = model.output(torch.tanh(model.hidden(torch.cat(pooled))))
    torch.testing.assert_close(model(pair).logits[0], expected, atol=1e-12, rtol=0)


def test_vectors_are_given_and_not_initialized(weighting, vectors):
    assert torch.equal(classifier(vectors, weighting).embedding.weight, vectors)


def test_the_same_seed_gives_the_same_model(vectors, batch):
    first, second = (classifier(vectors, SequentialAligner())(batch).logits for _ in range(2))
    assert torch.equal(first, second)
