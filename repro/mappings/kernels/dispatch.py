"""Kernels as PyTorch operators: which exist, which inputs they accept and how they are called.

Every operator acts on the last axis of tensors in single or double precision and does not
support autograd. The launcher of operator ``name`` of family ``family`` is the function
``name`` of ``repro.mappings.kernels.cpu.<family>`` and of ``repro.mappings.kernels.cuda.<family>``.
These modules are imported by the first call, so numba and Triton are not loaded before. The same
operator in PyTorch is the function ``name`` marked with :func:`in_torch`; it is differentiable,
works on any device, and replaces a kernel that fails.
"""

import os
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


def _numba_compiles() -> bool:
    """Return whether numba is installed and compiles (``NUMBA_DISABLE_JIT`` is not set).

    The variable is read directly, as importing numba takes longer than importing this package.
    """
    disabled = os.environ.get("NUMBA_DISABLE_JIT", "").strip() not in ("", "0")
    return find_spec("numba") is not None and not disabled


MODE = os.environ.get("REPRO_KERNELS") or "auto"
"""``auto``; ``torch``, to use no kernel; ``require``, to raise where one is missing or fails."""
if MODE not in ("auto", "torch", "require"):
    raise ValueError(f"REPRO_KERNELS is {MODE!r}; expected auto, torch or require")
_INSTALLED = {
    "cpu": MODE != "torch" and _numba_compiles(),
    # Kernels were written for NVIDIA's compiler: ROCm does not support their launch options.
    "cuda": MODE != "torch" and find_spec("triton") is not None and torch.version.hip is None,
    "meta": MODE != "torch",  # operators allocate their results, as on an accelerator
}
"""Whether the compiler for a device type is usable; it is imported only when needed."""
AVAILABLE = _INSTALLED["cpu"]
"""Whether CPU kernels are available; otherwise PyTorch code is used, noted in ``computed_by``."""
_PRECISIONS = (torch.float32, torch.float64)
_TYPES = (Tensor, torch.nn.Parameter, FakeTensor)
_library = torch.library.Library("repro", "DEF")
launchers: dict[tuple[str, str], Callable[..., Any]] = {}
"""Launchers by device type and operator, which import their kernels when they are first called."""
references: dict[str, Callable[..., Any]] = {}
"""Operators in PyTorch."""
computed_by: dict[str, str] = {}
"""What has computed each operator in this process, by operator, device and precision."""


def has_kernel(tensor: Tensor) -> bool:
    """Return whether kernels accept a tensor: float32 or float64, no subclass, not under ``vmap``.

    Batched gradients (``is_grads_batched``, ``vectorize=True``) are tensors of the legacy
    ``vmap``, whose type is ``Tensor`` although they have no storage.
    """
    device = "cpu" if tensor.is_cpu else tensor.device.type
    if not _INSTALLED.get(device, False):
        if MODE == "require" and device in _INSTALLED:
            raise RuntimeError(f"REPRO_KERNELS=require: the compiler for {device} is missing")
        if MODE == "auto" and device in _INSTALLED and not torch.compiler.is_compiling():
            computed_by[f"every kernel on {device}"] = "PyTorch (the compiler is missing)"
        return False
    if tensor.dtype not in _PRECISIONS:
        return False
    if torch.compiler.is_compiling():
        return True
    return (
        type(tensor) in _TYPES
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._functorch.is_legacy_batchedtensor(tensor)
    )


def differentiable_once(probs: Tensor, grad: Tensor) -> bool:
    """Return whether a backward pass may use kernels, which do not support double backward."""
    return not torch.is_grad_enabled() and has_kernel(probs) and has_kernel(grad)


