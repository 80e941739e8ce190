import pytest
import torch
from torch import Tensor

from repro.mappings import MAPPINGS, ProbabilityMap, Sparsemax
from repro.models.entailment import AttentionClassifier

UNBOUNDED = [spec for spec in MAPPINGS.values() if not spec.bounded]


def classifier(
    vectors: Tensor, mapping: ProbabilityMap, dropout: float = 0.0
) -> AttentionClassifier:
    torch.manual_seed(3)
    return AttentionClassifier(vectors, False, 5, dropout, mapping)


@pytest.mark.parametrize("spec", UNBOUNDED, ids=lambda spec: spec.name)
def test_any_mapping_attends_to_real_words_only(spec, vectors, batch):
    found = classifier(vectors, spec.module())(batch)
    assert found.logits.shape == (4, 3)
    assert found.attention.shape == batch.premise.shape
    torch.testing.assert_close(found.attention.sum(1), torch.ones(4), atol=1e-5, rtol=0)
    assert (found.attention[batch.premise == 0] == 0).all()
    assert (found.attention >= 0).all()


def test_padding_changes_nothing(vectors, pairs):
    model = classifier(vectors.double(), Sparsemax()).double()
    together = model(pairs.collate([0, 1, 2, 3]))
    for row in range(4):
        alone = model(pairs.collate([row]))
        width = alone.attention.shape[1]
        torch.testing.assert_close(together.logits[row], alone.logits[0], atol=1e-13, rtol=0)
        torch.testing.assert_close(
            together.attention[row, :width], alone.attention[0], atol=1e-13, rtol=0
        )


def test_the_equations_of_one_pair(vectors, pairs):
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
    weights = model.mapping(scores)
    context = sum(weight * h for weight, h in zip(weights, states[0], strict=True))
    mixed = model.attended.weight @ context + model.combined(final[0, 0])
    torch.testing.assert_close(model(pair).attention[0], weights, atol=1e-13, rtol=0)
    torch.testing.assert_close(
        model(pair).logits[0], model.output(torch.tanh(mixed)), atol=1e-13, rtol=0
    )


def test_dropout_acts_in_training_only(vectors, batch):
    model = classifier(vectors, Sparsemax(), dropout=0.5)
    assert not torch.equal(model(batch).logits, model(batch).logits)
    model.eval()
    assert torch.equal(model(batch).logits, model(batch).logits)


def test_vectors_are_given_and_not_initialized(vectors):
    assert torch.equal(classifier(vectors, Sparsemax()).embedding.weight, vectors)
