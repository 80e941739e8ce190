"""Fertilities of the demo corpus: links, bounds of each strategy, and the tagger's training."""

from pathlib import Path

import pytest
import torch
from executed import composer, executed

from repro.config.schema.seq2seq import FertilityConfig, TranslatorConfig
from repro.data.alignment.links import fertilities
from repro.data.alignment.model import train_two_way
from repro.data.preparation import PreparedCorpus
from repro.models.seq2seq.fertility import AlignedFertility, PredictedFertility
from repro.tasks.fertility import (
    AlignedCorpus,
    align_splits,
    fertility_f1,
    new_tagger,
    train_tagger,
)
from repro.tasks.nmt import parallel_corpus
from repro.tasks.nmt.task import NmtTask
from repro.tasks.text_pairs import TextPairsTask, prepare_text
from repro.training.seeding import seed_everything

CPU = torch.device("cpu")
config = composer(
    "task=nmt", "hardware=cpu", "mapping=csparsemax", "loss=cross_entropy", "training.max_steps=2",
    "model.embedding_size=8", "model.hidden_size=8", "model.fertility.epochs=1",
    "task.stored_examples=2", "decoding.max_length=12", "decoding.beam_size=2",
)  # fmt: skip


def made(root: Path, *overrides: str) -> TextPairsTask:
    seed_everything(1)
    return NmtTask(config(root, *(f"model.fertility.{one}" for one in overrides)), CPU)


@pytest.fixture(scope="module")
def text(root: Path) -> PreparedCorpus:
    run = config(root)
    return prepare_text(run, parallel_corpus(run))


def settings(root: Path, *overrides: str) -> FertilityConfig:
    model = config(root, *(f"model.fertility.{one}" for one in overrides)).model
    assert isinstance(model, TranslatorConfig)
    return model.fertility


def aligned(root: Path, text: PreparedCorpus, *overrides: str) -> AlignedCorpus:
    (sink,) = text.source.encode(["<SINK>"])
    return align_splits(settings(root, *overrides), text, sink)


def test_links_are_those_of_the_aligner(root, text):
    def words(split: str) -> list[tuple[list[str], list[str]]]:
        pairs = text.splits[split]
        return [([*map(str, p.source[:-1])], [*map(str, p.target)]) for p in pairs]

    aligner = train_two_way(words("train"))
    forward = aligned(root, text)
    both = aligned(root, text, "links=grow-diag-final-and")
    assert list(forward.links["train"]) == [*aligner.align(words("train"), symmetric=False)]
    assert list(both.links["train"]) == [*aligner.align(words("train"))]
    assert list(forward.links["train"]) != list(both.links["train"])
    new = aligner.pruned().align(words("test"), symmetric=False)
    assert list(forward.links["test"]) == [*new]


def test_actual_fertilities_bound_training_and_test_data(root, text):
    fertility = made(root, "strategy=actual", "margin=0.5").model.eval().fertility
    assert isinstance(fertility, AlignedFertility)
    corpus = aligned(root, text)
    for split in ("train", "dev", "test"):
        pair, links = text.splits[split][0], corpus.links[split][0]
        source = torch.tensor([pair.source])
        least = [max(1, n) + 0.5 for n in fertilities(links, len(pair.source) - 1)]
        found = fertility(source, torch.tensor([len(pair.source)]))[0].tolist()
        assert all(
            bound >= wanted for bound, wanted in zip(found, [*least, torch.inf], strict=True)
        )
        same = [p.source for p in text.splits[split]].count(pair.source) == 1
        assert found == [*least, torch.inf] or not same


def test_a_run_with_actual_fertilities_finishes(tmp_path):
    folder = executed(config(tmp_path, "model.fertility.strategy=actual"))
    assert "test/bleu" in folder.read_record().metrics


