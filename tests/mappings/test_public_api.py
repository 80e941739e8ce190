"""The public names and their signatures."""

import inspect
import re

import pytest

import repro.mappings as mappings

SIGNATURES = {
    "softmax": "scores, *, gamma=1.0, mask=None, dim=-1",
    "sparsemax": "scores, dim=-1, *, gamma=1.0, mask=None, return_support_size=False",
    "entmax15": "scores, dim=-1, *, mask=None, return_support_size=False",
    "entmax": "scores, alpha=1.5, *, mask=None, dim=-1, return_support_size=False",
    "csoftmax": "scores, upper, *, mask=None, dim=-1",
    "csparsemax": "scores, upper, *, mask=None, dim=-1",
    "normmax": "scores, alpha=2.0, *, mask=None, dim=-1",
    "budget": "scores, k, *, mask=None, dim=-1",
    "fusedmax": "scores, lam=0.1, *, gamma=1.0, mask=None, dim=-1",
    "oscarmax": "scores, lam=0.01, *, gamma=1.0, variant='exact', mask=None, dim=-1",
    "sq_pnorm_max": "scores, p=1.5, *, gamma=1.0, mask=None, dim=-1",
    "regularized": "omega, *, gamma=1.0, grad=None, hvp=None, tolerance=1e-06, max_iterations=2000",
    "Softmax": "gamma=1.0",
    "Fusedmax": "lam=0.1, gamma=1.0",
    "Oscarmax": "lam=0.01, gamma=1.0, variant='exact'",
    "SqPnormMax": "p=1.5, gamma=1.0",
    "Sparsemax": "gamma=1.0, *, dim=-1",
    "Entmax": "alpha=1.5",
    "Entmax15": "dim=-1",
    "LearnedAlphaEntmax": "heads=1, alpha=1.5",
    "Normmax": "alpha=2.0",
    "Budget": "k",
    "Csoftmax.forward": "self, scores, upper, mask=None, dim=-1",
    "Csparsemax.value": "self, scores, upper, mask=None, dim=-1",
    "ProbabilityMap.forward": "self, scores, mask=None, dim=-1",
    "ProbabilityMap.value": "self, scores, mask=None, dim=-1",
    "ProbabilityMap.omega": "self, probs, dim=-1",
    "ProbabilityMap.conjugate_centered": "self, centered, probs, dim=-1",
    "MappingSpec": (
        "name, module, function=..., sparse=True, bounded=False, sequential=False, kernel=False"
    ),
}


def test_every_mapping_is_public_as_function_and_module():
    for name, spec in mappings.MAPPINGS.items():
        assert {name, type(spec.module()).__name__} <= set(mappings.__all__)
    assert all(hasattr(mappings, name) for name in mappings.__all__)


@pytest.mark.parametrize("path", SIGNATURES)
def test_signature(path):
    found = mappings
    for name in path.split("."):
        found = getattr(found, name)
    signature = inspect.signature(found)
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    shown = signature.replace(parameters=bare, return_annotation=signature.empty)
    assert re.sub(r"<function .*?>", "...", str(shown)) == f"({SIGNATURES[path]})"


def test_registry():
    for name, spec in mappings.MAPPINGS.items():
        assert spec.name == name
        assert isinstance(spec.module(), mappings.ProbabilityMap)
        assert spec.module().bounded == spec.bounded
