"""Kernels for CUDA against PyTorch in double precision, on a device or in Triton's interpreter.

The interpreter runs launchers on tensors of the processor. It is chosen before triton is imported,
and the kernels for the processor are switched off with it: a process of its own runs this file.
"""

import mpmath
import numpy
import pytest
import torch
from hard_rows import hard_rows, newton_ladder, tied_above_two, tied_tail
from interpreter import INTERPRETED, KERNEL, on_a_device, run_in_the_interpreter, traffic
from pairwise import pairwise
from tolerances import ABSOLUTE, ADVERSARIAL, GRADIENT, SUM, assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import high_precision
from repro.mappings import (
    budget,
    csoftmax,
    csparsemax,
    entmax,
    fusedmax,
    oscarmax,
    sparsemax,
    sq_pnorm_max,
)
from repro.mappings.kernels import dispatch

pytest.importorskip("triton")

from repro.mappings.kernels.cuda import bounded_threshold, entmax_solver, grouped, launch, policy

SINGLE, DOUBLE = TYPES = torch.float32, torch.float64


@pytest.mark.skipif(INTERPRETED, reason="runs the tests below")
def test_all_in_the_interpreter():
    run_in_the_interpreter(__file__)


@pytest.fixture(params=[KERNEL])
def kernel(request):
    """Calls the launcher of an operator."""
    return request.param


@pytest.fixture
def short_chunks(monkeypatch):
    """Rows longer than 16 entries are read in chunks of 16."""
    whole = policy.tile

    def tile(length, itemsize, work):
        return whole(length, itemsize, policy.Work(16 * itemsize, 16 * itemsize, work.single))

    monkeypatch.setattr(policy, "tile", tile)


def drawn(size, dtype=SINGLE, count=4):
    generator = torch.Generator().manual_seed(size)
    return (2 * torch.randn(count, size, generator=generator, dtype=DOUBLE)).to(dtype)


def gradient_of(mapping, scores, grads, *more):
    """Result and gradients in double precision."""
    leaves = [tensor.detach().double().requires_grad_() for tensor in (scores, *more)]
    probs = mapping(*leaves)
    return probs.detach(), *torch.autograd.grad(probs, leaves, grads.double())


HARD = {
    "entmax_forward": [(0.02,), (0.3,), (0.5,), (1.0,)],
    "sq_pnorm_max_forward": [(1.1,), (1.5,)],
    "budget_forward": [(1.0,), (30.0,)],
    "fusedmax_forward": [(0.0,), (10.0,)],
    "oscarmax_forward": [(0.0,), (10.0,)],
}


@pytest.mark.parametrize(
    ("name", "settings"), [(name, one) for name, every in HARD.items() for one in every]
)
def test_hard_rows(kernel, name, settings):
    """Ladders, ties below the threshold, and in all rows a large shift."""
    scores = torch.stack([newton_ladder(40, 0.6), tied_tail(40, 0.5), *drawn(40, DOUBLE, 2)])
    scores = (scores + 1e4).float()
    found = kernel(name, scores, *settings)
    expected = dispatch.references[name](scores.double(), *settings)
    if isinstance(found, tuple):
        found, expected = found[0], expected[0]
    assert_close(found, expected, ADVERSARIAL)


def exact_entmax(row, order):
    """α-entmax by bisection of ``c`` with 50 digits."""
    with mpmath.workdps(50):
        order = mpmath.mpf(order)
        w = [order * (mpmath.mpf(z) - max(row)) for z in row]
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        for _ in range(160):
            c = (low + high) / 2
            total = sum((x + c) ** (1 / order) for x in w if x + c > 0)
            low, high = (c, high) if total < 1 else (low, c)
        return [float((x + high) ** (1 / order)) if x + high > 0 else 0.0 for x in w]


@pytest.mark.parametrize(("alpha", "dtype", "bound"), [(3.5, SINGLE, 2.5e-7), (2.1, DOUBLE, 1e-13)])
def test_entmax_above_two_against_fifty_digits(kernel, alpha, dtype, bound):
    scores = torch.cat([hard_rows(20)[1::6] / (alpha - 1), drawn(20, DOUBLE, 2)]).to(dtype)
    expected = [exact_entmax(row, alpha - 1) for row in scores.tolist()]
    found = kernel("entmax_forward", scores, alpha - 1)
    exact = torch.tensor(expected, dtype=DOUBLE)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=bound)


