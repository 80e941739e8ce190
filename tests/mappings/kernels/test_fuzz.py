"""Every kernel for CUDA on thousands of random rows, on a device or in Triton's interpreter."""

import zlib

import pytest
import torch
from fuzz import Draw, batch, deviation, not_optimal, off_total, widened
from interpreter import INTERPRETED, KERNEL, run_in_the_interpreter
from tolerances import ADVERSARIAL, GRADIENT, LOSS
from torch import Tensor

from repro.mappings.kernels import dispatch

pytest.importorskip("triton")

from repro.mappings.kernels.cuda import policy

TYPES = (torch.float32, torch.float64)
ORDERS = [(0.02,), (0.1,), (0.5,), (0.75,), (1.0,), (1.5,), (2.0,), (4.0,), (14.0,)]
LOSSES = [0.0, 0.0, 0.02, 0.1, 0.5, 0.5, 0.75, 1.0, 1.0, 1.5, 4.0]
"""Orders of losses, in single and double precision in turn."""
NORMS = [(1.1,), (1.5,), (1.9,)]
FORWARD = {
    "entmax_forward": [(0.0,), *ORDERS],
    "entmax_forward_rows": [()],
    "sq_pnorm_max_forward": NORMS,
    "bounded_forward": [(0.0,), (1.0,)],
    "budget_forward": [(1.0,), (3.0,)],
    "budget_forward_rows": [()],
    "fusedmax_forward": [(0.01,), (0.1,), (2.0,)],
    "oscarmax_forward": [(0.001,), (0.05,)],
}
CASES = [(name, settings) for name, every in FORWARD.items() for settings in every]
ALTERNATING = [(*case, TYPES[k % 2]) for k, case in enumerate(CASES)]
GROUPS = "fusedmax_forward", "oscarmax_forward"
"""Kernels that compute in double precision whatever the type, in many operations."""
TYPED = [
    (*case, dtype)
    for case in CASES
    for dtype in TYPES
    if case[0] not in GROUPS or (*case, dtype) in ALTERNATING
]
SHAPES = [(1, 16), (12, 384), (60, 320), (300, 64)]
CHUNKED, LONG, LONG_GROUPS = (130, 64), (4500, 2), (2100, 2)
"""Lengths and numbers of rows; rows also end early, at forbidden entries.

Long rows do not fit a tile in double precision; a tile of the kernels of groups has 512 entries.
"""
GROUP_GRADIENTS = 32
"""Rows of a batch whose derivatives are checked where each takes a program of its own."""
ROWS = len(CASES) * sum(count for _, count in SHAPES) + len(TYPED) * CHUNKED[1]


@pytest.mark.skipif(INTERPRETED, reason="runs the tests below")
def test_all_in_the_interpreter():
    assert ROWS >= 20_000
    run_in_the_interpreter(__file__)


@pytest.fixture(autouse=True)
def large_programs(monkeypatch):
    """In the interpreter, a program costs little more with many rows while a cache holds them."""
    if INTERPRETED:
        whole = policy.tile.__wrapped__
        monkeypatch.setattr(policy, "TILE_ENTRIES", 2**14)

        def tile(length, itemsize, work):
            return whole(length, itemsize, work._replace(single=False))

        monkeypatch.setattr(policy, "tile", tile)


@pytest.fixture
def chunks(monkeypatch):
    """Rows longer than 64 entries are read in chunks of 64, in the interpreter 64 rows at once.

    On a device, a program has one row, as those of long rows do: tiles that no run uses would take
    minutes to compile.
    """
    rows, warps = (64, 4) if INTERPRETED else (1, 1)

    def tile(length, itemsize, work):
        return policy.Tile(rows, 64, length <= 64, warps)

    monkeypatch.setattr(policy, "tile", tile)


def drawn(name, settings, dtype, n, count):
    """The arguments of an operator, the same in every run."""
    seed = zlib.crc32(f"{name} {settings} {dtype} {n}".encode())
    draw = Draw(seed)
    return draw, batch(name, settings, draw, count, n, dtype)


def none(wrong):
    """Assert that no row is wrong; the message names rows."""
    assert wrong.nonzero()[:, 0].tolist() == []


def on_the_processor(name, *arguments):
    """Call the kernel for the CPU."""
    return dispatch.launchers["cpu", name](*arguments)


