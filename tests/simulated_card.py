"""Plugin of pytest: a card simulated on the processor, for the tests of CUDA without one.

``make test-card`` runs updates, validations, searches, captures and resumed trainings of every
task. Tensors "on the card" are tensors of the processor that say otherwise, so that the code takes
its branches for CUDA; each operator computes on the processor. What a card refuses is refused:

- tensors of both devices in one operator, integers in matrix products, operators without a
  deterministic version;
- while a graph is captured, any copy from or to the host and any value that is read. An operator of
  a capture computes nothing that lasts: written memory is restored, new memory is NaN until a
  replay, which repeats the recorded operators on the same memory;
- cuDNN's backward pass after a forward pass that was not told to train, and its layers under
  autocast.

Waiting for the device is counted and warned of as PyTorch does. Operators of mappings run as their
PyTorch code: kernels have tests of their own, in Triton's interpreter. Nothing is said of speed.

PyTorch's CPU build needs a guard of the device (``simulated_card.cpp``), which is compiled with g++
and loaded before it. Private parts of PyTorch are used: this works with 2.13.
"""

import contextlib
import ctypes
import importlib.util
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from tempfile import mkdtemp


def _load_guard() -> None:
    """Compile and load the guard; PyTorch looks for it once, when it is imported."""
    assert "torch" not in sys.modules, "load the plugin by -p, before anything imports torch"
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch_dir, source = Path(spec.origin).parent, Path(__file__).with_suffix(".cpp")
    library = Path(mkdtemp()) / "simulated_card.so"
    command = ["g++", "-O1", "-shared", "-fPIC", "-std=c++20", f"-I{torch_dir}/include"]
    command += [str(source), f"-L{torch_dir}/lib", "-lc10", "-ltorch_cpu", "-o", str(library)]
    subprocess.run(command, check=True)
    for name in (torch_dir / "lib/libc10.so", torch_dir / "lib/libtorch_cpu.so", library):
        ctypes.CDLL(str(name), mode=ctypes.RTLD_GLOBAL)


_load_guard()

import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn.modules import rnn  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

aten = torch.ops.aten
CARD = torch.device("cuda:0")


class Card(Tensor):
    """Tensor on the card, whose numbers are in ``inner``, a tensor of the processor."""

    @staticmethod
    def __new__(cls, inner):
        inner = inner.detach()
        like = torch.empty_strided(inner.shape, inner.stride(), dtype=inner.dtype, device="meta")
        found = Tensor._make_subclass(
            cls, like, False, dispatch_device=True, device_for_backend_keys=CARD
        )
        found.inner = inner
        return found

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})

    def __deepcopy__(self, memo):
        found = memo[id(self)] = Card(self.inner.clone()).requires_grad_(self.requires_grad)
        found._is_param = isinstance(self, torch.nn.Parameter)
        return found

    def __repr__(self):
        return f"Card({self.inner})"


def inner(value):
    """Return the numbers of a tensor on the card, any other value itself."""
    return value.inner if isinstance(value, Card) else value


def tensors(values):
    return [one for one in tree_leaves(values) if isinstance(one, Tensor)]


class _State:
    sync_mode = 0
    capture = None
    streams = ()


READING = {
    "_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2",
    "unique_dim", "unique_consecutive",
}  # fmt: skip
NOT_DETERMINISTIC = {"kthvalue", "median", "nanmedian", "histc", "put_"}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "dot"}
CHANGING_SHAPES = {"resize_", "set_", "t_", "transpose_", "unsqueeze_", "squeeze_", "as_strided_"}


def wait(reason):
    """Do what PyTorch does where the host waits for the device."""
    if _State.capture is not None:
        raise RuntimeError(f"operation not permitted when stream is capturing: {reason}")
    if _State.sync_mode == 1:
        warnings.warn(f"called a synchronizing CUDA operation: {reason}", UserWarning, stacklevel=2)
    elif _State.sync_mode == 2:
        raise RuntimeError(f"called a synchronizing CUDA operation: {reason}")


