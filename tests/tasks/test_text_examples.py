"""Stored examples of tasks from text to text, against the model read in another way."""

from pathlib import Path

import pytest
import torch

from repro.config.compose import compose_run
from repro.data.batching import collate
from repro.data.vocabulary import Vocabulary
from repro.report.forced_steps import forced_example
from repro.tasks.nmt.task import build
from repro.tasks.text_examples import ALTERNATIVES, forced_rows
from repro.training.seeding import seed_everything

SMALL = [
    "task=nmt", "hardware=cpu", "model.embedding_size=8", "model.hidden_size=8",
    "model.fertility.epochs=1",
]  # fmt: skip


@pytest.mark.parametrize(("alpha", "scale"), [(1.5, 400), (1, 1)])
def test_forced_decoding_is_what_teacher_forcing_says(
    alpha: float, scale: float, tmp_path: Path
) -> None:
    seed_everything(1)
    config = compose_run([*SMALL, f"loss.alpha={alpha}", f"results_dir={tmp_path}"])
    task = build(config, torch.device("cpu"))
    task.model.scores.weight.data *= scale  # far from uniform, so that the support is small
    task.model.eval()
    pairs = [task.data.splits["dev"][number] for number in range(3)]
    rows = forced_rows(task.model, task.data, pairs, torch.device("cpu"))
    batch = collate(pairs, [0, 1, 2])
    with torch.no_grad():
        scores = task.model(batch.source, batch.source_lengths, batch.target).scores
    probs = task.training.output_mapping(scores)
    tokens = task.data.target.tokens
    for row, pair, steps in zip(rows, pairs, probs, strict=True):
        target = [*pair.target, Vocabulary.EOS]
        assert row["target"] == [tokens[number] for number in target]
        assert row["source"] == [task.data.source.tokens[number] for number in pair.source]
        for found, wanted, number in zip(row["steps"], steps, target, strict=False):
            assert found["probability"] == pytest.approx(float(wanted[number]), abs=1e-4)
            assert found["support"] == pytest.approx(int((wanted > 0).sum()), abs=1)
            shares = [share for _, share in found["alternatives"]]
            assert shares == sorted(shares, reverse=True)
            assert len(shares) == min(found["support"], ALTERNATIVES)
            for token, share in found["alternatives"]:
                assert share == pytest.approx(float(wanted[tokens.index(token)]), abs=1e-4)
        assert forced_example(row).index == row["index"]
    supports = {step["support"] for row in rows for step in row["steps"]}
    assert (max(supports) < len(tokens)) == (alpha > 1)
