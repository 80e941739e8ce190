"""The page for users of the package ``entmax``, and the tests of that package on this one."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from child import run_tests

from repro.losses import Entmax15Loss, EntmaxLoss, entmax15_loss, sparsemax_loss
from repro.mappings import Entmax15, Sparsemax, entmax, entmax15, sparsemax

HERE = Path(__file__).parent


def test_its_own_tests(tmp_path):
    """Every test of the package, unmodified: 127 in version 1.3."""
    spec = find_spec("entmax")
    if spec is None or not (tests := sorted(Path(spec.origin).parent.glob("test_*.py"))):
        pytest.skip("the package entmax is not installed with its tests")
    for test in tests:
        shutil.copy(test, tmp_path)
    options = ["-p", "entmax_adapter", "--rootdir", str(tmp_path)]
    assert "skipped" not in run_tests(*options, str(tmp_path), paths=(HERE, HERE.parents[1]))


def test_names():
    scores, target = torch.randn(3, 5, 4, dtype=torch.float64), torch.tensor([0, 4, 2])
    assert torch.equal(entmax15(scores, 1), entmax(scores, 1.5, dim=1))
    assert torch.equal(Entmax15(dim=1)(scores), entmax15(scores, dim=1))
    assert torch.equal(Entmax15(dim=1)(scores, dim=0), entmax15(scores, dim=0))
    assert torch.equal(Sparsemax(dim=1)(scores), sparsemax(scores, 1))
    rows = scores[..., 0].requires_grad_()
    losses = entmax15_loss(rows, target)
    assert torch.equal(losses, EntmaxLoss(reduction="none")(rows, target))
    assert torch.equal(Entmax15Loss(reduction="sum")(rows, target), losses.sum())
    (gradient,) = torch.autograd.grad(sparsemax_loss(rows, target).sum(), rows)
    hot = torch.nn.functional.one_hot(target, 5)
    torch.testing.assert_close(gradient, sparsemax(rows.detach()) - hot)


def test_the_size_of_the_support_comes_with_the_result():
    """Its main branch returns it from functions whose version 1.3 computes it in private."""
    oracle = pytest.importorskip("entmax.activations")
    scores = 2 * torch.randn(3, 7, 4, dtype=torch.float64)
    probs, size = entmax15(scores, 1, return_support_size=True)
    assert torch.equal(probs, entmax15(scores, 1))
    assert torch.equal(size, oracle._entmax_threshold_and_support(scores / 2, 1)[1])
    assert torch.equal(size, entmax(scores, 1.5, dim=1, return_support_size=True)[1])
    expected = oracle._sparsemax_threshold_and_support(scores, 1)[1]
    assert torch.equal(sparsemax(scores, 1, return_support_size=True)[1], expected)
    mask = torch.zeros(7, dtype=torch.bool)
    assert sparsemax(scores, 1, mask=mask[:, None], return_support_size=True)[1].sum() == 0
    target = torch.randint(7, (3, 4))
    rows = scores.movedim(1, -1).requires_grad_()
    for loss, mapping in ((sparsemax_loss, sparsemax), (entmax15_loss, entmax15)):
        losses, size = loss(rows, target, return_support_size=True)
        assert torch.equal(losses, loss(rows, target))
        assert losses.requires_grad
        assert torch.equal(size, mapping(rows, return_support_size=True)[1])
