from pathlib import Path

import pytest
import torch
from executed import composer, executed
from figure_runs import runs_in
from predicted import own_examples, predicted
from stored_statistics import assert_sums_give_the_records

from repro.config.compose import compose_run
from repro.config.experiment import load_experiment
from repro.config.planning import plan_runs
from repro.data.nli import LABELS
from repro.data.vocabulary import Vocabulary
from repro.errors import DataError
from repro.evaluation.metrics import score_outputs
from repro.evaluation.metrics.labels import Labels
from repro.report.figures import figure_kind
from repro.results import OWN_SPLIT
from repro.results.files import read_rows
from repro.runs.job import locate
from repro.tasks.entailment import encode_corpus, vectors_of
from repro.tasks.pair_corpora import identify
from repro.tasks.snli.task import SnliTask
from repro.training.seeding import seed_everything

CPU = torch.device("cpu")
config = composer(
    "task=snli", "hardware=cpu", "hardware.parallel_runs=1", "model.vector_size=6",
    "model.hidden_size=6", "data.train_premises=40", "task.stored_examples=5",
    "training.max_epochs=2", "training.batch_size=32",
)  # fmt: skip


@pytest.fixture
def task(root: Path) -> SnliTask:
    seed_everything(1)
    return SnliTask(config(root), CPU)


def test_the_loss_of_a_batch_is_the_mean_of_its_pairs_alone(task):
    task.model.eval()
    batch = task.batches(0)[0]
    loss, labels = task.loss(batch)
    collate = task.data.train.collate
    alone = [task.loss(collate([i]))[0] for i in batch.indices.tolist()]
    torch.testing.assert_close(loss, torch.stack(alone).mean())
    assert int(labels) == len(batch)
    assert task.tally["pairs_per_second"] == 2 * len(batch)
    logits = task.read_batch(batch).logits
    expected = torch.nn.functional.cross_entropy(logits, batch.labels)
    torch.testing.assert_close(loss, expected)


def test_weights_are_counted_over_real_words(root):
    seed_everything(1)
    task = SnliTask(config(root, "mapping=sparsemax"), CPU)
    task.model.eval()
    with torch.no_grad():
        found = task.predict_split(task.data.dev)
        rows = task.weight_rows(task.data.dev, task.stored_pairs())
        everything = [
            weight
            for place in range(len(task.data.dev.examples))
            for weight in task.read_batch(task.data.dev.collate([place])).attention[0].tolist()
        ]
    assert found.nonzeros == 100 * sum(w != 0 for w in everything) / len(everything)
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4]
    for row in rows:
        example = task.data.dev.examples[row["index"]]
        assert tuple(row["premise"]) == example.premise
        assert len(row["weights"]) == len(example.premise)
        assert sum(row["weights"]) == pytest.approx(1, abs=1e-6)
        assert row["predicted"] == found.labels.predicted[row["index"]]


def test_hypotheses_of_the_paper_are_kept_wherever_they_stand(root, task):
    last = task.data.dev.examples[-1]
    said = " ".join(last.hypothesis).upper()
    wanted = SnliTask(config(root, "task.stored_examples=2", f'task.shown=["{said}"]'), CPU)
    indices = wanted.stored_pairs()
    assert indices[:2] == [0, 1]
    assert indices[-1] == len(task.data.dev.examples) - 1


def test_a_run_leaves_predictions_weights_and_records(root):
    folder = executed(config(root, "mapping=fusedmax"))
    data = encode_corpus(config(root))
    for name, split in (("dev", data.dev), ("test", data.test)):
        rows = read_rows(folder.predictions / f"{name}.jsonl")
        labels = {row["id"]: row["label"] for row in rows}
        outputs = [labels[example.pair_id] for example in split.examples]
        gold = [LABELS[example.label] for example in split.examples]
        counted = score_outputs(name, Labels(gold, outputs)).values
        assert {f"{name}/label_accuracy", f"{name}/label_recall/neutral"} <= counted.keys()
        assert counted.items() <= folder.read_record().metrics.items()
    assert 0 < folder.read_record().metrics["test/premise_nonzeros"] <= 100
    assert_sums_give_the_records(folder)
    (path,) = (root / "demo").rglob("*_test.jsonl")
    found = predicted(folder.path, path.read_text("utf-8").splitlines())
    stored = {row["id"]: row["label"] for row in read_rows(folder.predictions / "test.jsonl")}
    labels = [one.output for one, row in zip(found, read_rows(path), strict=True)
              if row["pairID"] in stored]  # fmt: skip
    assert labels == [*stored.values()]
    rows = folder.read_attention()
    parts = [(row["premise"], row["hypothesis"], row["gold"]) for row in rows]
    own = own_examples(
        folder.path, root / "own.tsv",
        [f"{' '.join(premise)}\t{' '.join(said)}" for premise, said, _ in parts],
        [gold for *_, gold in parts],
    ).read_attention()  # fmt: skip
    for row, one in zip(rows, own, strict=True):
        assert one | {"weights": []} == row | {
            "weights": [], "split": OWN_SPLIT, "pair": one["pair"], "index": one["index"],
        }  # fmt: skip
        assert one["weights"] == pytest.approx(row["weights"], abs=1e-6)
    pairs = ["premise\tid\thypothesis", "Two dogs don't run.\t7\tDogs rest."]
    (one,) = predicted(folder.path, pairs, weights=True)
    assert one.attention.columns == ("Two", "dogs", "do", "n't", "run", ".")
    assert one.attention.weights.sum() == pytest.approx(1)
    assert sum(one.probabilities.values()) == pytest.approx(1)
    assert max(one.probabilities, key=one.probabilities.__getitem__) == one.output
    assert one.line.split("\t")[0] == one.output
    with pytest.raises(DataError, match=r"input\.txt:2: expected 2 columns, found 1"):
        predicted(folder.path, ["a\tb", "a"])
    signatures = folder.read_record().signatures
    assert "label:neutral" in signatures["dev/label_recall/neutral"]
    kind = figure_kind("premise_attention")
    assert kind.describe(kind.gather(runs_in(fusedmax=folder)))