def lstm_cell(of_input, of_hidden, cell):
    i, f, g, o = (of_input + of_hidden).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * cell + i * g
    return o * after.tanh(), after, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(hidden_grad, cell_grad, before, after, activated, has_bias):
    i, f, g, o = activated.chunk(4, 1)
    bent = after.tanh()
    hidden_grad = torch.zeros_like(before) if hidden_grad is None else hidden_grad
    inside = hidden_grad * o * (1 - bent * bent) + (0 if cell_grad is None else cell_grad)
    gates = [inside * g * i * (1 - i), inside * before * f * (1 - f), inside * i * (1 - g * g)]
    return torch.cat([*gates, hidden_grad * bent * o * (1 - o)], 1), inside * f, activated.sum(0)


ON_CARDS_ONLY = {
    aten._thnn_fused_lstm_cell.default: lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: lstm_cell_backward,
}


def run(func, args, kwargs):
    """Refuse what a card refuses, then compute on the processor."""
    if func is torch.ops.prim.device.default:
        return CARD
    name = func._schema.name.partition("::")[2]
    if func.namespace == "repro":
        return own_operator(name)(*args, **kwargs)
    if func is aten.copy_.default:
        return copy(*args, **kwargs)
    if func is aten._to_copy.default:
        if torch.device(kwargs.get("device") or CARD).type == "cuda":
            return compute(func, func, args, {**kwargs, "device": "cpu", "pin_memory": None})
        if not kwargs.get("non_blocking") or _State.capture is not None:
            wait("a copy to the host")
        return func(args[0].inner, **kwargs)
    given, indexing = tensors((args, kwargs)), name.lstrip("_").startswith("index")
    if on_host := [one for one in given if not isinstance(one, Card) and one.dim() > 0]:
        if not indexing:
            raise RuntimeError(f"{func} of tensors on {CARD} and {on_host[0].device}")
        wait("an index on the host")
    if name in READING or (name == "repeat_interleave" and kwargs.get("output_size") is None):
        wait(name)
    if indexing and any(one.dtype == torch.bool for one in tensors(args[1])):
        wait("an index by a mask")
    if torch.are_deterministic_algorithms_enabled() and (
        name in NOT_DETERMINISTIC
        or (name == "bincount" and len(given) > 1)
        or (name in ("cumsum", "cumsum_") and given[0].is_floating_point())
    ):
        raise RuntimeError(f"{name} has no deterministic implementation")
    if name in PRODUCTS and not given[0].is_floating_point():
        raise RuntimeError(f"{name} is not implemented for {given[0].dtype}")
    assert name not in CHANGING_SHAPES, f"{name} is not simulated"
    kwargs = {key: value for key, value in kwargs.items() if key not in ("device", "pin_memory")}
    return compute(ON_CARDS_ONLY.get(func, func), func, args, kwargs)


def compute(work, func, args, kwargs):
    """Compute on the processor; record the work while a graph is captured."""
    known = {id(one.inner): one for one in tensors((args, kwargs)) if isinstance(one, Card)}
    args, kwargs = tree_map(inner, args), tree_map(inner, kwargs)
    if _State.capture is not None and func is not None and func._schema.is_mutable:
        schema = func._schema.arguments
        named = dict(zip((one.name for one in schema), args, strict=False)) | kwargs
        written = [one.name for one in schema if one.alias_info and one.alias_info.is_write]
        for one in tensors([named.get(name) for name in written]):
            _State.capture.protect(one)
    found = work(*args, **kwargs)
    if _State.capture is not None:
        _State.capture.record(work, args, kwargs, found)

    def placed(one):
        if isinstance(one, Tensor):
            return known[id(one)] if id(one) in known else Card(one)
        return one

    return tree_map(placed, found)


def copy(target, source, non_blocking=False):
    """Copy between tensors, of which at least one is on the card."""
    if isinstance(target, Card) and isinstance(source, Card):
        return compute(aten.copy_.default, aten.copy_.default, (target, source), {})
    if not non_blocking or _State.capture is not None:
        wait("a copy to the card" if isinstance(target, Card) else "a copy to the host")
    inner(target).copy_(inner(source))
    return target


def own_operator(name):
    """Return an operator of the suite; that of a mapping is one operator of a graph."""
    from torch._library.custom_ops import OPDEFS

    from repro.mappings.kernels import dispatch
    from repro.models.seq2seq import lstm_cell as cells

    own = {"lstm_cell": cells._cell, "lstm_cell_backward": cells._cell_backward}
    if f"repro::{name}" in OPDEFS:
        return OPDEFS[f"repro::{name}"]._init_fn
    if name in own:
        return own[name]

    def launch(*args):
        assert all(isinstance(one, Card) for one in tensors(args)), f"{name} of the processor"
        return compute(dispatch.fallback(name), None, args, {})

    return launch


