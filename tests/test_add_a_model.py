"""The page on adding a model: its files, unchanged, in a folder of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tutorial import Page

TINY = [
    "hardware=cpu", "model.heads=2", "model.head_size=4", "training.max_steps=3",
    "decoding.max_length=6", "decoding.beam_size=2", "task.stored_examples=2",
]  # fmt: skip
COMPARE = """
import torch
from repro.config.compose import compose_run
from repro.data.vocabulary import SPECIALS, Vocabulary
from repro.decoding import forced
from repro.tasks import seq2seq

words = Vocabulary([*SPECIALS, *"abcdefgh"])
torch.manual_seed(0)
sizes = ["model.heads=3", "model.head_size=4", "mapping=learned_alpha_entmax"]
config = compose_run(["task=nmt", "model=transformer", "loss=sparsemax", *sizes])
task = seq2seq.Seq2SeqTask(config, words, words, {}, torch.device("cpu"))
source = torch.tensor([[4, 9, 6, 7], [5, 4, 0, 0]])
target = torch.tensor([[7, 8, 11, 3], [10, 3, 0, 0]])
lengths, real = torch.tensor([4, 2]), (target != 0).unsqueeze(2)
model = task.model.eval()
whole = model(source, lengths, target)
steps = forced(model, source, lengths, target)
torch.testing.assert_close(task.output_mapping(whole.scores).where(real, 0), steps.probs)
torch.testing.assert_close(whole.attention.where(real, 0), steps.attention)
assert whole.attention_scores.shape == whole.attention.shape
assert not steps.attention[1, :, 2:].any()
alone = model(source[1:, :2], lengths[1:], target[1:])
torch.testing.assert_close(alone.scores, whole.scores[1:])
model(source, lengths, target).scores.square().sum().backward()
names = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.any()]
print(names, {tuple(one.shape) for name, one in model.named_parameters() if "logit" in name})
"""


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page("add-a-model.md", tmp_path, *TINY)


def test_a_model_is_three_files(page):
    assert len(page.files) == 3


def test_steps_one_by_one_are_those_of_the_whole_target(page):
    command, variables = [sys.executable, "-c", COMPARE], os.environ | page.environment
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert done.stdout == "[] {(3, 1, 1)}\n", done.stderr


def test_its_commands_run(page, tmp_path):
    for command in page.commands:
        page.succeed(*command)
    assert [one.status for one in page.runs()] == ["done"] * 3
    (translated,) = (one for one in page.runs() if "test/bleu" in one.read_record().metrics)
    assert "dev/attention_spread" in translated.read_record().metrics
    rows = translated.read_attention()
    assert rows
    for row in rows:
        for line in row["weights"]:
            assert len(line) == len(row["source"])
            assert sum(line) == pytest.approx(1, abs=1e-4)
    assert (tmp_path / "heads.svg").read_text(encoding="utf-8").startswith("<svg")


def test_what_does_not_fit_is_refused(page):
    run, page.tiny = ("run", "task=nmt", "model=transformer"), ()
    assert "model.heads is 0" in page.refuse(*run, "model.heads=0")
    assert "does not fit task=snli" in page.refuse(
        "run", "task=snli", "model=transformer", "scale=full"
    )
    bounded = (*run, "mapping=csparsemax", "--dry-run")
    assert "mapping=csparsemax needs model.fertility" in page.refuse(*bounded)
    page.write("repro/models/again.py", "MODELS = {'seq2seq': None}\n")
    assert "'seq2seq' is declared twice" in page.run(*run).stderr