def check(kernel, name, settings, dtype, n, count):
    """Compare values and derivatives of a batch with the operators in PyTorch in double."""
    draw, given = drawn(name, settings, dtype, n, count)
    results = tuple_of(kernel(name, *given.arguments))
    expected, *_ = tuple_of(dispatch.references[name](*widened(given.arguments)))
    probs, bound = results[0], ADVERSARIAL[dtype]
    if name == "entmax_forward_rows":  # the version in PyTorch solves more orders
        expected = expected.masked_fill(~(given.arguments[1] >= 0), torch.nan)
    errors = deviation(probs, expected)
    if dtype == torch.float64 and name.startswith("entmax"):
        # Above α = 2 rounding a score in double precision may change shares by much more.
        above_2 = torch.as_tensor(given.arguments[1]).flatten() > 1
        errors = errors.masked_fill(above_2 & (probs.isnan() == expected.isnan()).all(-1), 0.0)
    none(errors > bound)
    none(off_total(probs, given, bound))
    if given.link is not None:
        none(not_optimal(probs, given, bound))
    usual = ~probs.isnan().any(-1)
    if len(results) > 1:
        wrong = not_constant if results[1].dtype == torch.int32 else wrong_status
        none(wrong(probs, results[1], given) & usual)
    grad = draw.normal(count, n).to(dtype)
    operator, arguments = backward_of(name, given.arguments, results, grad)
    rows = usual.nonzero()[: GROUP_GRADIENTS if name in GROUPS else count, 0]
    kept = [x[rows] if isinstance(x, Tensor) and x.numel() > 1 else x for x in arguments]
    support = kept[1] > 0 if operator == "bounded_backward" else kept[0] > 0
    place = next(i for i, x in enumerate(arguments) if x is grad)
    wanted = dispatch.references[operator](*widened(kept))
    # Gradients of entries without mass are not read.
    kept[place] = torch.where(support, kept[place], torch.nan)
    for found, exact in zip(tuple_of(kernel(operator, *kept)), tuple_of(wanted), strict=True):
        largest = torch.finfo(dtype).max
        rows = (x if x.dim() > 1 else x[:, None] for x in (found, exact.clamp(-largest, largest)))
        none(deviation(*rows) > GRADIENT[dtype])


def tuple_of(results):
    """The results of an operator that returns one tensor or several."""
    return (results,) if isinstance(results, Tensor) else results


def backward_of(name, arguments, results, grad):
    """The backward operator of a forward operator, and its arguments."""
    if name.startswith("entmax"):
        operator = "entmax_backward_rows" if name.endswith("rows") else "entmax_backward"
        return operator, [results[0], grad, arguments[1]]
    if name == "sq_pnorm_max_forward":
        return "sq_pnorm_max_backward", [results[0], grad, arguments[1]]
    if name.startswith(("fused", "oscar")):
        return "grouped_backward", [*results, grad]
    order = arguments[2] if name == "bounded_forward" else 1.0
    return "bounded_backward", [*results[:2], grad, order, True, True]


def not_constant(probs, groups, _given):
    """Rows in which entries of one group differ."""
    highest = torch.zeros_like(probs).scatter_reduce(-1, groups.long(), probs, "amax")
    return ((probs > 0) & (probs != highest.gather(-1, groups.long()))).any(-1)


def wrong_status(probs, status, given):
    """Rows in which the status of an entry does not fit its share and bound."""
    at_upper = (status == 2) & (probs.double() != given.upper.clamp(min=0))
    return (at_upper | ((status == 0) & (probs != 0)) | ((status == 1) & ~(probs > 0))).any(-1)


def check_losses(kernel, order, dtype, n, count):
    """Compare losses and gradients with the operators in PyTorch in double precision."""
    draw = Draw(zlib.crc32(f"loss {order} {dtype} {n}".encode()))
    scores, grad = draw.scores(count, n).to(dtype), draw.normal(count).to(dtype)
    target = draw.integers(0, n, count)
    # Half of the targets are the best entries, whose losses are small.
    target = torch.where(draw.uniform(count) < 0.5, scores.nan_to_num().argmax(-1), target)
    target[draw.uniform(count) < 0.1] = -100
    losses, thresholds = kernel("fenchel_young", scores, target, order, -100)
    wanted, _ = dispatch.references["entmax_loss"](scores.double(), target, order, -100)
    # Infinite scores count as the largest number of the type.
    wanted = torch.where(wanted.isinf(), wanted, wanted.clamp(max=torch.finfo(dtype).max))
    none(deviation(losses[:, None], wanted[:, None]) > LOSS[dtype])
    moved = kernel("fenchel_young_backward", scores, thresholds, target, grad, order, -100)
    none(moved[target == -100] != 0)
    wide = scores.double(), thresholds, target, grad.double(), order, -100
    exact = dispatch.references["fenchel_young_backward"](*wide)
    errors = deviation(moved, exact).masked_fill(target == -100, 0.0)
    if dtype == torch.float64 and order > 1:  # rounding a score changes shares by more
        errors = errors.masked_fill((moved.isnan() == exact.isnan()).all(-1), 0.0)
    none(errors > 4 * ADVERSARIAL[dtype])