def create(name):
    """Let a function that makes tensors make them on the card."""
    packet, _, overload = name.partition(".")
    func = getattr(getattr(aten, packet), overload or "default")

    def made(*args, pin_memory=None, **kwargs):
        kwargs["device"] = "cpu"
        if not packet.startswith("empty"):
            return compute(func, func, args, kwargs)
        found = func(*args, **kwargs)
        if found.is_floating_point():  # nobody may rely on what is in there
            found.fill_(torch.nan)
        if _State.capture is not None:
            _State.capture.own(found)
        return Card(found)

    library.impl(name, made, "CUDA")


class CudaGraph:
    """Recorded operators, and the memory that they work on."""

    def __init__(self):
        self.operators, self.saved, self.owned, self.kept = [], {}, set(), []

    def own(self, one):
        """Take note of memory of the graph itself."""
        self.owned.add(one.untyped_storage().data_ptr())
        self.kept.append(one)

    def protect(self, one):
        """Save memory that the capture is about to write, unless it is the graph's own."""
        storage = one.untyped_storage()
        if storage.data_ptr() not in self.owned and storage.data_ptr() not in self.saved:
            self.saved[storage.data_ptr()] = storage, storage.clone()

    def record(self, work, args, kwargs, found):
        given = {one.untyped_storage().data_ptr() for one in tensors((args, kwargs))}
        new = []
        for one in tensors(found):
            own = one.untyped_storage().data_ptr() not in given
            new.append(one if own else None)
            if own:
                self.own(one)
            self.kept.append(one)
        self.operators.append((work, args, kwargs, new))

    def replay(self):
        for work, args, kwargs, new in self.operators:
            for place, one in zip(new, tensors(work(*args, **kwargs)), strict=True):
                if place is not None:
                    place.copy_(one)


@contextlib.contextmanager
def capture(graph, pool=None, stream=None):
    """Record the operators of the block, which compute nothing that lasts."""
    assert _State.capture is None
    _State.capture, generator = graph, torch.get_rng_state()
    try:
        yield
    finally:
        _State.capture = None
        torch.set_rng_state(generator)
        for storage, content in graph.saved.values():
            storage.copy_(content)
        for *_, new in graph.operators:
            for one in new:
                if one is not None and one.is_floating_point():
                    one.fill_(torch.nan)


class Stream:
    def wait_stream(self, other):
        assert isinstance(other, Stream)


class Event:
    """Event that must not be read if it was recorded in a capture."""

    def __init__(self, enable_timing=False):
        self.time = None

    def record(self):
        self.time = None if _State.capture is not None else time.perf_counter()

    def query(self):
        return self.elapsed_time(self) >= 0

    def synchronize(self):
        self.query()

    def elapsed_time(self, other):
        if self.time is None or other.time is None:
            raise RuntimeError("an event was not recorded, or in a capture")
        return 1000 * (other.time - self.time)


@contextlib.contextmanager
def on_stream(stream):
    before, _State.streams = _State.streams, (*_State.streams, stream)
    yield
    _State.streams = before


def recurrent(kind):
    """Return cuDNN's layer of one direction or two, from operators."""
    plain = getattr(torch._C._VariableFunctions, kind)

    def layer(*arguments):
        if not isinstance(arguments[0], Card):
            return plain(*arguments)
        inputs, first, weights, bias, layers, _, train, both, batch_first = arguments
        assert (bias, layers, batch_first) == (True, 1, True), "not simulated"
        assert not torch.is_autocast_enabled("cuda"), "cuDNN would compute in float16"
        assert {one.dtype for one in weights} == {inputs.dtype}
        if torch.is_grad_enabled() and not train:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
        found = []
        for direction in range(1 + both):
            matrix, recurrence, *biases = weights[4 * direction : 4 * direction + 4]
            states = [one[direction] for one in (first if kind == "lstm" else (first,))]
            outputs, steps = {}, range(inputs.shape[1])
            for step in reversed(steps) if direction else steps:
                below = inputs[:, step] @ matrix.t() + biases[0]
                states = STEPS[kind](below, states[0] @ recurrence.t() + biases[1], *states)
                outputs[step] = states[0]
            found.append((torch.stack([outputs[step] for step in steps], 1), *states))
        outputs, *last = zip(*found, strict=True)
        return torch.cat(outputs, -1), *map(torch.stack, last)

    return layer