@pytest.mark.parametrize("alpha", [2.5, 5.0, 15.0])
@pytest.mark.parametrize("n", [50, 2000])
def test_entries_tied_at_the_threshold_above_two(kernel, n, alpha):
    scores, expected = tied_above_two(n, alpha)
    assert_close(kernel("entmax_forward", scores, alpha - 1), expected, ADVERSARIAL)


@pytest.mark.parametrize("p", [1.1, 1.5, 1.9])
@pytest.mark.parametrize(("n", "dtype"), [(50, DOUBLE), (1000, SINGLE), (32000, SINGLE)])
def test_entries_tied_at_the_threshold_of_sq_pnorm_max(kernel, n, dtype, p):
    scores = torch.zeros(6, n, dtype=dtype)
    scores[:, 0] = torch.linspace(0.3, 1, 6)
    expected = sq_pnorm_max(scores.double(), p)
    assert_close(kernel("sq_pnorm_max_forward", scores, p), expected, ADVERSARIAL)


@pytest.mark.skipif(not INTERPRETED, reason="counts what compiled kernels do not tell")
@pytest.mark.parametrize(("alpha", "dtype"), [(3.0, SINGLE), (2.5, DOUBLE)])
def test_steps_above_two(monkeypatch, kernel, alpha, dtype):
    """Rows end early: a handful of steps where bisection takes 60."""
    steps = []

    def counting(evaluate):
        def counted(*arguments):
            steps.append(1)
            return evaluate(*arguments)

        return counted

    for name in ("_gap_and_cut", "_height_sums"):
        monkeypatch.setattr(entmax_solver, name, counting(getattr(entmax_solver, name)))
    kernel("entmax_forward", drawn(200, dtype, 1), alpha - 1)
    assert 2 < len(steps) <= 12


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_entmax_with_an_order_for_each_row(kernel, dtype):
    """Above ``r = 1`` single precision must not be what limits the smallest entries."""
    scores, grads = drawn(40, dtype), drawn(41, dtype)[:, 1:]
    orders = torch.tensor([[0.1], [0.75], [1.0], [2.0]], dtype=dtype)
    expected, moved, drift = gradient_of(lambda z, r: entmax(z, 1 + r), scores, grads, orders)
    assert_close(kernel("entmax_forward_rows", scores, orders), expected, ABSOLUTE)
    found, found_drift = kernel("entmax_backward_rows", expected.to(dtype), grads, orders)
    steep = orders[:, 0] > 1
    assert_close(found[~steep], moved[~steep], GRADIENT)
    # Derivatives above r = 1 are as large as the smallest entry is small.
    torch.testing.assert_close(found.double(), moved, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found_drift.double(), drift[:, 0], rtol=1e-4, atol=1e-5)
    everywhere = kernel("entmax_forward_rows", scores, torch.tensor(0.5))
    assert_close(everywhere, entmax(scores.double(), 1.5), ABSOLUTE)


@pytest.mark.parametrize(
    ("chunked", "alpha", "dtype"), pairwise([False, True], [3.0, 15.0, 50.0], [SINGLE, DOUBLE])
)
def test_gradients_of_large_alpha(request, kernel, chunked, alpha, dtype):
    """Slopes overflow, or one of them dominates; what exceeds the largest number is that number."""
    if chunked:
        request.getfixturevalue("short_chunks")
    scores = torch.cat([torch.zeros(1, 40), tied_tail(40, 1 - 1e-4)[None], drawn(40)[:1]]) / alpha
    probs, grads = entmax(scores.double(), alpha).to(dtype), drawn(40, dtype, 3)
    moved = kernel("entmax_backward", probs, grads, alpha - 1)
    orders = torch.full((3, 1), alpha - 1, dtype=dtype)
    by_row, drifts = kernel("entmax_backward_rows", probs, grads, orders)
    rounding = 8 * alpha * torch.finfo(dtype).eps
    limit = torch.finfo(dtype).max
    for i, (share, vector) in enumerate(
        zip(*(t.numpy().astype(numpy.longdouble) for t in (probs, grads)), strict=True)
    ):
        product = numpy.clip(high_precision.entmax_product(share, vector, alpha), -limit, limit)
        scale = max(1, abs(product).max())
        for found in (moved[i], by_row[i]):
            assert abs(found.numpy() / scale - product / scale).max() <= rounding
        drift = high_precision.entmax_drift(share, vector, alpha)
        assert abs(drifts[i].item() - drift) <= rounding * max(1, abs(drift))
    assert torch.isinf(moved).sum() == 0


