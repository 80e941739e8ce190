"""Updates by graphs: on the CPU with graphs that call what they captured; on a card with real ones.

The fake graph does not call its work when it is captured, as no kernel runs then, and works on the
memory of the captured batch.
"""

import copy
import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from every_update import READING, UPDATES
from torch import Tensor

from repro.config.compose import compose_run
from repro.data.batching import Seq2SeqBatch
from repro.tasks import Task, task_spec
from repro.training import graphs, loop
from repro.training.loop import FitPaths, build_optimizer, fit, updates
from repro.training.seeding import seed_everything

MORPHOLOGY, SNLI = "morphology-sparsemax-entmax-1.5-loss", "snli-sparsemax-entmax-1.5-loss"
PADDED = (
    MORPHOLOGY, SNLI, "nmt-csparsemax-guided", "nmt-csoftmax-aligned", "nmt-coverage",
    "summarization-csparsemax-predicted", "nli_alignment-sparsemax-entmax-1.5-loss",
)  # fmt: skip


def is_captured(name: str) -> bool:
    """Whether updates become graphs: not of trees, nor where a solver on the processor waits."""
    solved = name in READING or name.startswith("nli_alignment-alignment")
    return not (solved or name.startswith("parsing"))


class FakeGraph:
    """Calls what was captured, each time it is replayed."""

    captured = 0

    def __init__(self, work: Callable[[], Any], *_: Any) -> None:
        type(self).captured += 1
        self.replay = work


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeGraph]:
    """Let the CPU be taken for a card."""
    stream = SimpleNamespace(wait_stream=lambda _other: None)
    for name, value in {
        "Stream": lambda: stream, "current_stream": lambda: stream,
        "stream": lambda _stream: nullcontext(), "graph_pool_handle": lambda: (0, 0),
        "get_sync_debug_mode": lambda: 0, "set_sync_debug_mode": lambda _mode: None,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(graphs, "Graph", type("Graph", (FakeGraph,), {}))
    monkeypatch.setattr(graphs, "on_cuda", lambda _device: True)
    return graphs.Graph  # type: ignore[return-value]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


def built(name: str, root: Path, *overrides: str, device: str = "cpu") -> Task[Any]:
    choice = (UPDATES | READING)[name]
    graph = ["hardware=cpu", "training.graphs=auto"]
    config = compose_run([*choice, *graph, f"results_dir={root}", *overrides])
    seed_everything(1)
    task = task_spec(config.task.name).build(config, torch.device(device))
    task.model.train()
    return task


def updates_of(task: Task[Any]) -> graphs.Updates:
    config = task.config.training
    return updates(task, build_optimizer(config, task.model.parameters()), config)


def cut(source: int) -> Seq2SeqBatch:
    """A batch of one target length, and sources of a given length."""
    ids = torch.arange(4 * 12).view(4, 12) % 5 + 4
    lengths = torch.tensor([source, source - 1, source, 1])
    kept = ids[:, :source] * (torch.arange(source) < lengths[:, None])
    return Seq2SeqBatch(kept, lengths, ids[:, :6], torch.arange(4))


def weights(task: Task[Any]) -> list[Tensor]:
    return [one.detach().clone() for one in task.model.parameters()]


@pytest.mark.parametrize("name", PADDED)
def test_padding_changes_no_loss_and_no_gradient(name, root):
    task = built(name, root, "model.dropout=0")
    task.model.double()
    batch = task.batches(0)[0]
    found = []
    for given in (batch, batch.padded(16)):
        task.model.zero_grad()
        loss, symbols = task.loss(given)
        loss.backward()
        grads = [one.grad for one in task.model.parameters() if one.grad is not None]
        found.append([loss.detach(), symbols, *grads])
    assert batch.padded(16).indices.equal(batch.indices)
    for plain, padded in zip(*found, strict=True):
        torch.testing.assert_close(padded, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*PADDED, "parsing-crf"])
def test_updates_of_every_padded_task_are_captured(name, root, fake):
    task = built(name, root)
    take, batch = updates_of(task), task.batches(0)[0]
    for count in range(graphs.EAGER + 2):
        take(batch)
        assert take.captured == fake.captured == (is_captured(name) and count >= graphs.EAGER)


