"""The operators of α-entmax as parts of torch: compiled, faked, from several threads."""

import os
import subprocess
import sys
import threading

import pytest
import torch
from tolerances import ABSOLUTE, GRADIENT, LOSS, assert_close
from torch._subclasses.fake_tensor import FakeTensorMode

from repro.losses import EntmaxLoss
from repro.mappings import entmax, sparsemax
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.cpu import parallel


def arguments():
    scores, orders = torch.randn(3, 4, 9), torch.rand(3, 4, 1)
    probs, grad = torch.softmax(scores, -1), torch.randn(3, 4, 9)
    target, upstream = torch.randint(9, (3, 4)), torch.randn(3, 4)
    return {
        "entmax_forward": (scores, 0.3),
        "entmax_forward_rows": (scores, orders),
        "entmax_backward": (probs, grad, 0.3),
        "entmax_backward_rows": (probs, grad, orders.reshape(-1)),
        "entmax_backward_scores": (probs, grad, orders.reshape(-1)),
        "entmax_loss": (scores, target, 0.5, -100),
        "entmax_loss_backward": (probs, target, upstream, -100),
    }


@pytest.mark.parametrize("name", arguments())
def test_operators_are_what_they_say(name):
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    results = torch.library.opcheck(
        getattr(torch.ops.repro, name).default, arguments()[name], test_utils=checks
    )
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", arguments())
def test_launched_directly_the_result_is_the_same(name):
    torch.manual_seed(1)
    given = arguments()[name]
    direct, dispatched = dispatch.launch(name, *given), getattr(torch.ops.repro, name)(*given)
    pairs = (
        zip(direct, dispatched, strict=True)
        if isinstance(direct, tuple)
        else [(direct, dispatched)]
    )
    for ours, theirs in pairs:
        assert torch.equal(ours, theirs)


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


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # in dynamo
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


@pytest.fixture
def threads():
    """Set the number of threads; one again afterwards."""
    yield torch.set_num_threads
    torch.set_num_threads(1)


def everything(scores, grad, target):
    """All that kernels compute of some rows."""
    outputs = []
    for order in (1.0, 0.5, 0.3):
        probs = dispatch.launch("entmax_forward", scores, order)
        outputs += [probs, dispatch.launch("entmax_backward", probs, grad, order)]
        losses, probs = dispatch.launch("entmax_loss", scores, target, order, -100)
        outputs += [losses, dispatch.launch("entmax_loss_backward", probs, target, losses, -100)]
    # Rows of orders that are not solved in lanes go with their neighbours another way.
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


def in_a_process_of_its_own(program):
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


def test_numba_waits_for_the_first_call():
    program = (
        "import sys, torch, repro.mappings as m, repro.losses; print('numba' in sys.modules);"
        "m.sparsemax(torch.randn(2, 3)); print('numba' in sys.modules)"
    )
    assert in_a_process_of_its_own(program) == ["False", "True"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux does")
def test_a_small_call_starts_no_thread():
    """Importing may start threads all the same: some libraries of linear algebra do."""
    program = (
        "import os, torch; torch.set_num_threads(2); from repro.mappings import entmax;"
        "count = lambda: len(os.listdir('/proc/self/task')); scores = torch.randn(64, 20);"
        "entmax(scores.double()); before = count(); entmax(scores); print(count() - before);"
        "entmax(torch.randn(2000, 400)); print(count() - before)"
    )
    assert in_a_process_of_its_own(program) == ["0", "1"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_starts_threads_of_its_own():
    """The child computes with kernels and numpy only: torch's own threads are lost in a fork."""
    program = (
        "import os, signal, torch; torch.set_num_threads(2); from repro.mappings import sparsemax;"
        "scores = torch.randn(2000, 400); expected = sparsemax(scores).numpy(); child = os.fork();"
        "child or signal.alarm(60);"
        "same = bool((sparsemax(scores).numpy() == expected).all());"
        "child or os._exit(0 if same else 1);"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert in_a_process_of_its_own(program) == ["0"]
