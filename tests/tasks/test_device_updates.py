"""Training on a CUDA device against training on the CPU, for every task, mapping and loss."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from every_update import READING, UPDATES
from torch import Tensor
from torch.testing import assert_close

from repro.config.compose import compose_run
from repro.config.schema import RunConfig
from repro.decoding import search
from repro.runs.device import prepare_device
from repro.tasks import Task, task_spec
from repro.tasks.entailment import EntailmentTask
from repro.tasks.parsing.task import ParsingTask
from repro.tasks.seq2seq import Seq2SeqTask
from repro.training.checkpoint import TrainingProgress
from repro.training.loop import FitPaths, build_optimizer, fit, update
from repro.training.seeding import seed_everything

DEVICE = "cuda"
CHOICES = UPDATES | READING
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="needs CUDA"),
]


@pytest.fixture(autouse=True)
def doubles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let tasks, which compute losses in float32 at least, keep float64; restore determinism."""
    narrow = Tensor.float
    monkeypatch.setattr(
        Tensor, "float", lambda one: one if one.dtype == torch.float64 else narrow(one)
    )
    chosen = search.most_probable  # reads the bits of float32
    monkeypatch.setattr(search, "most_probable", lambda probs, count: chosen(narrow(probs), count))
    before = torch.get_deterministic_debug_mode()
    yield
    torch.set_deterministic_debug_mode(before)


def composed(name: str, root: Path, *overrides: str) -> RunConfig:
    return compose_run([*CHOICES[name], "hardware=cpu", f"results_dir={root}", *overrides])


def built(config: RunConfig, device: str, dtype: torch.dtype) -> Task[Any]:
    """Build a task as a run does: seeded, in deterministic mode and in the run's precision."""
    prepare_device(config)
    seed_everything(config.seed)
    task = task_spec(config.task.name).build(config, torch.device(device))
    task.model.to(dtype)
    return task


def searched(task: Any) -> tuple[Any, Tensor]:
    """Return what is found for a few validation examples, and numbers that go with it."""
    if isinstance(task, Seq2SeqTask):
        results = task.search(task.model, [*task.splits["dev"]][:4], keep_attention=True)
        best = [one for result in results for one in result.hypotheses]
        scores = torch.tensor([one.log_probability for one in best], dtype=torch.float64)
        return [one.tokens for one in best], scores
    if isinstance(task, ParsingTask):
        found = task.analyze(task.data.dev[:8])
        return found.heads, torch.tensor(found.loss, dtype=torch.float64)
    assert isinstance(task, EntailmentTask)
    split = task.data.dev
    with torch.no_grad():
        logits = task.read_batch(split.collate(range(4)).to(task.device)).logits
    return logits.argmax(1).tolist(), logits.double().cpu()


def trace(config: RunConfig, device: str, dtype: torch.dtype) -> dict[str, Any]:
    """Take three updates, validate and search."""
    task = built(config, device, dtype)
    optimizer = build_optimizer(config.training, task.model.parameters())
    batches, found = task.batches(0), dict[str, Any]()
    task.model.train()
    for step in range(3):
        loss, symbols = update(task, optimizer, batches[step], config.training.max_grad_norm)
        found[f"loss {step}"], found[f"symbols {step}"] = loss.cpu(), symbols.cpu()
        for name, parameter in task.model.named_parameters():
            if parameter.grad is not None:
                found[f"gradient {step} {name}"] = parameter.grad.cpu()
    assert all(value > 0 for value in task.tally.values())
    task.model.eval()
    with torch.no_grad():
        outcome = task.validate()
        found["outputs"], found["scores"] = searched(task)
    return found | {"dev loss": outcome.loss, **outcome.metrics}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])
@pytest.mark.parametrize("name", CHOICES)
def test_updates_validation_and_search_are_those_of_the_cpu(name, dtype, root):
    # Dropout draws other numbers on a device. Adam's first steps have the signs of gradients, which
    # rounding decides where they are zero: in float32 updates are proportional to gradients.
    overrides = ["model.word_dropout=0" if "parsing" in name else "model.dropout=0"]
    overrides += ["training.optimizer=sgd"] * (dtype == torch.float32)
    config = composed(name, root, *overrides)
    expected, found = (trace(config, device, dtype) for device in ("cpu", DEVICE))
    assert found.keys() == expected.keys()
    bound, tied = TOLERANCE[dtype], "sequential" in name
    for key, value in expected.items():
        if key == "outputs" and dtype == torch.float64:
            assert found[key] == value
        # In float32 rounding decides which symbol is most probable, and what is just above zero.
        # Scores of sequential alignments are nearly tied at first: changing weights by 1e-7 changes
        # the support of SparseMAP, and with it the gradients by 1e-3.
        elif dtype == torch.float64 or "loss" in key or ("gradient" in key and not tied):
            assert_close(found[key], value, rtol=bound, atol=bound, msg=f"{key}: {{}}".format)


@pytest.mark.parametrize(
    "name",
    [
        "morphology-sparsemax-entmax-1.5-loss", "nmt-csoftmax-aligned", "nmt-csparsemax-predicted",
        "nmt-mlp", "summarization-coverage", "snli-sparsemax-entmax-1.5-loss", "parsing-crf",
        "nli_alignment-alignment-matching",
    ],
)  # fmt: skip
def test_updates_in_bfloat16_are_close_to_those_in_float32(name, root):
    """Cells, recurrent layers and mappings meet both precisions, forward and backward."""
    overrides = ["model.word_dropout=0" if "parsing" in name else "model.dropout=0"]
    found = []
    for precision in ("fp32", "bf16"):
        config = composed(name, root, *overrides, f"precision={precision}")
        task = built(config, DEVICE, torch.float32)
        task.model.train()
        optimizer = build_optimizer(config.training, task.model.parameters())
        loss, _ = update(task, optimizer, task.batches(0)[0], config.training.max_grad_norm)
        grads = [one.grad for one in task.model.parameters() if one.grad is not None]
        found.append((loss, torch.stack([one.norm() for one in grads]).norm()))
    for narrow, wide in zip(*reversed(found), strict=True):
        assert_close(narrow, wide, rtol=0.1, atol=0.0)


@pytest.mark.parametrize("name", CHOICES)
def test_a_resumed_training_ends_with_equal_weights(name, root, tmp_path):
    steps = ["training.max_steps=4", "training.validate_every_steps=4"]
    config = composed(name, root, *steps, "training.schedule=decay_if_not_best")

    def trained(folder: Path, stop_after: int | None) -> dict[str, Tensor]:
        def on_step(progress: TrainingProgress, _batches: int) -> None:
            if progress.step == stop_after:
                os.kill(os.getpid(), signal.SIGINT)

        folder.mkdir(exist_ok=True)
        files = FitPaths(folder / "checkpoint.pt", folder / "model.safetensors")
        task = built(config, DEVICE, torch.float32)
        fit(task, config.training, files, lambda _row: None, on_step)
        return task.model.state_dict()

    whole = trained(tmp_path / "whole", None)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "cut", 2)
    resumed = trained(tmp_path / "cut", None)
    assert whole.keys() == resumed.keys()
    for key, value in whole.items():
        assert torch.equal(resumed[key], value), key
