import pytest
import torch
from torch import Tensor

from repro.mappings import Softmax, Sparsemax
from repro.models.entailment import Aligner, Esim, SequentialAligner, StructuredAligner, WordAligner
from repro.structures import Matching

ALIGNERS = {
    "softmax": lambda: WordAligner(Softmax()),
    "sparsemax": lambda: WordAligner(Sparsemax()),
    "sequential": SequentialAligner,
    "matching": lambda: StructuredAligner(Matching()),
}


def esim(vectors: Tensor, aligner: Aligner, dropout: float = 0.0) -> Esim:
    torch.manual_seed(3)
    return Esim(vectors, True, 5, dropout, aligner)


@pytest.fixture(params=ALIGNERS.values(), ids=ALIGNERS.keys())
def aligner(request: pytest.FixtureRequest) -> Aligner:
    made: Aligner = request.param()
    return made


def test_padding_changes_nothing(aligner, vectors, pairs):
    model = esim(vectors.double() * 3, aligner).double()
    together = model(pairs.collate([0, 1, 2, 3]))
    for row in range(4):
        alone = model(pairs.collate([row]))
        torch.testing.assert_close(together.logits[row], alone.logits[0], atol=1e-9, rtol=0)
        _, m, n = alone.alignment.premise_to_hypothesis.shape
        forth = together.alignment.premise_to_hypothesis[row]
        torch.testing.assert_close(
            forth[:m, :n], alone.alignment.premise_to_hypothesis[0], atol=1e-9, rtol=0
        )
        assert forth[m:].abs().sum() == forth[:, n:].abs().sum() == 0


def test_the_equations_of_one_pair(vectors, pairs):
    """The model written out for a single pair, with a softmax alignment."""
    model = esim(vectors.double(), WordAligner(Softmax())).double()
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


def test_dropout_acts_in_training_only(vectors, batch):
    model = esim(vectors, WordAligner(Sparsemax()), dropout=0.5)
    assert not torch.equal(model(batch).logits, model(batch).logits)
    model.eval()
    assert torch.equal(model(batch).logits, model(batch).logits)


def test_the_same_seed_gives_the_same_model(vectors, batch):
    first, second = (esim(vectors, SequentialAligner())(batch).logits for _ in range(2))
    assert torch.equal(first, second)
