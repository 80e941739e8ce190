import errno
import itertools
import math
import os
import pickle
import resource
import signal
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor, nn

from repro.config import ConfigError
from repro.config.schema import TrainingConfig
from repro.tasks.common import LazyBatches
from repro.training import distributed
from repro.training.checkpoint import (
    CheckpointError,
    TrainingProgress,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    save_weights,
)
from repro.training.loop import DivergenceError, Fit, FitPaths, fit
from repro.training.protocol import Validation
from repro.training.seeding import random_state, seed_everything


class Regression:
    """A small noisy task with dropout, so that the random state matters."""

    selectors = ("score",)
    tally: Mapping[str, float] = MappingProxyType({})

    def __init__(self, losses: Sequence[float] = ()) -> None:
        seed_everything(3)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.losses = list(losses)
        self.updates = 0
        self.stop_at = -1

    def batches(self, epoch: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(epoch)
        return list(torch.randn(5, 4, 3, generator=generator))

    def loss(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        if self.updates == self.stop_at:
            raise RuntimeError("killed")
        self.updates += 1
        error = self.model(batch).squeeze(-1) - batch.sum(-1)
        return error.square().mean(), torch.tensor(len(batch))

    def validate(self) -> Validation:
        weight = self.model[0].weight
        loss = self.losses.pop(0) if self.losses else float(weight.square().sum())
        return Validation(loss, {"score": float(weight.sum())})


class Scored(Regression):
    """A task whose validations have these scores; it keeps the weights of each."""

    def __init__(self, *scores: float) -> None:
        super().__init__()
        self.scores, self.seen = scores, list[Tensor]()

    def validate(self) -> Validation:
        self.seen.append(self.model[0].weight.clone())
        return Validation(1.0, {"score": self.scores[len(self.seen) - 1]})


class Interrupted(Regression):
    """A task that sends signals in its eighth update."""

    def __init__(self, signals: int) -> None:
        super().__init__()
        self.signals = signals

    def loss(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        if self.updates == 7:
            for _ in range(self.signals):
                os.kill(os.getpid(), signal.SIGINT)
        return super().loss(batch)


def config(**changes: Any) -> TrainingConfig:
    settings = {
        "learning_rate": 0.01, "decay": 0.5, "min_learning_rate": 1e-6, "max_grad_norm": 5.0,
        "batch_size": 4, "max_epochs": 6, "validate_every": 2, "monitor": "score",
        "checkpoint_minutes": 0.0,
    }  # fmt: skip
    return TrainingConfig(**(settings | changes))


def run(
    task: Regression,
    folder: Path,
    on_row: Callable[[dict[str, Any]], None] = lambda _row: None,
    **changes: Any,
) -> TrainingProgress:
    folder.mkdir(exist_ok=True)
    files = FitPaths(folder / "checkpoint.pt", folder / "model.safetensors")
    return fit(task, config(**changes), files, on_row, lambda _progress, _total: None)


def rows(progress: TrainingProgress) -> list[dict[str, Any]]:
    """The history without the time, which no two trainings share."""
    return [{**row, "seconds": None} for row in progress.history]


@pytest.mark.parametrize("stop_at", [1, 4, 5, 12, 29])
@pytest.mark.parametrize("every_steps", [None, 3, 7])
def test_a_killed_training_continues_to_the_same_numbers(tmp_path, stop_at, every_steps):
    changes = {"validate_every_steps": every_steps, "schedule": "decay_if_not_best"}
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    expected = run(Regression(), whole, **changes)
    killed = Regression()
    killed.stop_at = stop_at
    with pytest.raises(RuntimeError, match="killed"):
        run(killed, cut, **changes)
    continued = Regression()
    torch.rand(7)  # whatever ran in between must not matter
    progress = run(continued, cut, **changes)
    assert rows(progress) == rows(expected)
    assert (progress.best, progress.best_epoch) == (expected.best, expected.best_epoch)
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_finished_training_does_nothing_more(tmp_path):
    first = run(Regression(), tmp_path)
    again = Regression()
    assert rows(run(again, tmp_path)) == rows(first)
    assert again.updates == 0


def test_ctrl_c_leaves_a_checkpoint_and_the_rest_can_follow(tmp_path):
    task = Interrupted(signals=1)
    with pytest.raises(KeyboardInterrupt):
        run(task, tmp_path, checkpoint_minutes=1000.0)
    assert load_checkpoint(tmp_path / "checkpoint.pt")[0].step == task.updates == 8
    assert rows(run(Regression(), tmp_path)) == rows(run(Regression(), tmp_path / "whole"))


class Evaluated(Regression):
    """A task whose validation draws random numbers, and sends a signal on the way."""

    def __init__(self, signal_at: int = -1) -> None:
        super().__init__()
        self.signal_at, self.validations, self.finished = signal_at, 0, 0

    def validate(self) -> Validation:
        self.validations += 1
        torch.rand(5)
        if self.validations == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)  # a batch of evaluation: not to be waited for
        self.finished += 1
        return super().validate()


@pytest.mark.parametrize(
    ("every_steps", "signal_at", "step"),
    [(None, 1, 10), (None, 3, 30), (7, 1, 7), (7, 2, 14), (7, 5, 30)],
)
def test_a_signal_ends_a_validation_at_once_and_it_is_repeated(
    tmp_path, every_steps, signal_at, step
):
    changes = {"validate_every_steps": every_steps}
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    expected = run(Evaluated(), whole, **changes)
    task, started = Evaluated(signal_at), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(task, cut, checkpoint_minutes=1000.0, **changes)
    assert time.monotonic() - started < 5
    assert task.finished == signal_at - 1
    kept, _ = load_checkpoint(cut / "checkpoint.pt")
    assert (kept.step, kept.batch) == (step, (step - 1) % 5 + 1)
    continued = Evaluated()
    assert rows(run(continued, cut, **changes)) == rows(expected)
    assert task.updates + continued.updates == 6 * 5
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize(("last", "step"), [(False, 5), (True, 30)])
def test_signals_wait_while_a_checkpoint_is_written(tmp_path, monkeypatch, last, step):
    def save(path: Path, progress: TrainingProgress, state: dict[str, Any]) -> None:
        if progress.finished == last:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
        save_checkpoint(path, progress, state)

    monkeypatch.setattr("repro.training.loop.save_checkpoint", save)
    monkeypatch.setattr("repro.training.loop._SECONDS_BETWEEN_ROWS_SAVED", -1.0)
    with pytest.raises(KeyboardInterrupt):
        run(Regression(), tmp_path, checkpoint_minutes=1000.0)
    kept, _ = load_checkpoint(tmp_path / "checkpoint.pt")
    assert (kept.finished, kept.step) == (last, step)


def test_several_processes_stop_only_when_all_know_of_the_signal(tmp_path, monkeypatch):
    """One process never saves or stops alone: the others would wait for it without end."""
    saved = list[int]()
    asked = list[tuple[bool, bool]]()

    def gather(wish: tuple[bool, bool]) -> list[tuple[bool, bool]]:
        asked.append(wish)
        if len(asked) == 2:  # behind the wish of this process, before the answer
            os.kill(os.getpid(), signal.SIGTERM)
        return [wish, (False, False)]

    task = Regression()
    monkeypatch.setattr(distributed, "size", lambda: 2)
    monkeypatch.setattr("repro.training.loop.SharedTask", lambda task: task)
    monkeypatch.setattr(distributed, "gather", gather)
    monkeypatch.setattr(Fit, "_save", lambda fit: saved.append(fit.progress.step))
    with pytest.raises(KeyboardInterrupt):
        run(task, tmp_path, checkpoint_minutes=1e9)
    assert [stop for _, stop in asked] == [False, False, True]
    assert saved == [3]
    assert task.updates == 3


def test_each_process_continues_with_its_own_random_numbers(tmp_path, monkeypatch):
    torch.manual_seed(77)
    other, expected = random_state(), torch.rand(3)

    def gather(value: Any) -> list[Any]:
        return [value, value if isinstance(value, tuple) else other]

    monkeypatch.setattr(distributed, "size", lambda: 2)
    monkeypatch.setattr("repro.training.loop.SharedTask", lambda task: task)
    monkeypatch.setattr(distributed, "gather", gather)
    run(Regression(), tmp_path, max_epochs=1)
    own = torch.rand(3)
    for rank, numbers in ((0, own), (1, expected)):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        run(Regression(), tmp_path, max_epochs=1)
        assert torch.equal(torch.rand(3), numbers)


def test_a_second_signal_during_updates_stops_at_once_and_says_what_is_lost(
    tmp_path, capfd, monkeypatch
):
    monkeypatch.setattr("repro.training.loop._SECONDS_BETWEEN_ROWS_SAVED", -1.0)
    with pytest.raises(KeyboardInterrupt, match="from the last checkpoint"):
        run(Interrupted(signals=2), tmp_path, checkpoint_minutes=1000.0)
    assert load_checkpoint(tmp_path / "checkpoint.pt")[0].step == 5
    assert "since the last checkpoint" in capfd.readouterr().err


def test_the_learning_rate_is_halved_when_the_validation_loss_increases(tmp_path):
    task = Regression(losses=[1.0, 2.0, 1.5, 1.6])
    progress = run(task, tmp_path, max_epochs=4, validate_every=1, min_learning_rate=1e-9)
    assert [row["learning_rate"] for row in progress.history] == [0.01, 0.01, 0.005, 0.005]
    progress.history.clear()
    assert load_checkpoint(tmp_path / "checkpoint.pt")[1]["optimizer"]["param_groups"][0]["lr"] == (
        0.0025
    )


@pytest.mark.parametrize(
    ("every", "changes", "steps"),
    [
        (7, {}, [7, 14, 21, 28, 30]),  # six epochs of five updates
        (10, {}, [10, 20, 30]),
        (7, {"max_epochs": None, "max_steps": 16}, [7, 14, 16]),
        (8, {"max_epochs": None, "max_steps": 16}, [8, 16]),
        (50, {}, [30]),
    ],
)
def test_validations_after_a_number_of_updates_have_one_row_each(tmp_path, every, changes, steps):
    losses = [1.0, 2.0, 1.5, 1.6, 1.7]
    progress = run(Regression(losses), tmp_path, validate_every_steps=every, **changes)
    assert [row["step"] for row in progress.history] == steps
    assert [row["epoch"] for row in progress.history] == [-(-step // 5) for step in steps]
    assert [row["dev_loss"] for row in progress.history] == losses[: len(steps)]
    rates = [0.01, 0.01, 0.005, 0.005, 0.0025]  # after 2.0, 1.6 and 1.7 it is halved
    assert [row["learning_rate"] for row in progress.history] == rates[: len(steps)]
    assert progress.finished
    assert progress.step == steps[-1]


def test_rows_after_a_number_of_updates_hold_the_mean_loss_of_those_updates(tmp_path):
    single, several = tmp_path / "single", tmp_path / "several"
    losses = [1.0] * 30  # no decay
    each = run(Regression(losses), single, validate_every_steps=1).history
    assert len(each) == 30
    for row in run(Regression(losses), several, validate_every_steps=7).history:
        own = [one["train_loss"] for one in each if row["step"] - 7 < one["step"] <= row["step"]]
        own = own[-2:] if row["step"] == 30 else own
        assert row["train_loss"] == pytest.approx(sum(own) / len(own))


@pytest.mark.parametrize(
    ("scores", "changes", "steps", "best"),
    [
        ((2.0, 1.0), {"validate_every_steps": 2, "patience": 1}, [2, 4], (1, 2)),
        ((3.0, 2.0, 1.0), {"max_epochs": 12, "patience": 2}, [5, 10, 15, 20, 25, 30], (2, 10)),
    ],
    ids=["within an epoch", "every second epoch"],
)
def test_patience_counts_validations(tmp_path, scores, changes, steps, best):
    progress = run(Scored(*scores), tmp_path, **changes)
    assert [row["step"] for row in progress.history] == steps
    assert (progress.best_epoch, progress.best_step) == best


@pytest.mark.parametrize(("max_steps", "epochs"), [(5, 1.0), (12, 2.4), (30, 6.0)])
def test_the_minutes_of_an_epoch_count_epochs_not_validations(tmp_path, max_steps, epochs):
    progress = run(Regression(), tmp_path, max_steps=max_steps, validate_every_steps=2)
    speeds = progress.speeds()
    minutes = max_steps * 4 / epochs / speeds["tokens_per_second"] / 60
    assert speeds["epoch_minutes"] == pytest.approx(minutes)


def test_training_ends_when_the_learning_rate_is_too_small(tmp_path):
    task = Regression(losses=[float(n) for n in range(20)])
    progress = run(task, tmp_path, max_epochs=20, validate_every=1, min_learning_rate=0.004)
    assert len(progress.history) == 3


class Compiling(Regression):
    """Task whose first update in a process takes long."""

    def loss(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        time.sleep(0.3 if self.updates == 0 else 0.002)
        self.tally = {"pairs_per_second": self.tally.get("pairs_per_second", 0.0) + len(batch)}
        return super().loss(batch)


def test_the_speed_leaves_out_the_first_update_of_each_process(tmp_path):
    stopped = Compiling()
    stopped.stop_at = 7
    with pytest.raises(RuntimeError, match="killed"):
        run(stopped, tmp_path)
    progress = run(Compiling(), tmp_path)
    assert progress.symbols == progress.tally["pairs_per_second"] == 6 * 5 * 4
    assert progress.warm_up["symbols"] == progress.warm_up["pairs_per_second"] == 2 * 4
    assert progress.seconds > progress.warm_up["seconds"] >= 0.6
    speed = (progress.symbols - 8) / (progress.seconds - progress.warm_up["seconds"])
    minutes = 5 * 4 / speed / 60  # five batches of four symbols
    speeds = progress.speeds()
    assert speeds.pop("speed_gain") > 0
    assert speeds == pytest.approx(
        {"tokens_per_second": speed, "pairs_per_second": speed, "epoch_minutes": minutes}
    )


@pytest.mark.parametrize(
    ("rows", "first", "gain"),
    [
        ({5: 9.0}, [], None),
        ({5: 9.0, 10: 11.0}, [], None),
        ({5: 9.0, 10: 11.0, 15: 12.0}, [], 2.0),
        ({5: 9.0, 10: 11.0, 15: 20.0, 20: 24.0}, [], 0.5),
        ({5: 9.0, 10: 11.0, 12: 11.4}, [], 2.0),  # fewer updates in the last row
        ({2: 8.0, 4: 20.0, 6: 26.0}, [], 2.0),  # progress of earlier versions
        ({2: 8.0, 4: 20.0, 6: 26.0}, [[1, 6.0]], 2.0),
        ({2: 8.0, 4: 20.0, 6: 26.0}, [[1, 6.0], [3, 4.0]], 8 / 3),
        ({2: 8.0, 4: 20.0, 6: 26.0}, [[1, 6.0], [3, 4.0], [4, 8.0]], None),
        ({2: 8.0, 4: 20.0, 6: 26.0}, [[5, 2.0], [6, 2.0]], None),
    ],
)
def test_the_gain_in_speed_compares_the_last_row_with_the_second(rows, first, gain):
    """Seconds by step; updates that compile something, ``first``, are left out."""
    history = [{"step": step, "seconds": seconds} for step, seconds in rows.items()]
    content = {**history[-1], "symbols": 10, "history": history}
    progress = TrainingProgress.of({**content, "first_updates": first} if first else content)
    assert progress.speeds().get("speed_gain") == pytest.approx(gain)


def test_the_gain_in_speed_leaves_out_the_first_update_of_each_process(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("repro.training.loop.time", SimpleNamespace(monotonic=lambda: clock.now))

    class Timed(Regression):
        """Task whose updates take 7 s in the second epoch, 3 s in the last and 90 s at first."""

        def batches(self, epoch: int) -> list[Tensor]:
            self.seconds = [9.0, 7.0, 5.0, 5.0, 5.0, 3.0][epoch]
            return super().batches(epoch)

        def loss(self, batch: Tensor) -> tuple[Tensor, Tensor]:
            found = super().loss(batch)
            clock.now += self.seconds if self.updates > 1 else 90.0
            return found

    assert run(Timed(), tmp_path / "whole").speeds()["speed_gain"] == pytest.approx(7 / 3)
    for name, stops in {"second": [7], "last": [27], "both": [5, 2, 16, 3]}.items():
        for stop_at in stops:  # updates in each session
            killed = Timed()
            killed.stop_at = stop_at
            with pytest.raises(RuntimeError, match="killed"):
                run(killed, tmp_path / name)
        progress = run(Timed(), tmp_path / name)
        assert progress.speeds()["speed_gain"] == pytest.approx(7 / 3)
        assert len(progress.first_updates) == len(stops) + 1


def test_the_speed_of_a_single_update_counts_it(tmp_path):
    progress = run(Compiling(), tmp_path, max_steps=1)
    assert progress.speeds()["tokens_per_second"] == pytest.approx(4 / progress.seconds)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("bad", ["loss", "score", "other"])
def test_a_validation_that_is_not_finite_is_a_divergence(tmp_path, bad, value):
    class Diverged(Regression):
        def validate(self) -> Validation:
            metrics = {"score": 1.0, "other": 1.0, "loss": 1.0} | {bad: value}
            return Validation(metrics.pop("loss"), metrics)

    history: list[dict[str, Any]] = []
    with pytest.raises(DivergenceError, match=f"validation {bad} of epoch 2"):
        run(Diverged(), tmp_path, history.append)
    assert [row["epoch"] for row in history] == [1]
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("value", "update", "message"),
    [(math.inf, 3, "epoch 1 is infinite"), (math.nan, 8, "epoch 2 is not a number")],
)
def test_a_loss_of_one_batch_that_is_not_finite_is_a_divergence(tmp_path, value, update, message):
    class Diverging(Regression):
        def loss(self, batch: Tensor) -> tuple[Tensor, Tensor]:
            loss, symbols = super().loss(batch)
            return loss + (value if self.updates == update else 0.0), symbols

    with pytest.raises(DivergenceError, match=f"training loss of {message}"):
        run(Diverging(), tmp_path)


def test_an_unknown_selecting_metric_is_refused_before_training(tmp_path):
    task = Regression()
    with pytest.raises(ConfigError, match=r"training\.monitor is 'bleu'; choose from: score"):
        run(task, tmp_path, monitor="bleu")
    assert task.updates == 0


def test_the_best_weights_are_those_of_the_best_validation(tmp_path):
    task = Scored(1.0, 3.0, 2.0)
    progress = run(task, tmp_path)
    assert progress.best_epoch == 4
    load_weights(tmp_path / "model.safetensors", task.model)
    assert torch.equal(task.model[0].weight, task.seen[1])


def test_weights_that_a_killed_session_wrote_after_its_checkpoint_do_not_stay(tmp_path):
    """The session that continues rounds otherwise, and does not find as good ones again."""

    def die(row: dict[str, Any]) -> None:
        if row["epoch"] == 4:
            raise RuntimeError("killed")

    weights = tmp_path / "model.safetensors"
    killed = Scored(1.0, 3.0)
    with pytest.raises(RuntimeError, match="killed"):
        run(killed, tmp_path, die)
    assert load_checkpoint(tmp_path / "checkpoint.pt")[0].best_epoch == 2
    load_weights(weights, killed.model)
    assert torch.equal(killed.model[0].weight, killed.seen[1])
    continued = Scored(0.5, 0.7)
    assert run(continued, tmp_path).best_epoch == 2
    load_weights(weights, continued.model)
    assert torch.equal(continued.model[0].weight, killed.seen[0])
    assert {one.name for one in tmp_path.iterdir()} == {"checkpoint.pt", "model.safetensors"}


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("executed",))


def test_a_checkpoint_never_executes_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint.pt").write_bytes(pickle.dumps(Malicious()))
    with pytest.raises(CheckpointError, match=r"checkpoint\.pt"):
        run(Regression(), tmp_path)
    assert not (tmp_path / "executed").exists()


def test_seed_zero_is_a_seed():
    seed_everything(0)
    first = torch.rand(3)
    seed_everything(0)
    assert torch.equal(first, torch.rand(3))
    seed_everything(1)
    assert not torch.equal(first, torch.rand(3))


def test_operators_are_deterministic_and_memory_is_not_filled_first():
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    seed_everything(0)
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]


def test_the_history_counts_the_seconds_of_training_alone(tmp_path):
    class Slow(Regression):
        def validate(self) -> Validation:
            time.sleep(0.2)
            return super().validate()

    started = time.monotonic()
    progress = run(Slow(), tmp_path, max_epochs=3, validate_every=1)
    elapsed = time.monotonic() - started
    seconds = [row["seconds"] for row in progress.history]
    assert 0 < seconds[0] < seconds[1] < seconds[2] == progress.seconds <= elapsed - 3 * 0.2


def test_cut_files_and_weights_of_another_model_are_refused(tmp_path):
    task = Regression()
    run(task, tmp_path)
    checkpoint, weights = tmp_path / "checkpoint.pt", tmp_path / "model.safetensors"
    for path in (checkpoint, weights):
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CheckpointError, match=path.name):
            load_checkpoint(path) if path == checkpoint else load_weights(path, task.model)
    save_weights(weights, nn.Linear(2, 2))
    with pytest.raises(CheckpointError, match=r"model\.safetensors: not the weights of this"):
        load_weights(weights, task.model)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content["progress"].update(epoch="two"), "not a readable checkpoint"),
        (lambda content: content["progress"].update(history=[3]), "not a readable checkpoint"),
        (lambda content: content["progress"].update(page=1), "not a readable checkpoint"),
        (lambda content: content.update(progress=[1]), "not a readable checkpoint"),
        (lambda content: content.update(state=[1]), "not a checkpoint of this model"),
        (lambda content: content["state"].update(model={1: 2}), "of this model"),
        (lambda content: content["state"].update(model={"a": torch.zeros(1)}), "of this model"),
        (lambda content: content["state"].update(optimizer="sgd"), "of this model"),
        (lambda content: content["state"].update(random="seed"), "of this model"),
        (lambda content: content["state"].update(randoms=[]), "of this model"),
        (lambda content: content["state"].pop("random"), "of this model"),
    ],
)
def test_other_values_in_a_checkpoint_are_refused(tmp_path, damage, message):
    run(Regression(), tmp_path, max_epochs=1)
    checkpoint = tmp_path / "checkpoint.pt"
    content = torch.load(checkpoint, weights_only=True)
    content["progress"]["finished"] = False
    damage(content)
    torch.save(content, checkpoint)
    with pytest.raises(CheckpointError, match=rf"checkpoint\.pt: .*{message}"):
        run(Regression(), tmp_path, max_epochs=3)