def test_predicted_bounds_are_aligned_in_training_where_asked(root):
    for reading in ("aligned", "expected"):
        task = made(root, f"training_bounds={reading}", "margin=1")
        fertility = task.model.fertility
        assert isinstance(fertility, PredictedFertility)
        batch = task.batches(0)[0]
        training = task.model.train().fertility(batch.source, batch.source_lengths)  # type: ignore[misc]
        testing = task.model.eval().fertility(batch.source, batch.source_lengths)  # type: ignore[misc]
        known = batch.fertility
        assert (known is not None) == (reading == "aligned")
        if known is not None:  # looked up where the batch was made
            assert torch.equal(task.model.train().fertility(batch.source, None, known), training)  # type: ignore[misc]
        real = batch.source_mask & training.isfinite()
        whole = training[real] == training[real].round()
        assert whole.all() == (reading == "aligned")
        assert torch.equal(training[real], testing[real]) == (reading == "expected")
        assert training[real].min() >= 2


def test_a_tagger_is_trained_without_touching_the_random_state(root, text):
    chosen = settings(root, "layers=2", "dropout=0.5")
    corpus = aligned(root, text)
    seed_everything(3)
    before = torch.get_rng_state()
    trained = []
    for _ in range(2):
        tagger = new_tagger(chosen, len(text.source), 1)
        train_tagger(tagger, chosen, corpus, 1)
        trained.append(tagger.state_dict())
    assert torch.equal(torch.get_rng_state(), before)
    for name, tensor in trained[0].items():
        torch.testing.assert_close(trained[1][name], tensor, rtol=0, atol=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_training_of_a_tagger_does_not_wait_for_the_device(root, text, monkeypatch):
    corpus, chosen = aligned(root, text), settings(root)
    tagger = new_tagger(chosen, len(text.source), 1).to("cuda")
    monkeypatch.setattr("repro.tasks.fertility.fertility_f1", lambda *_: 0.0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        train_tagger(tagger, chosen, corpus, 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_the_weights_of_the_best_epoch_are_kept(root, text, monkeypatch):
    corpus, chosen = aligned(root, text), settings(root, "epochs=3")
    seen = []
    quality = iter((0.2, 0.7, 0.5))

    def judged(tagger: torch.nn.Module, *_: object) -> float:
        seen.append({name: tensor.clone() for name, tensor in tagger.state_dict().items()})
        return next(quality)

    monkeypatch.setattr("repro.tasks.fertility.fertility_f1", judged)
    tagger = new_tagger(chosen, len(text.source), 1)
    train_tagger(tagger, chosen, corpus, 1)
    for name, tensor in tagger.state_dict().items():
        assert torch.equal(tensor, seen[1][name])
    assert not torch.equal(seen[1]["scores.weight"], seen[2]["scores.weight"])


def test_f1_leaves_out_the_least_fertility(root, text):
    corpus, chosen = aligned(root, text), settings(root)
    tagger = new_tagger(chosen, len(text.source), 1)
    torch.nn.init.zeros_(tagger.scores.weight)
    shares = []
    for favourite in (0, 1):
        with torch.no_grad():
            tagger.scores.bias.zero_()[favourite] = 1.0
        shares.append(fertility_f1(tagger, chosen, corpus, "dev"))
    counts = [count for _, one in corpus.fertilities("dev", least=1) for count in one]
    twos, more = counts.count(2), sum(count > 1 for count in counts)
    assert shares == [0.0, pytest.approx(2 * twos / (len(counts) + more))]


def test_a_small_weight_of_the_first_class_raises_the_expectation(root, text):
    corpus, means = aligned(root, text), []
    source = torch.tensor([text.splits["dev"][0].source])
    for weight in (0.01, 1.0):
        chosen = settings(root, f"first_class_weight={weight}", "epochs=2")
        tagger = new_tagger(chosen, len(text.source), 1)
        train_tagger(tagger, chosen, corpus, 1)
        means.append(tagger.expected(source, torch.tensor([source.shape[1]])).mean().item())
    assert means[0] > means[1] >= 1
