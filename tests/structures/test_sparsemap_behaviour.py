"""Known weaknesses of other libraries: convergence, history, memory, threads, bad input."""

import gc
import resource
import sys
from pathlib import Path

import pytest
import torch
from child import run_python

from repro.structures import Arborescence, ConvergenceWarning, LinearChain, Matching, sparsemap

STRUCTURES = [LinearChain(), Matching(), Arborescence()]


def test_more_iterations_are_never_worse():
    unary = torch.randn(4, 41, 41, dtype=torch.float64)
    gaps, start = [], None
    for max_iter in (5, 40):
        with pytest.warns(ConvergenceWarning):
            start = sparsemap(Arborescence(), unary, max_iter=max_iter)
        gaps.append(start.gap)
    assert (gaps[0] > gaps[1]).all()
    full = sparsemap(Arborescence(), unary)
    continued = sparsemap(Arborescence(), unary, start=start)
    assert full.gap.max() <= 1e-10
    torch.testing.assert_close(continued.marginals, full.marginals, rtol=0, atol=1e-5)


def test_no_convergence_is_said_and_shown():
    unary = torch.randn(3, 12, 12, dtype=torch.float64)
    unary[1] *= 1e4
    with pytest.warns(ConvergenceWarning, match="2 of 3 instances did not reach the gap 1e-10"):
        solution = sparsemap(Matching(), unary, max_iter=5)
    assert solution.converged.tolist() == [False, True, False]
    assert (solution.iterations <= 5).all()
    assert (solution.gap[[0, 2]] > 1e-10).all()
    torch.testing.assert_close(solution.marginals.sum(1), torch.ones(3, 12).double())


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_nan_names_the_instance(structure, value):
    unary, transitions = torch.zeros(3, 4, 4), torch.zeros(3, 3, 4, 4)
    unary[1, 2, 3] = transitions[1, 0, 1, 1] = value
    cases = [(unary,)]
    if isinstance(structure, LinearChain):
        cases.append((torch.zeros(3, 4, 4), transitions))
    for scores in cases:
        for solve in (structure.map, lambda *given: sparsemap(structure, *given)):
            with pytest.raises(ValueError, match="instance 1: a score is NaN"):
                solve(*scores)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_some_scores_may_be_forbidden(structure):
    """``-inf`` is not the same as a very low score: it never comes back as NaN."""
    unary = torch.randn(4, 9, 9, dtype=torch.float64)
    holes = torch.rand(4, 9, 9) < 0.3
    holes[:, 0] = holes[:, torch.arange(9), torch.arange(9)] = False
    exact = sparsemap(structure, unary.masked_fill(holes, -torch.inf))
    low = sparsemap(structure, unary.masked_fill(holes, -1e9))
    masked = sparsemap(structure, unary, mask=~holes)
    assert (exact.marginals[holes] == 0).all()
    assert torch.equal(exact.marginals, masked.marginals)
    torch.testing.assert_close(exact.marginals, low.marginals, rtol=0, atol=1e-5)


def test_tags_that_no_item_may_have_are_left_out():
    """Shorter tag sets in a padded batch: the same as alone, also from a start with all tags."""
    unary, transitions = torch.randn(4, 6, 9).double(), torch.randn(5, 9, 9).double()
    tags = torch.tensor([9, 4, 1, 7])
    mask = (torch.arange(9) < tags.unsqueeze(1)).unsqueeze(1).expand_as(unary)
    together = sparsemap(LinearChain(), unary, transitions, mask=mask)
    full = sparsemap(LinearChain(), unary, transitions)
    started = sparsemap(LinearChain(), unary, transitions, mask=mask, start=full)
    best = LinearChain().map(unary, transitions, mask=mask)
    for b, m in enumerate(tags.tolist()):
        scores = unary[b : b + 1, :, :m], transitions[:, :m, :m]
        alone = sparsemap(LinearChain(), *scores).marginals
        for found in (together, started):
            torch.testing.assert_close(found.marginals[b : b + 1, :, :m], alone, rtol=0, atol=1e-5)
            assert (found.marginals[b, :, m:] == 0).all()
        assert torch.equal(best[b : b + 1], LinearChain().map(*scores))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_memory_of_earlier_calls(structure):
    unary, other = torch.randn(3, 9, 9), torch.randn(3, 9, 9)
    first = sparsemap(structure, unary)
    sparsemap(structure, other)
    with pytest.warns(ConvergenceWarning):
        sparsemap(structure, other, max_iter=2)
    again = sparsemap(structure, unary)
    assert torch.equal(first.marginals, again.marginals)
    assert torch.equal(first.structures, again.structures)
    single = sparsemap(structure, unary[1:2])
    assert torch.equal(first.marginals[1:2], single.marginals)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_threads_change_nothing(structure, threads):
    unary = torch.randn(9, 25, 25, requires_grad=True)
    direction, found = torch.randn(9, 25, 25), []
    for count in (1, 2, 3):
        threads(count)
        marginals = sparsemap(structure, unary).marginals
        (grad,) = torch.autograd.grad(marginals, unary, direction)
        found.append((marginals, grad, structure.map(unary)))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process as on Linux")
