"""Whole updates of every task on an accelerator, for each mapping and loss.

Meta tensors take the branch of accelerators: they have shapes and dtypes, but no values, so that
every copy to the host and every shape that depends on values raises.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from every_update import MAPPINGS, UPDATES
from operator_count import Operators
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

import repro.structures  # noqa: F401  # imports the modules that `transfers` patches
from repro.config.compose import compose_run
from repro.config.schema import RunConfig
from repro.data.batching import Seq2SeqBatch
from repro.tasks import Task, task_spec
from repro.training.loop import build_optimizer, update, updates
from repro.training.seeding import seed_everything

SOLVERS = {
    # copies to the host, and to the device: scores and solution, then two gradients
    "structured_perceptron": (1, 1), "structured_svm": (1, 1), "crf": (2, 2), "margin_crf": (2, 2),
    "sparsemap": (1, 1), "margin_sparsemap": (1, 1),
    "alignment-matching": (2, 2), "structure-matching": (2, 2),
    "alignment-sequential": (2, 2),
}  # fmt: skip
"""Transfers of an update whose inference is computed on the CPU."""
SEQ2SEQ = ("morphology", "nmt", "summarization")


def distinct_updates() -> Iterator[str]:
    """Name updates of different code: tasks from sequence to sequence share models and losses.

    Each of these tasks takes every third mapping with its loss, and one takes all other choices.
    """
    for place, task in enumerate(SEQ2SEQ):
        names = [name for name in UPDATES if name.startswith(task)]
        yield from names[: len(MAPPINGS)][place::3]
        yield from names[len(MAPPINGS) :] if task == "nmt" else ()
    yield from (name for name in UPDATES if not name.startswith(SEQ2SEQ))


def described(value: Any) -> Any:
    """Return what an operator can know of an argument on a meta device, as the key of a table."""
    if isinstance(value, Tensor):
        return value.device, value.dtype, value.shape, value.stride()
    if isinstance(value, list | tuple):
        return tuple(map(described, value))
    return type(value), value


class Accelerator(TorchDispatchMode):
    """Refuses tensors of the CPU among those of the device, and their copies to it.

    A new tensor of an operator of PyTorch depends on shapes and numbers only, so it is computed
    once: most of PyTorch's operators on meta tensors are written in Python.
    """

    known: ClassVar[dict[Any, Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        key = func, described(args), described([*kwargs.items()])
        if key in self.known:
            shape, stride, dtype = self.known[key]
            return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        out = func(*args, **kwargs)
        given = [one for one in tree_leaves((args, kwargs, out)) if isinstance(one, Tensor)]
        devices = {one.device.type for one in given}
        assert len(devices) < 2, f"{func} of tensors on {devices}"
        aliases = func._schema.is_mutable or any(one.alias_info for one in func._schema.returns)
        if func.namespace == "aten" and not aliases and getattr(out, "is_meta", False):
            self.known[key] = out.shape, out.stride(), out.dtype
        return out


class NoConstants(TorchFunctionMode):
    """Refuses tensors made from values of the host, which are copied to the device."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor):
            assert torch.device(kwargs.get("device") or "cpu").type == "cpu", "a constant is copied"
        return func(*args, **kwargs)


def composed(name: str, root: Path) -> RunConfig:
    return compose_run([*UPDATES[name], "hardware=cpu", f"results_dir={root}"])


def built(config: RunConfig, device: str) -> Task[Any]:
    seed_everything(1)
    task = task_spec(config.task.name).build(config, torch.device(device))
    task.model.train()
    return task