def test_undefined_gradients_of_large_alpha_stay_undefined(kernel):
    probs, grads = entmax(drawn(20).double(), 4.0).float(), drawn(20)
    grads[0, probs[0].argmax()] = torch.nan
    moved = kernel("entmax_backward", probs, grads, 3.0)
    assert moved[0][probs[0] > 0].isnan().all()
    assert moved[1:].isfinite().all()


@pytest.mark.parametrize("order", [0.0, 1.0])
def test_bounds_that_cannot_be_met_and_bounds_that_leave_no_choice(kernel, order):
    scores, upper = drawn(10, count=4), torch.full((4, 10), 0.2)
    upper[0], upper[1, 3], upper[2] = 0.05, -1.0, 0.09999999
    upper[3, 0] = -1e-7
    probs, place, _ = kernel("bounded_forward", scores, upper, order, 1e-6)
    assert probs[:2].isnan().all()
    assert torch.equal(probs[2], upper[2])
    assert (place[2] == 2).all()
    assert probs[3, 0] == 0
    assert place[3, 0] == 0


def test_thresholds_far_below_the_largest_scores(kernel):
    """Used-up leaders must not take digits away from the entries that share the rest."""
    scores = drawn(40, count=2)
    scores[:, :3] += 3e4
    upper = torch.full((2, 40), 0.3)
    upper[:, :3] = 0.1
    for mapping, order in ((csoftmax, 0.0), (csparsemax, 1.0)):
        probs, _, _ = kernel("bounded_forward", scores, upper, order, 1e-5)
        assert_close(probs, mapping(scores.double(), upper.double()), ABSOLUTE)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_mass_under_bounds_is_the_total(kernel, dtype):
    """Rows on which steps land on the ends of their bracket, or meet thousands of plateaus."""
    scores = 2 * drawn(50, DOUBLE, 37)[25:26].to(dtype)
    probs, _, _ = kernel("budget_forward", scores, 25.0)
    assert_close(probs, budget(scores.double(), 25.0), ABSOLUTE)
    scores = (3 * hard_rows(1000)[12:15]).to(dtype)
    upper = torch.full_like(scores, 0.003)
    probs, _, _ = kernel("bounded_forward", scores, upper, 1.0, 1e-5)
    assert_close(probs, csparsemax(scores.double(), upper.double()), ABSOLUTE)
    assert_close(probs.double().sum(-1).to(dtype), torch.ones(3), SUM)


@pytest.mark.skipif(not INTERPRETED, reason="counts what compiled kernels do not tell")
def test_steps_under_bounds(monkeypatch, kernel):
    """A few dozen steps at most for the hardest of many rows."""
    steps, evaluate = [], bounded_threshold._line

    def counted(*arguments):
        steps.append(1)
        return evaluate(*arguments)

    monkeypatch.setattr(bounded_threshold, "_line", counted)
    rows = torch.cat([drawn(200, DOUBLE, 37), 3 * hard_rows(200)])
    for scores in rows:
        steps.clear()
        kernel("bounded_forward", scores[None], torch.full((1, 200), 0.015, dtype=DOUBLE), 1.0, 0.0)
        assert 0 < len(steps) <= 40
        kernel("budget_forward", scores[None], 30.0)
        assert 0 < len(steps) <= 80


@pytest.mark.parametrize(
    ("means", "mapping", "dtype"),
    pairwise(["pairs", "totals"], [fusedmax, oscarmax], [SINGLE, DOUBLE]),
)
def test_group_means(monkeypatch, kernel, means, mapping, dtype):
    """Both ways to take means over groups; totals by one program for all rows."""
    if means == "totals":
        monkeypatch.setattr(policy, "PAIRWISE_ENTRIES", 0)
        monkeypatch.setattr(policy, "STREAM_ENTRIES", 16)
        monkeypatch.setattr(policy, "WORKSPACE_BYTES", 2**8)
    scores, grads = drawn(10, dtype), drawn(10, dtype)
    grads[1], grads[2] = 0, 1e30 * grads[2]
    expected, moved = gradient_of(lambda z: mapping(z, 0.05), scores, grads)
    probs, groups = kernel(f"{mapping.__name__}_forward", scores, 0.05)
    assert_close(probs, expected, ABSOLUTE)
    assert_close(kernel("grouped_backward", probs, groups, grads), moved, GRADIENT)


