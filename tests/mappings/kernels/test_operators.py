"""The operators as parts of torch: compiled, faked, from several threads, at their limits."""

import math
import os
import threading

import pytest
import torch
from child import run_python
from tolerances import ABSOLUTE, GRADIENT, LOSS, assert_close
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from repro.losses import EntmaxLoss
from repro.mappings import MAPPINGS, entmax, sparsemax
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.cpu import parallel


def arguments():
    scores, orders = torch.randn(3, 4, 9), torch.rand(3, 4, 1)
    probs, grad = torch.softmax(scores, -1), torch.randn(3, 4, 9)
    target, upstream = torch.randint(9, (3, 4)), torch.randn(3, 4)
    upper, status = torch.rand(3, 4, 9) + 0.2, torch.randint(0, 3, (3, 4, 9), dtype=torch.uint8)
    groups = torch.arange(9, dtype=torch.int32).expand(3, 4, 9) // 3
    return {
        "entmax_forward": (scores, 0.3),
        "entmax_forward_rows": (scores, orders),
        "entmax_backward": (probs, grad, 0.3),
        "entmax_backward_rows": (probs, grad, orders.reshape(-1)),
        "entmax_backward_scores": (probs, grad, orders.reshape(-1)),
        "entmax_loss": (scores, target, 0.5, -100),
        "entmax_loss_backward": (probs, target, upstream, -100),
        "bounded_forward": (scores, upper, 1.0, 1e-6),
        "budget_forward": (scores, 2.0),
        "budget_forward_rows": (scores, torch.rand(12) + 1.2),
        "bounded_backward": (probs, status, grad, 0.0, True, False),
        "fusedmax_forward": (scores, 0.1),
        "oscarmax_forward": (scores, 0.1),
        "grouped_backward": (probs, groups, grad),
        "sq_pnorm_max_forward": (scores, 1.5),
        "sq_pnorm_max_backward": (probs, grad, 1.5),
    }


@pytest.mark.parametrize("name", arguments())
def test_operators_are_what_they_say(name):
    """Launched directly, an operator gives the same result as by torch's dispatcher."""
    given, operator = arguments()[name], getattr(torch.ops.repro, name)
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    results = torch.library.opcheck(operator.default, given, test_utils=checks)
    assert set(results.values()) == {"SUCCESS"}
    direct, dispatched = dispatch.launch(name, *given), operator(*given)
    if isinstance(direct, torch.Tensor):
        direct, dispatched = [direct], [dispatched]
    for ours, theirs in zip(direct, dispatched, strict=True):
        assert torch.equal(ours, theirs)


def test_an_undefined_order_gives_an_undefined_row():
    probs = dispatch.launch("entmax_forward_rows", torch.randn(2, 9), torch.tensor([math.nan, 0.4]))
    assert probs[0].isnan().all()
    assert probs[1].isfinite().all()


def test_gradients_of_bounds_and_totals_are_made_where_wanted():
    place, grad = torch.tensor([[1, 2, 0], [2, 2, 0]], dtype=torch.uint8), torch.randn(2, 3)
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    empty = dispatch.launch("bounded_backward", probs, place, grad, 1.0, False, False)
    full = dispatch.launch("bounded_backward", probs, place, grad, 1.0, True, True)
    assert [tensor.shape for tensor in empty[1:]] == [(0,), (0,)]
    assert torch.equal(empty[0], full[0])
    expected = torch.tensor([[0.0, grad[0, 1] - grad[0, 0], 0.0], [0.0, 0.0, 0.0]])
    assert_close(full[1], expected, GRADIENT)
    assert_close(full[2], torch.tensor([grad[0, 0], 0.0]), GRADIENT)


@pytest.mark.parametrize("order", [0.0, 1.0])
def test_faulty_rows_are_counted_and_nan(order):
    upper = torch.tensor([[0.5, 0.25], [-0.5, 2.0], [math.nan, 2.0], [0.5, 0.75]])
    probs, _, faults = dispatch.launch("bounded_forward", torch.zeros(4, 2), upper, order, 1e-6)
    assert faults.item() == 3
    assert probs[:3].isnan().all()
    assert_close(probs[3], torch.full((2,), 0.5), ABSOLUTE)


