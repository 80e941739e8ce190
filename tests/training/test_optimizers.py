"""Optimizers and decay rules."""

import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import nn

from repro.config import ConfigError
from repro.config.schema import TrainingConfig
from repro.config.schema.checks import check_fields
from repro.training.checkpoint import TrainingProgress
from repro.training.loop import build_optimizer, is_decay_due


def config(**changes):
    settings = {
        "learning_rate": 0.5, "decay": 0.5, "min_learning_rate": 0.0, "max_grad_norm": 5.0,
        "batch_size": 4, "max_epochs": 6, "validate_every": 1, "monitor": "score",
    }  # fmt: skip
    return TrainingConfig(**(settings | changes))


def due(rule, epoch, row, **progress):
    state = TrainingProgress()
    state.epoch, state.step = epoch - 1, 10 * epoch
    for name, value in progress.items():
        setattr(state, name, value)
    return is_decay_due(config(schedule=rule, decay_from=8), state, row)


def test_decay_when_the_loss_increases():
    assert due("decay_if_loss_increases", 3, {"dev_loss": 2.0}, previous_loss=1.0)
    assert not due("decay_if_loss_increases", 3, {"dev_loss": 1.0}, previous_loss=1.0)
    assert not due("decay_if_loss_increases", 3, {"dev_loss": 1.0})
    assert not due("decay_if_loss_increases", 3, {}, previous_loss=1.0)


def test_decay_when_the_validation_is_not_the_best():
    assert due("decay_if_not_best", 3, {"dev_loss": 2.0}, best_epoch=2, best_step=20)
    assert due("decay_if_not_best", 3, {"dev_loss": 2.0}, best_epoch=3, best_step=25)
    assert not due("decay_if_not_best", 3, {"dev_loss": 2.0}, best_epoch=3, best_step=30)
    assert not due("decay_if_not_best", 3, {}, best_epoch=2, best_step=20)


@pytest.mark.parametrize(("epoch", "expected"), [(7, False), (8, True), (13, True)])
def test_decay_after_late_epochs(epoch, expected):
    assert due("decay_after_epoch", epoch, {}) is expected


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"optimizer": "lbfgs"}, "training.optimizer"),
        ({"schedule": "never"}, "training.schedule"),
        ({"weight_decay": -1.0}, "training.weight_decay"),
        ({"decay_from": 0}, "training.decay_from"),
        ({"validate_every_steps": 0}, "training.validate_every_steps"),
        ({"max_epochs": None}, "training.max_epochs and training.max_steps"),
        ({"validate_every_steps": 5, "schedule": "decay_after_epoch"}, "training.schedule"),
    ],
)
def test_meaningless_values_are_refused(changes, key):
    with pytest.raises(ConfigError, match=key):
        check_fields(config(**changes), "training.")


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_updates_are_those_of_pytorch_to_the_last_bit(name):
    settings = {"lr": 0.5, "weight_decay": 0.1}
    kind = {"adam": partial(torch.optim.Adam, fused=True), "sgd": torch.optim.SGD}[name]
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    chosen = config(optimizer=name, weight_decay=0.1)
    optimizers = [build_optimizer(chosen, [ours]), kind([theirs], **settings)]
    for step in range(4):
        if step == 2:  # as after an interruption
            saved = optimizers[0].state_dict()
            optimizers[0] = build_optimizer(chosen, [ours])
            optimizers[0].load_state_dict(saved)
        for weight, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad(set_to_none=True)
            weight.sin().sum().backward()
            optimizer.step()
        assert torch.equal(ours, theirs)
    assert not torch.equal(ours, start)


def test_training_does_not_import_the_compiler_of_pytorch():
    code = """
import sys, torch
from repro.config.schema import TrainingConfig
from repro.training.loop import build_optimizer
from repro.training.seeding import seed_everything
seed_everything(1)
assert torch.are_deterministic_algorithms_enabled()
weight = torch.nn.Parameter(torch.ones(2))
settings = dict(learning_rate=0.5, decay=0.5, min_learning_rate=0.0, max_grad_norm=5.0,
                batch_size=4, max_epochs=6, validate_every=1, monitor="score")
optimizer = build_optimizer(TrainingConfig(**settings), [weight])
weight.sum().backward()
torch.nn.utils.clip_grad_norm_([weight], 5.0)
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
assert not {"torch._dynamo", "torch._inductor.config"} & {*sys.modules}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