class AllocatedBytes(TorchDispatchMode):
    """Adds up what operators of torch allocate."""

    total = 0

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        """Run an operator and count its results, unless they are views."""
        results = operator(*arguments, **(named or {}))
        if not operator.is_view:
            tensors = results if isinstance(results, tuple) else (results,)
            self.total += sum(tensor.nbytes for tensor in tensors)
        return results


@pytest.mark.parametrize("forward", [grouped.fusedmax_forward, grouped.oscarmax_forward])
def test_workspace_of_long_rows_is_bounded(monkeypatch, forward):
    """However many rows there are: they are solved some at a time, each time within the bound."""
    monkeypatch.setattr(launch, "run", lambda *_, **__: None)
    count, length = 100_000, 32_000
    scores = torch.empty(count, length, device="meta")
    solved = []

    def levels(rows, groups, lam, ranks):
        with AllocatedBytes() as allocated:
            result = whole(rows, groups, lam, ranks)
        solved.append((len(rows), allocated.total))
        return result

    whole = grouped._levels
    monkeypatch.setattr(grouped, "_levels", levels)
    forward(scores, 0.1)
    assert sum(rows for rows, _ in solved) == count
    assert max(size for _, size in solved) <= policy.WORKSPACE_BYTES


def test_workspace_of_the_backward_pass_is_bounded(monkeypatch):
    monkeypatch.setattr(grouped, "run", lambda *_, **__: None)
    probs = torch.empty(100_000, 32_000, device="meta")
    with AllocatedBytes() as allocated:
        grouped.grouped_backward(probs, probs.to(torch.int32), probs)
    results = probs.nbytes + probs.numel() * 4
    assert 0 < allocated.total - results <= policy.WORKSPACE_BYTES


@pytest.mark.skipif(not INTERPRETED, reason="counts what the interpreter reads and writes")
@pytest.mark.parametrize(
    ("order", "held"),
    [(0.0, True), (0.0, False), (0.3, True), (0.5, True), (1.0, True), (2.0, True)],
)
def test_memory_traffic_of_losses_and_softmax(order, held, kernel, request):
    """Scores are read once and no distribution is written; ignored rows are not read at all."""
    if not held:
        request.getfixturevalue("short_chunks")
    scores, target = drawn(40, count=8), torch.arange(8)
    target[:2] = -100
    count, entries, state = 8, 6 * 40, 4 * (8 if order > 1 else 4)
    with traffic() as forward:
        losses, thresholds = kernel("fenchel_young", scores, target, order, -100)
    assert forward["read"] == 4 * (entries + 6) + 8 * count
    assert forward["written"] == (4 + state) * count
    with traffic() as backward:
        kernel("fenchel_young_backward", scores, thresholds, target, losses, order, -100)
    assert backward["read"] == 4 * entries + 6 * (state + 4) + 8 * count
    assert backward["written"] == 4 * scores.numel()
    if order == 0.0:
        with traffic() as softmax:
            kernel("entmax_forward", scores, order)
        assert softmax["read"] == 4 * scores.numel() * (1 if held else 2)
        assert softmax["written"] == 4 * scores.numel()


@pytest.mark.skipif(not INTERPRETED, reason="counts what the interpreter reads and writes")
@pytest.mark.parametrize("order", [0.3, 0.5, 1.0, 2.0])
def test_long_rows_with_few_entries_of_mass_are_read_once(short_chunks, kernel, order):
    """A row is read again only if more than two entries of a column of the chunks have mass."""
    scores = 60 * drawn(200, count=6)  # in 13 chunks
    largest = scores.amax(1)
    scores[1, 5::16] = largest[1] + torch.arange(13) * 1e-3
    scores[2, [0, 16, 199]] = largest[2] + torch.tensor([0.1, 0.2, 0.3])
    for row in (0, 2, 3, 4, 5):
        with traffic() as moved:
            found = kernel("entmax_forward", scores[row], order)
        assert moved == {"read": 4 * 200, "written": 4 * 200}
        assert_close(found, entmax(scores[row].double(), 1 + order), ABSOLUTE)
        with traffic() as moved:
            kernel("fenchel_young", scores[row : row + 1], torch.tensor([3]), order, -100)
        assert moved["read"] == 4 * 201 + 8
    with traffic() as moved:
        found = kernel("entmax_forward", scores[1], order)
    assert moved["read"] > 4 * 200
    assert moved["written"] == 4 * 200
    assert_close(found, entmax(scores[1].double(), 1 + order), ABSOLUTE)