def gru_step(below, beside, hidden):
    (r, z, n), (r_beside, z_beside, n_beside) = below.chunk(3, 1), beside.chunk(3, 1)
    z = (z + z_beside).sigmoid()
    return ((1 - z) * (n + (r + r_beside).sigmoid() * n_beside).tanh() + z * hidden,)


STEPS = {"lstm": lambda below, beside, _, cell: lstm_cell(below, beside, cell)[:2], "gru": gru_step}


class _Functions:
    """Functions by which modules call recurrent layers."""

    gru = staticmethod(recurrent("gru"))

    def __getattr__(self, name):
        return getattr(torch._C._VariableFunctions, name)


def _move(apply):
    """Let modules keep their parameters as objects when these change their type."""

    def applied(self, function, recurse=True):
        before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return apply(self, function, recurse)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)

    return applied


def _on_host(save):
    """Let a function that writes tensors write numbers of the card."""

    def saved(content, *arguments):
        return save(
            tree_map(lambda one: inner(one).clone() if isinstance(one, Card) else one, content),
            *arguments,
        )

    return saved


def _listed(plain):
    def tolist(self):
        if isinstance(self, Card):
            wait("tolist")
        return plain(inner(self))

    return tolist


library = torch.library.Library("aten", "IMPL")
for _name in (
    "empty.memory_format", "empty_strided", "arange", "arange.start", "arange.start_step", "eye",
    "eye.m", "full", "linspace", "randperm", "tril_indices", "triu_indices",
):  # fmt: skip
    create(_name)
library.impl("copy_", copy, "CUDA")
_State.streams = (Stream(),)
_MODES = {"default": 0, "warn": 1, "error": 2}
for _name, _value in {
    "is_available": lambda: True, "is_initialized": lambda: True, "device_count": lambda: 1,
    "_lazy_init": lambda: None, "current_device": lambda: 0,
    "get_device_name": lambda _=None: "simulated",
    "is_bf16_supported": lambda *_: True, "manual_seed_all": lambda _: None,
    "synchronize": lambda: wait("synchronize"), "Stream": Stream, "Event": Event,
    "current_stream": lambda: _State.streams[-1], "stream": on_stream,
    "CUDAGraph": CudaGraph, "graph": capture, "graph_pool_handle": lambda: (0, 0),
    "get_sync_debug_mode": lambda: _State.sync_mode,
    "set_sync_debug_mode": lambda mode: setattr(_State, "sync_mode", _MODES.get(mode, mode)),
    # The processor's generator draws for the card.
    "get_rng_state": lambda _=None: torch.get_rng_state(),
    "set_rng_state": lambda state, _=None: torch.set_rng_state(state),
    "get_rng_state_all": lambda: [torch.get_rng_state()],
    "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
}.items():  # fmt: skip
    setattr(torch.cuda, _name, _value)
torch._C._cuda_getCurrentRawStream = lambda _: 0
torch.nn.Module._apply = _move(torch.nn.Module._apply)
rnn.RNNBase.flatten_parameters = lambda _: None
torch.lstm, rnn._VF = recurrent("lstm"), _Functions()
Tensor.pin_memory, Tensor.tolist = Tensor.clone, _listed(Tensor.tolist)
torch.save = _on_host(torch.save)


def pytest_configure():
    """Let the suite take tensors of the card for plain ones."""
    from repro.mappings.kernels import dispatch
    from repro.training import checkpoint

    checkpoint.save = _on_host(checkpoint.save)
    dispatch._TYPES = (*dispatch._TYPES, Card)
    dispatch._INSTALLED["cuda"] = True
    for device, name in [*dispatch.launchers]:
        if device == "cuda":
            dispatch.launchers[device, name] = own_operator(name)


def pytest_unconfigure(config):
    """End the process: autograd's thread of the card would keep it."""
    if "PYTEST_XDIST_WORKER" not in os.environ and not hasattr(config, "workerinput"):
        sys.stdout.flush()
        os._exit(int(getattr(config, "card_status", 0)))


def pytest_sessionfinish(session, exitstatus):
    session.config.card_status = exitstatus