@pytest.mark.parametrize("structure", STRUCTURES)
def test_memory_does_not_grow(structure):
    unary = torch.randn(2, 21, 21, requires_grad=True)

    def several(times: int) -> None:
        for _ in range(times):
            sparsemap(structure, unary).marginals.square().sum().backward()
            unary.grad = None

    several(100)
    gc.collect()
    before = _resident()
    several(300)
    gc.collect()
    assert _resident() - before < 3


def _resident() -> float:
    """Resident memory in MB; its peak would say nothing after a test that needs more."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_start_saves_iterations_and_gives_the_same(structure):
    unary = torch.randn(4, 12, 12, dtype=torch.float64)
    cold = sparsemap(structure, unary)
    same = sparsemap(structure, unary, start=cold)
    moved = unary + 1e-3 * torch.randn(unary.shape, dtype=torch.float64)
    warm, fresh = sparsemap(structure, moved, start=cold), sparsemap(structure, moved)
    assert (same.iterations <= 3).all()
    assert warm.iterations.sum() < fresh.iterations.sum()
    torch.testing.assert_close(same.marginals, cold.marginals, rtol=0, atol=1e-5)
    torch.testing.assert_close(warm.marginals, fresh.marginals, rtol=0, atol=1e-5)


def test_a_start_that_became_forbidden():
    unary = torch.randn(2, 6, 6, dtype=torch.float64)
    cold = sparsemap(Matching(), unary)
    mask = cold.marginals < 0.2
    mask |= torch.eye(6, dtype=torch.bool)
    warm = sparsemap(Matching(), unary, mask=mask, start=cold)
    assert (warm.marginals[~mask] == 0).all()
    expected = sparsemap(Matching(), unary, mask=mask).marginals
    torch.testing.assert_close(warm.marginals, expected, rtol=0, atol=1e-5)


def test_importing_is_cheap():
    """Neither compiler is imported before there is something to solve."""
    names = "('numba', 'torch._dynamo')"
    code = f"import repro.structures, sys; print([m in sys.modules for m in {names}])"
    assert run_python("-c", code).strip() == "[False, False]"


@pytest.mark.parametrize("structure", STRUCTURES)
def test_bad_arguments_are_refused(structure):
    good = torch.zeros(2, 3, 3)
    cases = [
        ((torch.zeros(3, 3),), {}, "unary scores"),
        ((good.long(),), {}, "floating point"),
        ((good,), {"mask": torch.ones(2, 3, 3)}, "boolean"),
        ((good,), {"mask": torch.ones(5, 2, 3, 3, dtype=torch.bool)}, "mask"),
        ((good,), {"lengths": torch.ones(2)}, "integers"),
        ((good,), {"lengths": torch.ones(3, 3, dtype=torch.long)}, "lengths"),
        ((good,), {"max_iter": 0}, "max_iter"),
        ((good,), {"tol": -1.0}, "tol"),
        ((good,), {"tol": float("nan")}, "tol"),
        ((good, torch.zeros(1)), {}, "transitions|additional"),
    ]
    for arguments, options, message in cases:
        with pytest.raises(ValueError, match=message):
            sparsemap(structure, *arguments, **options)


def test_what_does_not_fit_a_structure_is_refused():
    zeros, start = torch.zeros(2, 3, 3), sparsemap(Matching(), torch.zeros(2, 3, 3))
    wrong = [(1, 3, 3), (1, 5, 3, 3), (4, 3, 3), (3, 2, 3, 3), (2, 4, 3), (3,)]
    cases = [
        (LinearChain(), (zeros,), {"lengths": torch.tensor([3, 4])}, "instance 1: length"),
        (Arborescence(), (zeros,), {"lengths": torch.tensor([3, 1])}, "instance 0: length"),
        (Arborescence(), (zeros[:, :, :2],), {}, "arcs"),
        (LinearChain(), (zeros, torch.zeros(2, 3, 3).double()), {}, "transitions are"),
        *((LinearChain(), (zeros, torch.zeros(shape)), {}, "transitions") for shape in wrong),
        (Matching(), (torch.zeros(3, 3, 3),), {"start": start}, "the start"),
        (LinearChain(), (zeros,), {"start": start}, "the start"),
    ]
    for structure, arguments, options, message in cases:
        with pytest.raises(ValueError, match=message):
            sparsemap(structure, *arguments, **options)


@pytest.mark.parametrize("part", ["marginals", "weights"])
def test_scores_without_values_give_shapes_and_a_gradient(part):
    scores = torch.empty(3, 4, 5, device="meta", requires_grad=True)
    found = sparsemap(Matching(), scores, lengths=torch.tensor([[4, 5], [2, 3], [1, 1]]))
    assert found.marginals.is_meta
    assert found.marginals.shape == scores.shape
    (moved,) = torch.autograd.grad(getattr(found, part).sum(), scores)
    assert moved.shape == scores.shape


def test_weights_are_tracked_as_the_solution_was():
    scores = torch.randn(2, 3, 3, requires_grad=True)
    with torch.no_grad():
        detached = sparsemap(Matching(), scores)
    assert not detached.weights.requires_grad
    tracked = sparsemap(Matching(), scores)
    with torch.no_grad():
        assert tracked.weights.requires_grad