def in_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function as the operator of its name in PyTorch."""
    references[function.__name__] = function
    return function


def implementation(name: str, scores: Tensor) -> Callable[..., Any]:
    """Return the kernel of an operator if kernels accept a tensor, else the operator in PyTorch."""
    return kernel(name, scores) if has_kernel(scores) else references[name]


def backward_implementation(name: str, probs: Tensor, grad: Tensor) -> Callable[..., Any]:
    """Return the kernel of an operator for a backward pass, or the operator in PyTorch."""
    return kernel(name, probs) if differentiable_once(probs, grad) else references[name]


def kernel(name: str, first: Tensor) -> Callable[..., Any]:
    """Return the kernel of an operator, given its first argument.

    Torch's dispatcher, which takes longer than solving a row of a few scores, is used only if
    tracing or a dispatch mode needs it.
    """
    if (
        torch.compiler.is_compiling()
        or type(first) is FakeTensor
        or first.is_meta
        or torch._C._len_torch_dispatch_stack() > 0
    ):
        operator: Callable[..., Any] = getattr(torch.ops.repro, name)
        return operator
    return launchers["cpu" if first.is_cpu else first.device.type, name]


def launch(name: str, *arguments: Any) -> Any:
    """Call the kernel of an operator."""
    return kernel(name, arguments[0])(*arguments)


def _like(first: Tensor, *_: object) -> Tensor:
    return torch.empty_like(first, memory_format=torch.contiguous_format)


def _per_row(first: Tensor) -> Tensor:
    return first.new_empty(first.numel() // first.size(-1))


def _like_and_per_row(first: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return _like(first), _per_row(first)


def _losses_and_like(scores: Tensor, target: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return scores.new_empty(target.shape), _like(scores)


def _losses_and_thresholds(
    scores: Tensor, target: Tensor, r: float, _ignored: int
) -> tuple[Tensor, Tensor]:
    dtype = torch.float64 if r > 1 else scores.dtype
    return scores.new_empty(target.shape), scores.new_empty(4, target.numel(), dtype=dtype)


def _groups(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    return _like(scores), _like(scores).to(torch.int32)


def _bounded(scores: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return _like(scores), _like(scores).to(torch.uint8), scores.new_empty((), dtype=torch.int64)


def _bounded_gradients(
    probs: Tensor, kkt_status: Tensor, grad: Tensor, r: float, to_upper: bool, to_total: bool
) -> tuple[Tensor, Tensor, Tensor]:
    none = probs.new_empty(0)
    return _like(probs), _like(probs) if to_upper else none, _per_row(probs) if to_total else none


# For each family, the operators' schemas and the functions that allocate their results, which torch
# calls for fake tensors. `groups` holds the group number of every entry with mass, less than the
# length of the row. `kkt_status` is 0 at zero, 1 inside the bounds, 2 at the upper bound; the third
# result with it is the number of infeasible rows, which are NaN (CUDA kernels do not set it).
OPERATORS: dict[str, dict[str, Callable[..., Any]]] = {
    "entmax": {
        "entmax_forward(Tensor scores, float r) -> Tensor": _like,
        "entmax_forward_rows(Tensor scores, Tensor r_of_rows) -> Tensor": _like,
        "entmax_backward(Tensor probs, Tensor grad, float r) -> Tensor": _like,
        "entmax_backward_scores(Tensor probs, Tensor grad, Tensor r_of_rows) -> Tensor": _like,
        "entmax_backward_rows(Tensor probs, Tensor grad, Tensor r_of_rows) -> (Tensor, Tensor)": (
            _like_and_per_row
        ),
        "entmax_loss(Tensor scores, Tensor target, float r, int ignore_index)"
        " -> (Tensor, Tensor)": _losses_and_like,
        "entmax_loss_backward(Tensor probs, Tensor target, Tensor grad, int ignore_index)"
        " -> Tensor": _like,
        # Losses on CUDA: no distribution is written, only what it can be computed from.
        "fenchel_young(Tensor scores, Tensor target, float r, int ignore_index)"
        " -> (Tensor, Tensor)": _losses_and_thresholds,
        "fenchel_young_backward(Tensor scores, Tensor thresholds, Tensor target, Tensor grad,"
        " float r, int ignore_index) -> Tensor": _like,
    },
    "norm": {
        "sq_pnorm_max_forward(Tensor scores, float p) -> Tensor": _like,
        "sq_pnorm_max_backward(Tensor probs, Tensor grad, float p) -> Tensor": _like,
    },
    "grouped": {
        "fusedmax_forward(Tensor scores, float lam) -> (Tensor, Tensor)": _groups,
        "oscarmax_forward(Tensor scores, float lam) -> (Tensor, Tensor)": _groups,
        "grouped_backward(Tensor probs, Tensor groups, Tensor grad) -> Tensor": _like,
    },
    "bounded": {
        "bounded_forward(Tensor scores, Tensor upper, float r, float slack)"
        " -> (Tensor, Tensor, Tensor)": _bounded,
        "budget_forward(Tensor scores, float total) -> (Tensor, Tensor, Tensor)": _bounded,
        "budget_forward_rows(Tensor scores, Tensor totals) -> (Tensor, Tensor, Tensor)": _bounded,
        "bounded_backward(Tensor probs, Tensor kkt_status, Tensor grad, float r, bool to_upper,"
        " bool to_total) -> (Tensor, Tensor, Tensor)": _bounded_gradients,
    },
}


def fallback(name: str) -> Callable[..., Any]:
    """Return a launcher that runs an operator in PyTorch, with results laid out as a kernel's."""

    @torch.no_grad()
    def run_in_torch(*arguments: Any) -> Any:
        results = references[name](*arguments)
        if isinstance(results, Tensor):
            return results.contiguous()
        return tuple(result.contiguous() for result in results)

    return run_in_torch