def test_a_replay_leaves_the_batches_of_its_caller_alone(fake):
    def total(batch):
        return batch.source.sum() + batch.source_lengths.sum()

    replays = graphs.Replays(total, torch.device("cpu"), wanted=True)
    given = [cut(source) for source in (8, 8, 8, 8, 7)]
    kept = copy.deepcopy(given)
    assert [int(replays(one)) for one in given] == [int(total(one)) for one in kept]
    assert fake.captured == 1
    for one, before in zip(given, kept, strict=True):
        for name, tensor in vars(before).items():
            assert tensor is None or getattr(one, name).equal(tensor)


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_collected_during_a_capture(enabled, monkeypatch):
    """An earlier graph that is destroyed then ends it: PyTorch's issue 161037."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", SimpleNamespace)
    monkeypatch.setattr(torch.cuda, "graph", lambda *_, **__: nullcontext())
    during, before = [], gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        graphs.Graph(lambda: during.append(gc.isenabled()), None, None)
        with pytest.raises(RuntimeError, match="graphs=off"):
            graphs.Graph(lambda: during.append(1 / 0), None, None)
        assert during == [False]
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_a_failed_capture_names_its_cause(monkeypatch):
    """Ending the capture, which PyTorch does first, fails then as well."""

    @contextmanager
    def capture(*_: object, **__: object) -> Iterator[None]:
        try:
            yield
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    def work() -> None:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("the culprit")  # noqa: B904  # its context is no error of the capture

    monkeypatch.setattr(torch.cuda, "CUDAGraph", SimpleNamespace)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    with pytest.raises(graphs.CaptureError, match="the culprit") as raised:
        graphs.Graph(work, None, None)
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(graphs.CaptureError, match="previous error"):
        graphs.Graph(lambda: None, None, None)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_replayed_updates_are_those_of_padded_batches(optimizer, root, fake):
    """Shapes share graphs by padding, rates may change, and dropout goes on drawing."""
    settings = "training.optimizer=" + optimizer
    results = []
    for graph in (True, False):
        task = built(MORPHOLOGY, root, settings)
        config = task.config.training
        chosen = build_optimizer(config, task.model.parameters())
        take = updates(task, chosen, config)
        losses = []
        for step in range(14):
            batch = cut((5, 7, 8)[step % 3])
            if step == 9:
                chosen.param_groups[0]["lr"] *= 0.5
            work = take(batch) if graph else loop.update(task, chosen, batch.padded(4), 5.0)
            losses.append(work[0].clone())
            assert isinstance(chosen.param_groups[0]["lr"], float)
        results.append([*losses, *weights(task)])
    assert fake.captured == 1
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_rare_shapes_and_shapes_beyond_the_limit_are_not_captured(root, fake, monkeypatch):
    task = built(MORPHOLOGY, root)
    take = updates_of(task)
    for source in (2, 6, 10) * graphs.EAGER:
        take(cut(source))
    assert fake.captured == 0
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    for source in (2, 6, 10) * 2:
        take(cut(source))
    assert fake.captured == 2


def test_tallies_count_replays(root, fake, monkeypatch):
    task = built(SNLI, root)
    batch, tally = task.batches(0)[0], task.tally

    class Python(FakeGraph):
        """What Python does of the work is done in the capture, and only there."""

        def __init__(self, work: Callable[[], Any], *_: Any) -> None:
            super().__init__(self._results)
            tally["pairs_per_second"] += len(batch)  # type: ignore[index]

        def _results(self) -> Any:
            return torch.zeros(()), torch.tensor(len(batch))

    monkeypatch.setattr(graphs, "Graph", Python)
    take = updates_of(task)
    for step in range(1, 7):
        take(copy.copy(batch))
        assert tally["pairs_per_second"] == len(batch) * step
    assert Python.captured == 1


def test_tasks_that_wait_for_the_host_are_not_captured(root, fake, monkeypatch):
    streams: list[Any] = []

    def entered(stream: Any) -> Any:
        streams.append(stream)
        return nullcontext()

    monkeypatch.setattr(graphs, "watch", lambda work: (work(), True))
    monkeypatch.setattr(torch.cuda, "stream", entered)
    task = built(MORPHOLOGY, root)
    take = updates_of(task)
    for _ in range(6):
        take(cut(5))
    assert fake.captured == 0
    assert len(streams) == 6  # all updates are on one stream


@pytest.mark.parametrize("waits", [True, False])
def test_only_the_warnings_of_the_work_count(waits, monkeypatch):
    """PyTorch says that the mode is a prototype when it is first set."""
    notice = "Synchronization debug mode is a prototype feature and does not yet detect all "
    modes: list[Any] = []

    def set_mode(mode: Any) -> None:
        if not modes:
            warnings.warn(notice + "synchronizing operations", UserWarning, stacklevel=1)
        modes.append(mode)

    def work() -> Any:
        if waits:
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=1)
        return "results"

    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", set_mode)
    assert graphs.watch(work) == ("results", waits)
    assert modes == ["warn", 0]


def test_without_graphs_batches_are_not_padded(root, fake):
    task = built(MORPHOLOGY, root, "training.graphs=off")
    seen: list[tuple[int, ...]] = []
    whole = task.loss
    task.loss = lambda batch: (seen.append(batch.source.shape), whole(batch))[1]  # type: ignore
    updates_of(task)(cut(5))
    assert seen == [(4, 5)]
    assert fake.captured == 0


def check_validations(name: str, root: Path, device: str) -> None:
    """Compare the statistics of six batches of one shape by graphs with those of eager ones.

    The weights change in between, as they do between the validations of a training.
    """
    found = []
    for wanted in ("auto", "off"):
        settings = [f"training.graphs={wanted}", "decoding.batch_size=2"]
        task: Any = built(name, root, *settings, device=device)
        pairs = [task.splits["dev"][place] for place in range(12)]
        task.model.eval()
        for _ in range(2):
            found.append(vars(task.teacher_forced(pairs)))
            with torch.no_grad():
                for one in task.model.parameters():
                    one.mul_(1.5)
        if wanted == "auto":
            assert len(task._statistics._graphs) == 1
    assert found[0] != found[1]
    for ours, theirs in zip(found[:2], found[2:], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("name", [MORPHOLOGY, "nmt-csparsemax-guided", "nmt-coverage"])
def test_validations_by_graphs_have_the_statistics_of_others(name, root, fake, monkeypatch):
    monkeypatch.setattr(graphs, "STEP", 64)
    check_validations(name, root, "cpu")
    assert fake.captured == 1


def trained(name: str, folder: Path, root: Path, stop: int | None, device: str) -> list[Tensor]:
    steps = ["training.max_steps=12", "training.validate_every_steps=12"]
    steps += ["training.schedule=decay_if_not_best", "training.checkpoint_minutes=0"]
    task = built(name, root, *steps, device=device)
    folder.mkdir(exist_ok=True)

    def on_step(progress: Any, _batches: int) -> None:
        if progress.step == stop:
            raise KeyboardInterrupt

    files = FitPaths(folder / "checkpoint.pt", folder / "model.safetensors")
    fit(task, task.config.training, files, lambda _row: None, on_step)
    return weights(task)


def check_resume(name: str, root: Path, folder: Path, device: str) -> None:
    whole = trained(name, folder / "whole", root, None, device)
    with pytest.raises(KeyboardInterrupt):
        trained(name, folder / "cut", root, 8, device)
    for ours, theirs in zip(trained(name, folder / "cut", root, None, device), whole, strict=True):
        assert torch.equal(ours, theirs)


def test_a_resumed_training_ends_with_equal_weights(root, tmp_path, fake, monkeypatch):
    """Also if other updates are replayed in the second session than in the first."""
    monkeypatch.setattr(graphs, "STEP", 16)
    check_resume(MORPHOLOGY, root, tmp_path, "cpu")
    assert fake.captured > 1


CARD = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


@pytest.mark.gpu
@CARD
@pytest.mark.parametrize("name", UPDATES | READING)
def test_graphs_give_the_bits_of_eager_updates(name, root):
    """With dropout: a replay draws the numbers that an eager update would have drawn."""
    found = []
    for wanted in ("auto", "off"):
        task = built(name, root, f"training.graphs={wanted}", device="cuda")
        take = updates_of(task)
        batch = task.batches(0)[0]
        batch = batch.padded(graphs.STEP) if hasattr(batch, "padded") else batch
        losses = [take(batch)[0].clone() for _ in range(8)]
        found.append([*losses, *weights(task)])
        if wanted == "auto":
            assert len(take._graphs) == is_captured(name)
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.gpu
@CARD
def test_validations_by_graphs_on_a_card(root, monkeypatch):
    monkeypatch.setattr(graphs, "STEP", 64)
    check_validations(MORPHOLOGY, root, "cuda")


@pytest.mark.gpu
@CARD
def test_a_training_by_graphs_resumes_on_a_card(root, tmp_path):
    check_resume(MORPHOLOGY, root, tmp_path, "cuda")