def shortest(task: Task[Any]) -> Any:
    """Return a small training batch: meta tensors take a tenth of a millisecond an operator."""
    batches = task.batches(0)
    batch = min(
        (batches[place] for place in range(min(20, len(batches)))),
        key=lambda batch: sum(one.numel() for one in vars(batch).values() if one is not None),
    )
    if not isinstance(batch, Seq2SeqBatch):
        return batch
    # Three symbols are a first, a middle and a last one; meta tensors have no length to contradict.
    cut = {name: one[:, :3] for name in batch.fill if (one := getattr(batch, name)) is not None}
    return replace(batch, **cut)


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what the two functions that copy for solvers have copied."""
    counts = Counter[str]()

    def counted(name: str, copy: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(*arguments: Any) -> Tensor:
            with _disable_current_modes():
                found = copy(*arguments)
            counts[name] += found.device != arguments[0].device
            return found

        return call

    for module in [one for name, one in sys.modules.items() if name.startswith("repro.structures")]:
        for name in ("on_host", "on_device"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    return counts


def outside_of_modes(call: Callable[[], Any]) -> Callable[[], Any]:
    def disabled() -> Any:
        with _disable_current_modes():
            return call()

    return disabled


def check_steps_of_a_search(model: Any, batch: Seq2SeqBatch) -> None:
    """Take two steps; the bounds are given, as a dictionary on the host provides them otherwise."""
    beams = batch.source.new_zeros(2 * len(batch.source))
    with torch.no_grad():
        state = model.eval().start(batch.source, batch.source_lengths, batch.fertility)
        for _ in range(2):
            output = model.step(state, state.feed.new_ones(len(state.feed), dtype=torch.long))
            state = output.state.select(beams)
    assert output.probs.is_meta
    assert len(state.feed) == len(beams)


@pytest.mark.parametrize("name", [*distinct_updates()])
def test_an_update_and_a_search_read_no_value(name, root, transfers):
    config = composed(name, root)
    if "predicted" in name or "aligned" in name:
        built(config, "cpu")  # trains the tagger, whose weights are kept
    task = built(config, "meta")
    optimizer = build_optimizer(config.training, task.model.parameters())
    optimizer.step = outside_of_modes(optimizer.step)  # its counters are on the host, if not fused
    batch = shortest(task)
    with Accelerator(), NoConstants():
        loss, symbols = update(task, optimizer, batch, config.training.max_grad_norm)
        if isinstance(batch, Seq2SeqBatch):
            check_steps_of_a_search(task.model, batch)
            if task.fertility is None or task.fertility.aligned is None:
                assert task._forced_totals(batch).is_meta
    assert (loss.shape, loss.dtype, loss.is_meta) == ((), torch.float32, True)
    assert (symbols.shape, symbols.dtype, symbols.is_meta) == ((), torch.int64, True)
    for parameter in task.model.parameters():
        assert parameter.is_meta
        if parameter.grad is not None:
            assert parameter.grad.shape == parameter.shape
            assert parameter.grad.dtype == parameter.dtype
    kind = name.partition("-")[2]
    assert (transfers["on_host"], transfers["on_device"]) == SOLVERS.get(kind, (0, 0))


class OneLstm(torch.autograd.Function):
    """PyTorch's LSTM as one operator each way, as cuDNN computes it."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        hidden = others[0]
        ctx.save_for_backward(inputs, *others)
        states = inputs.new_empty(*inputs.shape[:2], len(hidden) * hidden.shape[2])
        with _disable_current_modes():
            return states, torch.empty_like(hidden), torch.empty_like(hidden)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        first, *others = ctx.saved_tensors
        with _disable_current_modes():
            rest = [torch.empty_like(one) for one in others]
        return first.new_empty(first.shape), *rest


SETTINGS = (
    "mapping=entmax mapping.alpha=1.5 loss=entmax loss.alpha=1.5",
    "mapping=softmax loss=cross_entropy",
)


def inflection(settings: str, size: int, root: Path, device: str) -> tuple[Task[Any], Seq2SeqBatch]:
    """Return the model of Peters et al. but for its size, and 64 words: source 12, target 20."""
    paper = "model.layers=2 model.dropout=0.3 model.embedding_dropout=0 model.output_bias=false"
    sizes = f"model.embedding_size={size} model.hidden_size={size} training.graphs=off"
    overrides = ["task=morphology", "hardware=cpu", f"results_dir={root}"]
    overrides += [*paper.split(), *sizes.split(), *settings.split()]
    batch = Seq2SeqBatch(
        source=torch.ones(64, 12, dtype=torch.long),
        source_lengths=torch.full((64,), 12),
        target=torch.ones(64, 20, dtype=torch.long),
        indices=torch.arange(64),
    )
    return built(compose_run(overrides), device), batch.to(device)


@pytest.mark.parametrize("settings", SETTINGS)
def test_operators_of_the_paper_s_inflection_update(settings, root, monkeypatch):
    """Loss and gradients of 20 target symbols; clipping and Adam add a dozen fused launches.

    What is counted, see ``operator_count``: copies inside of operators are, kernels of cuDNN are
    not. The test below counts those on a card.
    """
    monkeypatch.setattr(
        torch, "lstm", lambda held, state, weights, *_: OneLstm.apply(held, *state, *weights)
    )
    task, batch = inflection(settings, 8, root, "meta")
    with Operators() as operators:
        loss, _ = task.loss(batch)
        loss.backward()
    assert operators.count <= 573


@pytest.mark.gpu
@pytest.mark.skipif(torch.version.cuda is None, reason="a simulated card has no kernels")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("settings", SETTINGS)
def test_launches_of_the_paper_s_inflection_update_on_a_card(settings, root, tmp_path):
    """Kernels, copies and fills of a whole update, with those of cuDNN, clipping and Adam."""
    task, batch = inflection(settings, 300, root, "cuda")
    optimizer = build_optimizer(task.config.training, task.model.parameters())
    take = updates(task, optimizer, task.config.training)
    for _ in range(3):  # what is computed or compiled once is not part of an update
        take(batch)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        take(batch)
        torch.cuda.synchronize()
    trace = tmp_path / "trace.json"
    profiled.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    launches = [one["name"] for one in events if one.get("cat") in LAUNCHES]
    assert 0 < len(launches) <= 900, Counter(launches).most_common(20)


LAUNCHES = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of what a device does, in traces of PyTorch's profiler."""