def reject(name: str, device: str, reason: str, cause: Exception | None = None) -> None:
    """Warn once that PyTorch replaces the kernel of an operator.

    Raises:
        RuntimeError: ``REPRO_KERNELS=require``.
    """
    text = f"the kernel of {name} cannot be used on {device}: {reason}"
    if MODE == "require":
        raise RuntimeError(f"REPRO_KERNELS=require: {text}") from cause
    warnings.warn(f"{text}; PyTorch code is used instead", RuntimeWarning, stacklevel=2)


class CudaLauncher:
    """Launcher of a CUDA operator, replaced by PyTorch code where it fails.

    Triton compiles for types and lengths of rows, so any call may be the first to fail. Then the
    PyTorch code computes the operator in that precision for the rest of the process.
    """

    def __init__(self, family: str, name: str) -> None:
        self.family, self.name = family, name
        self.kernel: Callable[..., Any] | None = None
        self.failures: dict[tuple[torch.dtype, torch.device], str] = {}
        """Why PyTorch replaces the kernel; empty where the kernel has been used."""

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel or the PyTorch code."""
        key = arguments[0].dtype, arguments[0].device
        failure = self.failures.get(key)
        if failure:
            return fallback(self.name)(*arguments)
        try:
            if self.kernel is None:
                module = import_module(f"repro.mappings.kernels.cuda.{self.family}")
                self.kernel = getattr(module, self.name)
            result = self.kernel(*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            reject(self.name, str(key[1]), failure := first_line(error), error)
            self._record(key, failure)
            return fallback(self.name)(*arguments)
        if failure is None:
            self._record(key, "")
        return result

    def _record(self, key: tuple[torch.dtype, torch.device], failure: str) -> None:
        """Store what computed the operator for this dtype and device."""
        self.failures[key] = failure
        name = f"{self.name} {str(key[0]).removeprefix('torch.')} {key[1]}"
        computed_by[name] = f"PyTorch ({failure})" if failure else "kernel"


def first_line(error: Exception) -> str:
    """Return the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def replaced() -> dict[str, str]:
    """Return the operators whose kernels PyTorch code has replaced in this process, and why."""
    return {name: code for name, code in sorted(computed_by.items()) if code != "kernel"}


def is_compiler_error(error: Exception) -> bool:
    """Return whether numba could not be imported, or could not compile or cache a function."""
    compiler = type(error).__module__.startswith(("numba", "llvmlite"))
    return compiler or isinstance(error, ImportError | OSError)


def _cpu_stub(family: str, name: str) -> Callable[..., Any]:
    """Return a launcher that imports that of a CPU kernel, replaces itself by it and calls it.

    Where the kernel does not compile, that is a launcher of the operator in PyTorch.
    """

    def import_and_launch(*arguments: Any) -> Any:
        try:
            found = getattr(import_module(f"repro.mappings.kernels.cpu.{family}"), name)
            result, code = found(*arguments), "kernel"
        except Exception as error:
            if not is_compiler_error(error):  # the launcher refused its arguments
                raise
            code = first_line(error)
            reject(name, "cpu", code, error)
            found = fallback(name)
            result, code = found(*arguments), f"PyTorch ({code})"
        launchers["cpu", name], computed_by[f"{name} cpu"] = found, code
        return result

    return import_and_launch


def _through_table(device: str, name: str) -> Callable[..., Any]:
    """Return the implementation for torch's dispatcher, which looks up the current launcher."""
    return lambda *arguments: launchers[device, name](*arguments)


_ONE_DEVICE = {"entmax_loss": ("cpu",), "fenchel_young": ("cuda",)}
"""Devices of the operators of losses, which save probabilities on the CPU and scores on CUDA."""


def _define(family: str, schema: str, empty_results: Callable[..., Any]) -> None:
    """Register an operator with torch, so that ``torch.compile`` can trace it."""
    name = schema[: schema.index("(")]
    _library.define(schema, tags=torch.Tag.pt2_compliant_tag)
    for device in _ONE_DEVICE.get(name.removesuffix("_backward"), ("cpu", "cuda")):
        stub = CudaLauncher if device == "cuda" else _cpu_stub
        launchers[device, name] = stub(family, name)
        _library.impl(name, _through_table(device, name), device.upper())
    torch.library.register_fake(f"repro::{name}", empty_results, lib=_library)


for _family, _operators in OPERATORS.items():
    for _schema, _empty_results in _operators.items():
        _define(_family, _schema, _empty_results)
