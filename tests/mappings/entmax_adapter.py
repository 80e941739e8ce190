"""The package ``entmax`` in terms of this one: a pytest plugin under which its own tests run.

Arguments that choose an algorithm or its effort (``k``, ``n_iter``, ``ensure_sum_one``) have no
counterpart, as results are exact.
"""

import sys
from functools import partial
from types import ModuleType

import pytest
import torch
from torch import nn

from repro import losses, mappings


def sparsemax(X, dim=-1, k=None):
    return mappings.sparsemax(X, dim)


def entmax15(X, dim=-1, k=None):
    return mappings.entmax15(X, dim)


def entmax_bisect(X, alpha=1.5, dim=-1, n_iter=50, ensure_sum_one=True):
    return mappings.entmax(X, alpha, dim=dim)


def sparsemax_bisect(X, dim=-1, n_iter=50, ensure_sum_one=True):
    return mappings.sparsemax(X, dim)


def normmax_bisect(X, alpha=2.0, dim=-1, n_iter=50):
    return mappings.normmax(X, alpha, dim=dim)


def budget_bisect(X, budget=2, dim=-1, n_iter=50):
    return mappings.budget(X, budget, dim=dim)


class Sparsemax(mappings.Sparsemax):
    def __init__(self, dim=-1, k=None):
        super().__init__(dim=dim)


class Entmax15(mappings.Entmax15):
    def __init__(self, dim=-1, k=None):
        super().__init__(dim)


class Loss(nn.Module):
    """A loss of this package under the names of the other's settings."""

    def __init__(self, make, ignore_index=-100, reduction="elementwise_mean", **effort):
        super().__init__()
        assert effort.keys() <= {"k", "n_iter"}
        known = "mean" if reduction == "elementwise_mean" else reduction
        self.loss = make(ignore_index=ignore_index, reduction=known)

    def forward(self, X, target):
        return self.loss(X, target)


def _support(X, dim, power):
    """Threshold and size of the support, where ``p = (z - τ)^power``."""
    probs = sparsemax(X, dim) if power == 1 else entmax15(2 * X, dim)
    size = (probs > 0).sum(dim, keepdim=True)
    return X.amax(dim, keepdim=True) - probs.amax(dim, keepdim=True) ** (1 / power), size


MODULES = {
    "activations": {
        "sparsemax": sparsemax, "entmax15": entmax15, "Sparsemax": Sparsemax, "Entmax15": Entmax15,
        "_sparsemax_threshold_and_support": lambda X, dim=-1, k=None: _support(X, dim, 1),
        "_entmax_threshold_and_support": lambda X, dim=-1, k=None: _support(X, dim, 2),
    },
    "root_finding": {
        "sparsemax_bisect": sparsemax_bisect, "entmax_bisect": entmax_bisect,
        "normmax_bisect": normmax_bisect, "budget_bisect": budget_bisect,
    },
    "losses": {
        "SparsemaxLoss": partial(Loss, losses.SparsemaxLoss),
        "Entmax15Loss": partial(Loss, losses.Entmax15Loss),
        "SparsemaxBisectLoss": partial(Loss, losses.SparsemaxLoss),
        "EntmaxBisectLoss": partial(Loss, losses.EntmaxLoss),
        "NormmaxBisectLoss": partial(Loss, partial(losses.FenchelYoungLoss, mappings.Normmax())),
    },
}  # fmt: skip

package = sys.modules["entmax"] = ModuleType("entmax")
for _name, _members in MODULES.items():
    _module = sys.modules[f"entmax.{_name}"] = ModuleType(f"entmax.{_name}")
    for _key, _value in _members.items():
        setattr(_module, _key, _value)
        setattr(package, _key, _value)


@pytest.fixture(autouse=True)
def seeded():
    """Draw the same numbers in every run."""
    torch.manual_seed(1)