alternating = pytest.mark.parametrize(("name", "settings", "dtype"), ALTERNATING, ids=str)
on_kernels = pytest.mark.parametrize("kernel", [KERNEL])


@on_kernels
@pytest.mark.parametrize(("k", "case"), [*enumerate(CASES)], ids=str)
def test_rows(kernel, k, case):
    """Every case with every length and every type, and every length with every type."""
    for place, (n, count) in enumerate(SHAPES):
        check(kernel, *case, TYPES[(k + place) % 2], n, count)


every_loss = pytest.mark.parametrize(
    ("order", "dtype"), [(order, TYPES[k % 2]) for k, order in enumerate(LOSSES)], ids=str
)


@on_kernels
@every_loss
def test_losses(kernel, order, dtype):
    for n, count in SHAPES:
        check_losses(kernel, order, dtype, n, count)


@on_kernels
@every_loss
def test_losses_in_chunks(chunks, kernel, order, dtype):
    check_losses(kernel, order, dtype, *CHUNKED)


@on_kernels
@pytest.mark.parametrize(("name", "settings", "dtype"), TYPED, ids=str)
def test_rows_in_chunks(chunks, kernel, name, settings, dtype):
    check(kernel, name, settings, dtype, *CHUNKED)


@on_kernels
@alternating
def test_long_rows(kernel, name, settings, dtype):
    check(kernel, name, settings, dtype, *(LONG_GROUPS if name in GROUPS else LONG))


@on_kernels
@alternating
def test_rows_do_not_depend_on_their_neighbours(monkeypatch, kernel, name, settings, dtype):
    monkeypatch.undo()
    _, given = drawn(name, settings, dtype, 20, 15)
    found = tuple_of(kernel(name, *given.arguments))[0]
    order = torch.tensor([13, 2, 7, 11, 4])
    some = [x[order] if isinstance(x, Tensor) else x for x in given.arguments]
    alone = tuple_of(kernel(name, *some))[0]
    assert torch.equal(found[order].nan_to_num(-1.0), alone.nan_to_num(-1.0))


@pytest.mark.parametrize(
    "kernel",
    [
        KERNEL,
        pytest.param(
            on_the_processor,
            marks=pytest.mark.skipif(INTERPRETED, reason="runs beside the interpreter"),
            id="cpu",
        ),
    ],
)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("setting", [*(o[0] for o in ORDERS), 0.9, 0.95, *(p[0] for p in NORMS)])
def test_thousands_of_entries_next_to_the_threshold(kernel, setting, dtype):
    """Each is within the last digits of the threshold, and together they have mass that counts."""
    name = "sq_pnorm_max_forward" if (setting,) in NORMS else "entmax_forward"
    distance = 1.0 if (setting,) in NORMS else 1 / setting
    scores = torch.full((4, 4000), -distance, dtype=dtype)
    scores[:, 0] = 0.0
    heights = torch.tensor([1.0, 4.0, 25.0, 1e6]) * torch.finfo(dtype).eps
    scores[:, 1:] += heights[:, None].to(dtype) * Draw(1).uniform(4, 3999).to(dtype)
    if dtype == torch.float64 and name == "entmax_forward" and setting > 1:
        pytest.skip("rounding a score changes shares by more; see check()")
    expected = dispatch.references[name](scores.double(), setting)
    none(deviation(kernel(name, scores, setting), expected) > ADVERSARIAL[dtype])


@on_kernels
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-11])
def test_segments_of_nearly_one_level(kernel, gap):
    """Total variation moves two halves towards each other until their levels differ by a gap."""
    scores = torch.zeros(1, 32, dtype=torch.float64)
    scores[:, 16:] = 2 * 0.1 / 16 + gap
    probs, groups = kernel("fusedmax_forward", scores, 0.1)
    assert groups.unique().numel() == 2
    torch.testing.assert_close(
        probs[0, -1] - probs[0, 0], torch.tensor(gap).double(), rtol=1e-4, atol=0
    )
