"""Stored examples of tasks from text to text, against the model read in another way."""

from dataclasses import replace

import pytest
import torch
from executed import executed
from stored_statistics import untimed

from repro.config.compose import compose_run
from repro.data.batching import collate
from repro.data.parallel import read_pairs
from repro.data.vocabulary import Vocabulary
from repro.report.figures.forced_decoding import steps_of
from repro.tasks.nmt.task import NmtTask
from repro.tasks.text_pairs import ALTERNATIVES, forced_rows, stored_examples
from repro.training.seeding import seed_everything

SMALL = [
    "task=nmt", "hardware=cpu", "model.embedding_size=8", "model.hidden_size=8",
    "model.fertility.epochs=1",
]  # fmt: skip


@pytest.mark.parametrize(("alpha", "scale"), [(1.5, 400), (1, 1)])
def test_forced_decoding_is_what_teacher_forcing_says(alpha, scale, tmp_path):
    seed_everything(1)
    config = compose_run([*SMALL, f"loss.alpha={alpha}", f"results_dir={tmp_path}"])
    task = NmtTask(config, torch.device("cpu"))
    task.model.scores.weight.data *= scale  # far from uniform, so that the support is small
    task.model.eval()
    examples = stored_examples(task.data, 3, [])
    pairs = [example.pair for example in examples]
    assert pairs == [task.data.splits["dev"][number] for number in range(3)]
    rows = forced_rows(task.model, task.data, examples, torch.device("cpu"))
    batch = collate(pairs, [0, 1, 2])
    with torch.no_grad():
        scores = task.model(batch.source, batch.source_lengths, batch.target).scores
    probs = task.output_mapping(scores)
    tokens = task.data.target.tokens
    for row, pair, steps in zip(rows, pairs, probs, strict=True):
        target = [*pair.target, Vocabulary.EOS]
        assert row["target"] == [tokens[number] for number in target]
        assert row["source"] == [task.data.source.tokens[number] for number in pair.source]
        for found, wanted, number in zip(row["steps"], steps[: len(target)], target, strict=True):
            assert found["probability"] == pytest.approx(float(wanted[number]), abs=1e-4)
            assert found["support"] == pytest.approx(int((wanted > 0).sum()), abs=1)
            shares = [share for _, share in found["alternatives"]]
            assert shares == sorted(shares, reverse=True)
            assert len(shares) == min(found["support"], ALTERNATIVES)
            for token, share in found["alternatives"]:
                assert share == pytest.approx(float(wanted[tokens.index(token)]), abs=1e-4)
        assert [step.target for step in steps_of(row)] == row["target"]
    supports = {step["support"] for row in rows for step in row["steps"]}
    assert (max(supports) < len(tokens)) == (alpha > 1)


def test_two_spellings_of_a_sentence_to_show_store_one_pair(tmp_path):
    data = NmtTask(compose_run([*SMALL, f"results_dir={tmp_path}"]), torch.device("cpu")).data
    sentence, _ = next(read_pairs(data.texts["dev"]))
    twice = replace(data, splits={**data.splits, "train": data.splits["dev"]})
    (found,) = stored_examples(twice, 0, [sentence, sentence.upper()])
    assert (found.split, found.index) == ("dev", 0)


def test_sentences_to_show_are_stored_from_any_split_and_change_no_metric(tmp_path):
    settings = [*SMALL, "task.stored_examples=2", "training.max_steps=2", "decoding.max_length=10"]
    plain = executed(compose_run([*settings, f"results_dir={tmp_path}"]))
    data = NmtTask(compose_run([*settings, f"results_dir={tmp_path}"]), torch.device("cpu")).data
    texts = {split: list(read_pairs(data.texts[split])) for split in ("dev", "test", "train")}
    wanted = [
        texts["dev"][1][0],
        texts["dev"][9][0].upper(),
        texts["test"][4][1].replace(" ", " - "),
        texts["train"][7][0] + " .",
        "no such sentence",
    ]
    listed = ",".join(f"'{text}'" for text in wanted)
    other = tmp_path / "other"  # the two have one identity
    folder = executed(compose_run([*settings, f"task.shown=[{listed}]", f"results_dir={other}"]))
    places = [("dev", 0), ("dev", 1), ("dev", 9), ("test", 4), ("train", 7)]
    for rows in (folder.read_attention(), folder.read_forced()):
        assert [(row["split"], row["index"]) for row in rows] == places
    for row, (split, index) in zip(folder.read_attention(), places, strict=True):
        assert (" ".join(row["source"]), row["gold"]) == texts[split][index]
    assert untimed(folder.read_record()) == untimed(plain.read_record())
