"""Kernels that fail, with launchers of CUDA kernels in the place of the processor's."""

import sys
import warnings

import pytest
import torch
from child import run_python

from repro.losses import EntmaxLoss
from repro.mappings import MAPPINGS, budget, csoftmax, csparsemax, entmax
from repro.mappings.kernels import dispatch
from repro.mappings.kernels.dispatch import CudaLauncher

NAMES = {name: one.family for (device, name), one in dispatch.launchers.items() if device == "cuda"}


@pytest.fixture(autouse=True)
def record(monkeypatch):
    """A record of what computed, of each test."""
    monkeypatch.setattr(dispatch, "computed_by", {})
    # Launchers are looked up in the table whether or not numba is there.
    monkeypatch.setitem(dispatch._INSTALLED, "cpu", True)
    for name in ("entmax_loss", "entmax_loss_backward"):
        monkeypatch.setitem(dispatch.launchers, ("cpu", name), dispatch.fallback(name))


def raising(*_):
    raise OSError("no C compiler")


def replace_kernels(monkeypatch, broken=()):
    """Put launchers of CUDA kernels in the place of the CPU's; return the names of called ones."""
    calls = []
    for name, family in NAMES.items():
        launcher = CudaLauncher(family, name)
        kernel = raising if name in broken else dispatch.fallback(name)

        def counted(*arguments, name=name, kernel=kernel):
            calls.append(name)
            return kernel(*arguments)

        launcher.kernel = counted
        monkeypatch.setitem(dispatch.launchers, ("cpu", name), launcher)
    return calls


def everything(dtype):
    """Results and gradients of all mappings and of a loss."""
    found = []
    for spec in MAPPINGS.values():
        scores = torch.randn(4, 7, generator=torch.Generator().manual_seed(1), dtype=dtype)
        scores.requires_grad_()
        bounds = [torch.full((4, 7), 0.4, dtype=dtype)] if spec.bounded else []
        probs = spec.function(scores, *bounds)
        (probs * torch.arange(7)).sum().backward()
        found += [probs.detach(), scores.grad]
    scores = scores.detach().requires_grad_()
    loss = EntmaxLoss(1.3)(scores, torch.tensor([0, 3, 6, -100]))
    loss.backward()
    return [*found, loss.detach(), scores.grad]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_broken_kernels_change_no_number(monkeypatch, dtype):
    replace_kernels(monkeypatch)
    for name in NAMES:  # the PyTorch code alone
        monkeypatch.setitem(dispatch.launchers, ("cpu", name), dispatch.fallback(name))
    expected = everything(dtype)
    calls = replace_kernels(monkeypatch, NAMES)
    with pytest.warns(RuntimeWarning, match="PyTorch code is used instead") as warned:
        found = everything(dtype)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, expected, strict=True))
    assert len(warned) == len(dispatch.replaced()) == len(calls) > 8
    with warnings.catch_warnings(action="error"):  # each operator fails and warns once
        everything(dtype)
    assert len(warned) == len(calls)


def test_a_warning_names_operator_and_reason(monkeypatch):
    calls = replace_kernels(monkeypatch, ["entmax_forward"])
    with pytest.warns(RuntimeWarning) as warned:
        everything(torch.float32)
    (text,) = (str(one.message) for one in warned)
    assert "entmax_forward" in text
    assert "no C compiler" in text
    assert "entmax_backward" in calls  # kernels that are right are used
    (code,) = dispatch.replaced().values()
    assert list(dispatch.replaced()) == ["entmax_forward float32 cpu"]
    assert "no C compiler" in code
    assert dispatch.computed_by["entmax_backward float32 cpu"] == "kernel"


@pytest.mark.parametrize(("mode", "noted"), [("auto", True), ("torch", False)])
def test_a_missing_compiler_is_noted_without_a_warning(mode, noted, monkeypatch):
    """With ``REPRO_KERNELS=torch`` none was asked for."""
    monkeypatch.setattr(dispatch, "MODE", mode)
    monkeypatch.setitem(dispatch._INSTALLED, "cpu", False)
    entmax(torch.zeros(2, 3), alpha=1.5)
    assert [*dispatch.replaced()] == ["every kernel on cpu"] * noted