def test_totals_that_cannot_be_spent_are_counted():
    totals = torch.tensor([3.0, -1.0, math.nan, 1.5, 2.0])
    probs, _, faults = dispatch.launch("budget_forward_rows", torch.zeros(5, 2), totals)
    assert faults.item() == 3
    assert probs[:3].isnan().all()
    assert torch.equal(probs[3:], torch.tensor([[0.75, 0.75], [1.0, 1.0]]))


@pytest.mark.parametrize("name", [name for name, spec in MAPPINGS.items() if spec.kernel])
def test_meta_tensors_take_one_operator_each_way(name):
    found = []

    class Recorded(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found.append(func.namespace)
            return func(*args, **(kwargs or {}))

    scores = torch.empty(3, 9, device="meta", requires_grad=True)
    bounds = [torch.empty_like(scores)] if MAPPINGS[name].bounded else []
    with Recorded():
        probs = MAPPINGS[name].function(scores, *bounds)
        probs.backward(torch.empty_like(probs))
    assert scores.grad.shape == scores.shape
    assert found.count("repro") == 2


def test_fake_tensors_stay_fake():
    with FakeTensorMode() as mode:
        scores = mode.from_tensor(torch.randn(3, 7)).requires_grad_()
        target = mode.from_tensor(torch.zeros(3, dtype=torch.long))
        probs, loss = entmax(scores, 1.3), EntmaxLoss()(scores, target)
        (probs.sum() + loss).backward()
        assert probs.shape == scores.grad.shape == (3, 7)
        assert loss.shape == ()


def both(scores, target):
    return entmax(scores, 1.3), EntmaxLoss()(scores, target)


def test_mapping_and_loss_compile_into_one_graph():
    torch._dynamo.reset()
    scores, target = torch.randn(4, 33, requires_grad=True), torch.randint(33, (4,))
    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    eager, ours = both(scores, target), compiled(scores, target)
    assert_close(ours[0], eager[0], ABSOLUTE)
    assert_close(ours[1], eager[1], LOSS)
    weight = torch.randn(4, 33)
    totals = [(probs * weight).sum() + loss for probs, loss in (eager, ours)]
    moved = [torch.autograd.grad(total, scores)[0] for total in totals]
    assert_close(*moved, GRADIENT)


def everything(scores, grad, target):
    """All that kernels compute of some rows."""
    outputs = []
    for order in (1.0, 0.5, 0.3):
        probs = dispatch.launch("entmax_forward", scores, order)
        outputs += [probs, dispatch.launch("entmax_backward", probs, grad, order)]
        losses, probs = dispatch.launch("entmax_loss", scores, target, order, -100)
        outputs += [losses, dispatch.launch("entmax_loss_backward", probs, target, losses, -100)]
    # An order without a vectorized solver sends its neighbors through the solver for single rows.
    orders = torch.linspace(0.03, 1.2, len(scores)).roll(1)
    probs = dispatch.launch("entmax_forward_rows", scores, orders)
    return [*outputs, probs, *dispatch.launch("entmax_backward_rows", probs, grad, orders)]


@pytest.mark.parametrize("size", [50, 400])
def test_the_same_bits_for_any_number_of_threads(size, threads):
    rows = 4 * parallel.GRAIN // size + 1
    scores, grad = torch.randn(rows, size), torch.randn(rows, size)
    target = torch.randint(size, (rows,))
    expected = everything(scores, grad, target)
    for count in (2, 3):
        threads(count)
        outcome = everything(scores, grad, target)
        assert all(torch.equal(a, b) for a, b in zip(outcome, expected, strict=True))


@pytest.mark.parametrize("place", [0, 999, 1999])
def test_a_bad_target_is_found_in_any_range(place, threads):
    threads(2)
    target = torch.zeros(2000, dtype=torch.long)
    target[place] = 50
    with pytest.raises(IndexError):
        dispatch.launch("entmax_loss", torch.randn(2000, 50), target, 1.0, -100)


def test_callers_in_several_threads_do_not_disturb_each_other(threads):
    threads(2)
    scores = [torch.randn(700, 400) for _ in range(4)]
    expected = [sparsemax(rows) for rows in scores]
    found = [None] * 4

    def call(k):
        found[k] = [sparsemax(scores[k]) for _ in range(5)]

    callers = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for probs, outcomes in zip(expected, found, strict=True):
        assert all(torch.equal(probs, outcome) for outcome in outcomes)


def test_an_error_in_a_helping_thread_is_raised(threads):
    threads(2)

    def fails_late(start, stop):
        if start > 0:
            raise MemoryError("no room")
        return 0

    with pytest.raises(MemoryError, match="no room"):
        parallel.split(fails_late, 10, 10 * parallel.GRAIN)


def test_ranges_make_up_all_rows(threads):
    threads(3)
    seen = []

    def entry(first, start, stop):
        seen.append((start, stop))
        return first + stop - start

    assert parallel.split(entry, 10, 100 * parallel.GRAIN, 1) == 13
    assert sorted(seen) == [(0, 3), (3, 6), (6, 10)]
    assert parallel.split(entry, 10, parallel.GRAIN, 1) == 11


def test_ranges_of_short_rows_begin_where_eight_are_solved_together(threads):
    threads(3)
    starts = []

    def entry(start, stop):
        starts.append(start)
        return stop - start

    assert parallel.split(entry, 1001, 4 * parallel.GRAIN) == 1001
    assert sorted(starts) == [0, 336, 672]


PROGRAM = """
import os, signal, sys, torch
torch.set_num_threads(2)
import repro.losses
from repro.mappings import entmax, sparsemax
print("numba" in sys.modules)
rows, scores = torch.randn(64, 20), torch.randn(2000, 400)
entmax(rows.double())
count, before = lambda: len(os.listdir("/proc/self/task")) - before, 0
before = count()
entmax(rows)
print("numba" in sys.modules, count())
expected = sparsemax(scores).numpy()
print(count(), torch.get_num_threads())
child = os.fork()
child or signal.alarm(60)
same = bool((sparsemax(scores).numpy() == expected).all())
child or os._exit(0 if same else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux does")
def test_threads_of_a_process():
    """Numba waits for the first call, threads for a large one; torch's number of threads stays.

    Importing may start threads all the same: some libraries of linear algebra do. A fork starts
    threads of its own; it computes with kernels and numpy only, as torch's threads are lost in it.
    """
    found = run_python("-c", PROGRAM, OMP_NUM_THREADS="2")
    assert found.split() == ["False", "True", "0", "1", "2", "0"]


WITHOUT_COMPILATION = """
import sys, torch
from repro.losses import EntmaxLoss, FenchelYoungLoss
from repro.mappings import MAPPINGS
from repro.mappings.kernels import dispatch
for spec in MAPPINGS.values():
    scores = torch.tensor([[0.4, 0.1, -0.3]], requires_grad=True)
    bounds = [torch.full((1, 3), 0.7)] if spec.bounded else []
    probs = spec.function(scores, *bounds)
    (probs * torch.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert abs(probs.sum().item() - 1) < 1e-6 and scores.grad.isfinite().all(), spec.name
    if not spec.bounded:
        FenchelYoungLoss(spec.module())(scores, torch.tensor([1])).backward()
EntmaxLoss()(scores, torch.tensor([1])).backward()
assert not dispatch.has_kernel(scores)
assert not any(name.startswith("repro.mappings.kernels.cpu.") for name in sys.modules)
"""


def test_compilation_switched_off():
    run_python("-W", "error", "-c", WITHOUT_COMPILATION, NUMBA_DISABLE_JIT="1")


@pytest.mark.parametrize(("value", "compiles"), [("1", False), ("0", True), ("", True)])
def test_numba_can_be_told_not_to_compile(monkeypatch, value, compiles):
    pytest.importorskip("numba")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", value)
    assert dispatch._numba_compiles() is compiles