def test_the_demo_learns_more_than_chance(tmp_path):
    run = compose_run(
        ["task=snli", f"results_dir={tmp_path}", "data.train_premises=600", "training.max_epochs=4"]
    )
    folder = executed(run)
    assert folder.read_record().metrics["test/label_accuracy"] > 45


def test_tables_and_figures_share_their_runs(tmp_path):
    few = ["data.train_premises=16", f"results_dir={tmp_path}"]

    def runs(artefact: str) -> set[str]:
        planned = plan_runs(load_experiment(f"niculae2017/{artefact}"), "demo")
        return {locate(compose_run([*run.overrides, *few])).folder.run_id for run in planned}

    tuned, timed = runs("table1"), runs("table3")
    assert runs("figure3") == runs("figure6") < tuned  # without the published oscarmax
    assert len(timed) == 5
    assert timed == tuned


def test_corpus_and_vectors_are_part_of_the_identity(tmp_path):
    first = identify(config(tmp_path))
    assert first.name == "demo_nli: snli"
    assert identify(config(tmp_path, "data.source=multinli")).fingerprint != first.fingerprint
    assert identify(config(tmp_path, "data.train_premises=41")).fingerprint != first.fingerprint
    glove = tmp_path / "vectors.txt"
    glove.write_text("dog " + " ".join(["0.5"] * 6) + "\n")
    chosen = ("model.vectors=glove", "data.glove=vectors.txt", f"data_dir={tmp_path}")
    with_vectors = identify(config(tmp_path, *chosen)).fingerprint
    glove.write_text("dog " + " ".join(["0.25"] * 6) + "\n")
    changed = identify(config(tmp_path, *chosen)).fingerprint
    assert len({first.fingerprint, with_vectors, changed}) == 3


def test_vectors_of_a_file_reach_the_model(tmp_path):
    (tmp_path / "vectors.txt").write_text("some 1 2 3 4 5 6\n")
    chosen = ("model.vectors=glove", "data.glove=vectors.txt", "model.trainable_vectors=false")
    task = SnliTask(config(tmp_path, *chosen, f"data_dir={tmp_path}"), CPU)
    row = task.data.vocabulary.encode(["some"])[0]
    assert task.model.embedding.weight[row].tolist() == [1, 2, 3, 4, 5, 6]
    assert not task.model.embedding.weight.requires_grad
    assert task.model.embedding.weight[Vocabulary.PAD].abs().sum() == 0


def test_vectors_of_a_text_depend_on_it_and_are_kept(tmp_path):
    text = tmp_path / "more.txt"
    text.write_text("Some dog halts\nno dog halts\n" * 20)
    chosen = config(tmp_path, "model.vectors=text", "data.text=[more.txt]", f"data_dir={tmp_path}")
    fingerprint, words = identify(chosen).fingerprint, encode_corpus(chosen).vocabulary
    first = vectors_of(chosen, words)
    assert first[words.encode(["some", "dog"])].std().item() > 0
    assert torch.equal(vectors_of(chosen, words), first)
    assert len([*tmp_path.rglob("text-*/*.safetensors")]) == 1
    text.write_text("a dog halts some boy\n" * 40)
    assert identify(chosen).fingerprint != fingerprint
    assert not torch.equal(vectors_of(chosen, words), first)
    text.unlink()
    with pytest.raises(DataError, match=r"more.txt of data.text is missing: .*one sentence a line"):
        identify(chosen)


def test_vectors_without_a_file_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"set data\.glove to .*model\.vectors=random"):
        identify(config(tmp_path, "model.vectors=glove", "data.glove=null"))
    with pytest.raises(DataError, match=r"no\.txt of data\.glove is missing"):
        identify(config(tmp_path, "model.vectors=glove", "data.glove=no.txt"))