def test_a_module_that_cannot_be_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "repro.mappings.kernels.cuda.entmax", None)
    launcher = CudaLauncher("entmax", "entmax_forward")
    with pytest.warns(RuntimeWarning, match="import"):
        probs = launcher(torch.tensor([[1.0, 1.0]]), 0.5)
    assert probs.tolist() == [[0.5, 0.5]]


def test_require_raises(monkeypatch):
    monkeypatch.setattr(dispatch, "MODE", "require")
    replace_kernels(monkeypatch, ["entmax_backward"])
    for _ in range(2):  # the second call is refused as well
        with pytest.raises(RuntimeError, match="require: the kernel of entmax_backward"):
            everything(torch.float32)
    monkeypatch.setitem(dispatch._INSTALLED, "cpu", False)
    with pytest.raises(RuntimeError, match="compiler for cpu"):
        everything(torch.float32)


def test_out_of_memory_is_no_fault_of_the_kernel():
    def full(*_):
        raise torch.OutOfMemoryError

    launcher = CudaLauncher("entmax", "entmax_forward")
    launcher.kernel = full
    with pytest.raises(torch.OutOfMemoryError):
        launcher(torch.zeros(2, 3), 0.5)
    assert not launcher.failures


@pytest.mark.parametrize("error", [ImportError("numba"), OSError("read-only")])
def test_cpu_kernels_that_do_not_compile(monkeypatch, error):
    def broken(*_):
        raise error

    pytest.importorskip("numba")
    from repro.mappings.kernels.cpu import norm

    monkeypatch.setattr(norm, "sq_pnorm_max_forward", broken)
    stub = dispatch._cpu_stub("norm", "sq_pnorm_max_forward")
    monkeypatch.setitem(dispatch.launchers, ("cpu", "sq_pnorm_max_forward"), stub)
    scores = torch.tensor([[0.3, 0.1, -2.0]])
    with pytest.warns(RuntimeWarning, match="sq_pnorm_max_forward"):
        found = MAPPINGS["sq_pnorm_max"].function(scores)
    with warnings.catch_warnings(action="error"):
        assert torch.equal(found, MAPPINGS["sq_pnorm_max"].function(scores))
    assert torch.equal(found, dispatch.references["sq_pnorm_max_forward"](scores, 1.5))


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("bounded_forward", lambda z: csoftmax(z, torch.full((2, 2), 0.2)), r"row \(0,\)"),
        (
            "bounded_forward",
            lambda z: csparsemax(z, torch.tensor([[1.0], [-1.0]])),
            r"0 of row \(1,\)",
        ),
        ("budget_forward", lambda z: budget(z, 5.0), r"row \(0,\)"),
        ("budget_forward_rows", lambda z: budget(z, torch.tensor([[1.0], [5.0]])), r"row \(1,\)"),
    ],
)
def test_infeasible_rows_are_refused_without_a_kernel(monkeypatch, name, call, message):
    monkeypatch.setitem(dispatch.launchers, ("cpu", name), dispatch.fallback(name))
    with pytest.raises(ValueError, match=message):
        call(torch.zeros(2, 2))


def test_mappings_work_with_a_broken_numba(tmp_path):
    """No mapping fails if numba cannot be imported: PyTorch code replaces every kernel."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text('raise ImportError("needs another NumPy")\n')
    program = """
import warnings, torch
from repro.mappings import MAPPINGS, oscarmax
warnings.simplefilter("ignore", RuntimeWarning)
scores = torch.tensor([[0.3, 0.1, -2.0]])
for one in MAPPINGS.values():
    if not one.bounded:
        assert one.function(scores).sum() > 0.99
oscarmax(scores, variant="paper")
"""
    run_python("-c", program, paths=(tmp_path, *filter(None, sys.path)))


def test_compiled_graphs_call_what_replaces_a_kernel(monkeypatch):
    replace_kernels(monkeypatch, ["entmax_forward"])
    scores = torch.randn(3, 5).T  # results of a stand-in are laid out as a kernel's
    compiled = torch.compile(MAPPINGS["entmax"].function, fullgraph=True, backend="aot_eager")
    with pytest.warns(RuntimeWarning, match="entmax_forward"):
        found = compiled(scores)
    assert torch.equal(found, dispatch.references["entmax_forward"](scores, 0.5))
