"""The public names and their signatures."""

import inspect

import pytest

import repro.mappings as mappings

SIGNATURES = {
    "softmax": ["scores", "gamma=1.0", "mask=None", "dim=-1"],
    "sparsemax": ["scores", "gamma=1.0", "mask=None", "dim=-1"],
    "entmax": ["scores", "alpha=1.5", "mask=None", "dim=-1"],
    "Softmax": ["gamma=1.0"],
    "Sparsemax": ["gamma=1.0"],
    "Entmax": ["alpha=1.5"],
    "LearnedAlphaEntmax": ["heads=1", "alpha=1.5"],
    "ProbabilityMap.forward": ["self", "scores", "mask=None", "dim=-1"],
    "ProbabilityMap.value": ["self", "scores", "mask=None", "dim=-1"],
    "ProbabilityMap.omega": ["self", "probs", "dim=-1"],
    "ProbabilityMap.excess": ["self", "centred", "probs", "dim=-1"],
    "MappingSpec": ["name", "module", "function", "reference", "sparse", "color", "marker"],
}
KEYWORD_ONLY = {
    "softmax": {"gamma", "mask", "dim"},
    "sparsemax": {"gamma", "mask", "dim"},
    "entmax": {"mask", "dim"},
}


def look_up(path):
    found = mappings
    for name in path.split("."):
        found = getattr(found, name)
    return found


def shown(parameter):
    if parameter.default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={parameter.default}"


def test_names():
    assert set(mappings.__all__) == {
        "MAPPINGS",
        "Entmax",
        "LearnedAlphaEntmax",
        "MappingSpec",
        "ProbabilityMap",
        "Softmax",
        "Sparsemax",
        "entmax",
        "softmax",
        "sparsemax",
    }
    assert all(hasattr(mappings, name) for name in mappings.__all__)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    parameters = inspect.signature(look_up(name)).parameters
    assert [shown(parameter) for parameter in parameters.values()] == SIGNATURES[name]
    keyword_only = {p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert keyword_only == KEYWORD_ONLY.get(name, set())


def test_registry():
    assert list(mappings.MAPPINGS) == ["softmax", "sparsemax", "entmax"]
    for name, spec in mappings.MAPPINGS.items():
        assert spec.name == name
        assert isinstance(spec.module(), mappings.ProbabilityMap)
    looks = [(spec.color, spec.marker) for spec in mappings.MAPPINGS.values()]
    assert len(set(looks)) == len(looks)