def test_a_checkpoint_without_room_names_its_file_and_keeps_the_earlier_one(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, TrainingProgress(epoch=1), {})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, limits[1]))
    try:
        with pytest.raises(OSError, match=r"checkpoint\.pt") as caught:
            save_checkpoint(path, TrainingProgress(epoch=2), {"model": torch.zeros(2**14)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert [*tmp_path.iterdir()] == [path]
    assert load_checkpoint(path)[0].epoch == 1


def test_no_flipped_bit_of_a_checkpoint_or_of_weights_is_loaded(tmp_path):
    task = Regression()
    run(task, tmp_path)
    checkpoint, weights = tmp_path / "checkpoint.pt", tmp_path / "model.safetensors"

    def content(path: Path) -> str:
        if path == checkpoint:
            return repr(load_checkpoint(path))
        load_weights(path, task.model)
        return repr(task.model.state_dict())

    for path in (checkpoint, weights):
        whole, expected, refused = path.read_bytes(), content(path), 0
        for place in range(0, len(whole), max(1, len(whole) // 100)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
            try:  # a flipped bit between the members of an archive, or in a name, changes no number
                assert content(path) == expected
            except CheckpointError:
                refused += 1
        assert refused > 30


def test_weights_of_an_earlier_version_have_no_checksum(tmp_path):
    model = nn.Linear(2, 2)
    expected = model.weight.detach().clone()
    (tmp_path / "model.safetensors").write_bytes(save(dict(model.state_dict())))
    nn.init.zeros_(model.weight)
    load_weights(tmp_path / "model.safetensors", model)
    assert torch.equal(model.weight, expected)


def test_all_files_of_a_training_have_the_rights_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        run(Regression(), tmp_path)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}


def test_short_epochs_share_a_checkpoint(tmp_path, monkeypatch):
    steps: list[int] = []

    def save(_path: Path, progress: TrainingProgress, _state: dict[str, Any]) -> None:
        steps.append(progress.step)

    monkeypatch.setattr("repro.training.loop.save_checkpoint", save)
    run(Regression(), tmp_path, checkpoint_minutes=1000.0)
    assert steps == [30]  # six epochs of five updates, at the end
    steps.clear()
    monkeypatch.setattr("repro.training.loop._SECONDS_BETWEEN_ROWS_SAVED", -1.0)
    run(Regression(), tmp_path, checkpoint_minutes=1000.0)
    assert steps == [5, 10, 15, 20, 25, 30]


def test_all_processes_find_checkpoints_due_at_the_same_updates(tmp_path, monkeypatch):
    """Saving is collective: it happens as soon as one process finds it due."""
    steps: dict[int, list[int]] = {0: [], 1: []}
    save = Fit._save

    def counted(fit: Fit[Tensor]) -> None:
        steps[distributed.rank()].append(fit.progress.step)
        save(fit)

    monkeypatch.setattr(Fit, "_save", counted)
    for rank in steps:
        clock = SimpleNamespace(monotonic=itertools.count().__next__)
        monkeypatch.setattr("repro.training.loop.time", clock)
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        run(Regression(), tmp_path / f"{rank}", checkpoint_minutes=10 / 60)
    assert steps[0] == steps[1]
    assert 1 < len(steps[0]) < 10


def test_a_process_builds_no_batch_of_another_one(monkeypatch):
    built: list[int] = []
    batches = LazyBatches([[n] for n in range(5)], lambda rows: built.append(rows[0]))
    monkeypatch.setattr(distributed, "size", lambda: 2)
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    assert len(list(distributed.share(batches))) == 2
    assert built == [1, 3]


def test_of_equally_good_validations_the_first_is_kept(tmp_path):
    progress = run(Scored(1.0, 2.0, 2.0), tmp_path)
    assert (progress.best, progress.best_epoch, progress.best_step) == (2.0, 4, 20)


def test_a_loss_is_compared_with_that_of_the_last_validation_some_epochs_before(tmp_path):
    progress = run(Regression(losses=[1.0, 2.0, 1.5]), tmp_path, validate_every=2)
    assert [row.get("dev_loss") for row in progress.history] == [None, 1.0, None, 2.0, None, 1.5]
    rates = [row["learning_rate"] for row in progress.history]
    assert rates == [0.01, 0.01, 0.01, 0.01, 0.005, 0.005]


def test_no_update_is_longer_than_the_largest_gradient_allows(tmp_path):
    task = Regression()
    before = [weight.detach().clone() for weight in task.model.parameters()]
    run(task, tmp_path, optimizer="sgd", learning_rate=2.0, max_grad_norm=0.25, max_steps=1)
    moved = [w.detach() - old for w, old in zip(task.model.parameters(), before, strict=True)]
    assert math.hypot(*torch.cat([one.flatten() for one in moved]).tolist()) == pytest.approx(0.5)