def test_group_totals_propagate_bad_gradients(kernel):
    probs = torch.full((2, 300), 1 / 300)
    groups = torch.arange(300, dtype=torch.int32).repeat(2, 1) // 2
    grads = drawn(300, count=2)
    grads[0, 7] = torch.nan
    found = kernel("grouped_backward", probs, groups, grads)
    assert found[0].isnan().all()
    assert found[1].isfinite().all()


def test_shapes_and_empty_batches(kernel):
    scores = drawn(12).view(2, 2, 12).transpose(0, 1)
    expected = entmax(scores.double(), 2.0)
    assert_close(kernel("entmax_forward", scores, 1.0), expected, ABSOLUTE)
    assert kernel("entmax_forward", scores[:0], 0.5).shape == (0, 2, 12)
    assert kernel("fusedmax_forward", scores[:0], 0.1)[1].shape == (0, 2, 12)
    assert kernel("budget_forward", scores[:0], 1.0)[0].shape == (0, 2, 12)


LAM = 0.1
MAPPINGS = {
    "sparsemax": sparsemax,
    "entmax15": lambda z: entmax(z, 1.5),
    "entmax11": lambda z: entmax(z, 1.1),
    "entmax25": lambda z: entmax(z, 2.5),
    "csoftmax": lambda z: csoftmax(z, torch.full_like(z, 3 / z.size(-1))),
    "csparsemax": lambda z: csparsemax(z, torch.full_like(z, 3 / z.size(-1))),
    "budget": lambda z: budget(z, 0.5 * z.size(-1)),
    "sq_pnorm_max": sq_pnorm_max,
    "fusedmax": lambda z: fusedmax(z, LAM),
    "oscarmax": lambda z: oscarmax(z, LAM),
}


@pytest.mark.gpu
@on_a_device
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("size", [1, 2, 50, 63, 128, 1000, 5000, 20000, 70000])
@pytest.mark.parametrize("name", MAPPINGS)
def test_mappings_on_a_device(name, size, dtype):
    """Several rows in a program, one row, and rows in chunks; each time the same bits."""
    scores = 2 * drawn(size, DOUBLE, 37)
    scores[0, 0], scores[1, size // 2] = -torch.inf, torch.nan
    scores[2], scores[3, -1] = -torch.inf, torch.inf
    scores[4] += 1000
    scores = torch.cat([scores, *([hard_rows(size) * 3] if size <= 5000 else [])]).to(dtype)
    results = []
    for place in (scores.double(), scores.cuda(), scores.cuda()):
        leaf = place.requires_grad_()
        probs = MAPPINGS[name](leaf)
        weights = torch.linspace(-1, 1, size, dtype=leaf.dtype, device=leaf.device)
        (grad,) = torch.autograd.grad((probs * weights).sum(), leaf)
        results.append((probs.detach().cpu(), grad.cpu()))
    (probs, grads), (found, found_grads), (again, _) = results
    # Bounds of budget are 1, and the kernel for the CPU is within the rounding of scores of 3e4.
    assert_close(found, probs, ADVERSARIAL | ({DOUBLE: 4e-12} if name == "budget" else {}))
    # Where rounding decides whether an entry at zero is in the support, derivatives differ; as
    # they do where it decides whether tied segments or clusters are one.
    same = ((found > 0) == (probs > 0)).all(-1) & ~probs.isnan().any(-1)
    if name in ("fusedmax", "oscarmax"):  # equal values need not be in one segment
        operator = getattr(torch.ops.repro, f"{name}_forward")
        groups = [operator(place, LAM)[1].cpu() for place in (scores.double(), scores.cuda())]
        same &= ((groups[0] == groups[1]) | (probs == 0)).all(-1)
    assert same.any()
    bound = 1e-4 if dtype == SINGLE else GRADIENT[dtype]
    torch.testing.assert_close(found_grads[same].double(), grads[same], rtol=bound, atol=bound)
    torch.testing.assert_close(again, found, rtol=0, atol=0, equal_nan=True)
    alone = MAPPINGS[name](scores[7:8].cuda()).cpu()
    torch.testing.assert_close(found[7:8], alone, rtol=0, atol=0)
