"""Every mapping has a row, every row runs, every target has a row."""

import pytest
import torch

from benchmarks import gate
from benchmarks.linear_comparison import LINEAR
from benchmarks.measurement import measure
from benchmarks.rows import SHAPES, Shape, all_rows
from benchmarks.structures import CASES
from benchmarks.targets import GOALS, Target, target_for
from benchmarks.timing import cpu_seconds
from repro.mappings import MAPPINGS

ROWS = {row.name: row for row in all_rows()}
CPU = torch.device("cpu")


def test_every_registered_mapping_has_a_row():
    mappings = [name for name, row in ROWS.items() if row.kind == "mapping"]
    assert mappings[: len(MAPPINGS)] == list(MAPPINGS)


def test_names_are_unique():
    assert len(ROWS) == len(all_rows())


@pytest.mark.parametrize("name", ROWS)
def test_every_row_is_measured(name):
    found = measure(ROWS[name], Shape(3, 8), CPU, cpu_seconds, bandwidth=1e9, seconds=0.0)
    assert (found.name, found.shape, found.rounds) == (name, "3x8", 1)
    assert 0 < found.fastest <= found.milliseconds
    assert found.ratio == pytest.approx(found.milliseconds / found.baseline)
    assert found.rate == pytest.approx(ROWS[name].floats * 3 * 8 * 4000 / found.milliseconds)
    assert found.roofline == pytest.approx(found.rate / 1e9)


def test_what_a_row_computes_has_gradients_for_scores_and_bounds():
    measured, baseline = ROWS["csparsemax"].passes(Shape(3, 8), CPU)
    assert [grad.shape for grad in measured()] == [(3, 8), (3, 8)]
    assert [grad.shape for grad in baseline()] == [(3, 8)]


def test_bounds_sum_to_enough_and_some_are_met():
    (upper,) = ROWS["csparsemax"].passes.args[1](Shape(20, 400), CPU)
    assert upper.sum(-1).min() > 1
    scores = torch.randn(20, 400, generator=torch.Generator().manual_seed(0))
    assert (MAPPINGS["csparsemax"].function(scores, upper) == upper).any()


def test_peers_are_compared_at_vocabulary_size_only():
    taken = {str(shape) for shape in SHAPES if ROWS["peer_sparsemax"].takes(shape)}
    assert taken == {"1280x18000", "256x32000"}


@pytest.mark.parametrize("device", GOALS)
def test_every_goal_belongs_to_a_row_and_a_shape(device):
    known = {*ROWS, f"{LINEAR}_time", f"{LINEAR}_memory", *(case.name for case in CASES)}
    shapes = {*map(str, SHAPES), *(case.size for case in CASES)}
    for goal in GOALS[device]:
        assert set(goal.rows) <= known
        assert goal.shapes is None or set(goal.shapes) <= shapes


def test_the_first_goal_that_fits_counts_and_only_for_two_threads():
    assert target_for("cpu", 2, "sparsemax", "1280x50") == Target(1.5)
    assert target_for("cpu", 2, "sparsemax", "1280x400") == Target(1.2)
    assert target_for("cpu", 1, "sparsemax", "1280x400") is None
    assert target_for("cpu", 2, "fusedmax", "1280x18000") is None
    assert target_for("cuda", 1, "sparsemax", "1280x50") == Target(1.2)


def test_a_target_bounds_from_above_or_from_below():
    assert Target(1.2).met(1.2)
    assert not Target(1.2).met(1.21)
    assert Target(10, at_least=True).met(11)
    assert not Target(10, at_least=True).met(9)
    assert [str(Target(1.2)), str(Target(10, at_least=True))] == ["≤ 1.2", "≥ 10"]


def test_every_kind_has_tests_that_exist():
    assert set(gate.TESTS) == {row.kind for row in ROWS.values()} | {"linear", "structure"}
    for paths in gate.TESTS.values():
        assert all((gate.ROOT / path).exists() for path in paths)
