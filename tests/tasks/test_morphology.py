from dataclasses import replace
from pathlib import Path

import pytest
import torch

from repro.config.compose import compose_run
from repro.data.vocabulary import Vocabulary
from repro.decoding import BeamResult, Hypothesis
from repro.losses import FenchelYoungLoss
from repro.mappings import Entmax
from repro.results import run_folder
from repro.tasks.morphology.corpus import encode_corpus, identify
from repro.tasks.morphology.task import MorphologyTask

CPU = torch.device("cpu")


@pytest.fixture
def task(tmp_path: Path) -> MorphologyTask:
    small = ["model.hidden_size=8", "model.embedding_size=6", "decoding.max_length=8"]
    return MorphologyTask(
        compose_run([f"results_dir={tmp_path}", "task.setting=medium", *small]), CPU
    )


def test_the_source_is_language_tags_and_characters(task):
    example, pair = task.data.corpus.train[0], task.data.train[0]
    symbols = task.data.source.decode(pair.source)
    assert symbols[0] == f"<lang:{example.language}>"
    assert [s for s in symbols if s.startswith("<tag:")] == [f"<tag:{t}>" for t in example.tags]
    assert "".join(symbols[1 + len(example.tags) :]) == example.lemma
    assert "".join(task.data.target.decode(pair.target)) == example.form


def test_the_loss_is_the_entmax_loss_per_sentence(task):
    task.model.eval()
    batch = task.batches(0)[0]
    loss, symbols = task.loss(batch)
    scores = task.model(batch.source, batch.source_lengths, batch.target).scores
    expected = 0.0
    for row, target in zip(scores, batch.target, strict=True):
        real = target != Vocabulary.PAD
        criterion = FenchelYoungLoss(Entmax(1.5), reduction="sum")
        expected += float(criterion(row[real], target[real]).detach())
    assert float(loss.detach()) == pytest.approx(expected / len(batch), rel=1e-5)
    assert int(symbols) == sum(len(task.data.train[i].target) + 1 for i in batch.indices.tolist())


def test_validation_loss_is_a_mean_over_all_symbols(task):
    task.model.eval()
    batches = list(task.ordered(task.data.dev))
    statistics = task.teacher_forced(task.data.dev)
    chosen = [[task.data.dev[n] for n in batch.indices.tolist()] for batch in batches]
    halves = [task.teacher_forced(pairs) for pairs in chosen]
    weights = [int((batch.target != Vocabulary.PAD).sum()) for batch in batches]
    mean = sum(h.loss * w for h, w in zip(halves, weights, strict=True)) / sum(weights)
    assert statistics.loss == pytest.approx(mean, rel=1e-5)
    assert 1 <= statistics.output_nonzeros <= len(task.data.target)


def test_the_spread_of_scores_is_their_deviation_over_the_source(task):
    task.model.eval()
    batch = next(iter(task.ordered(task.data.dev[:3])))
    decoder, found = task.model.decoder, list[float]()
    for row in range(len(batch)):
        length = int(batch.source_lengths[row])
        source, target = batch.source[row : row + 1, :length], batch.target[row]
        target = target[target != Vocabulary.PAD]
        state = task.model.start(source, torch.tensor([length]))
        symbols = torch.cat([torch.tensor([Vocabulary.BOS]), target[:-1]])
        for symbol in task.model.embedding(symbols):
            keys = state.source.keys[0]
            *_, state = decoder(state, symbol.view(1, 1, -1))
            scores = keys @ state.hidden[-1][0]
            found.append(float(scores.std(correction=0).detach()))
    spread = task.teacher_forced(task.data.dev[:3]).attention_spread
    assert spread == pytest.approx(sum(found) / len(found), rel=1e-5)


def test_vocabularies_come_from_the_training_data_only(task):
    trained = {symbol for example in task.data.corpus.train for symbol in example.form}
    assert set(task.data.target.tokens[4:]) == trained


def test_certificates_are_averaged_over_languages(task, tmp_path, monkeypatch):
    """One of two languages has a single validation example, the only one that is certified."""
    data = task.data
    chosen = data.corpus.languages[:2]
    first = [n for n, example in enumerate(data.corpus.dev) if example.language == chosen[0]]
    kept = [*first, [example.language for example in data.corpus.dev].index(chosen[1])]
    dev = [data.corpus.dev[n] for n in kept]
    corpus = replace(data.corpus, languages=chosen, dev=dev, test=dev)
    pairs = [data.dev[n] for n in kept]
    task.data = replace(data, corpus=corpus, dev=pairs, test=pairs)

    def search(_model: object, pairs: list[object], *_: object) -> list[BeamResult]:
        """Certify the last example only."""
        hold = [False] * (len(pairs) - 1) + [True]
        found = Hypothesis([Vocabulary.UNK], 0.0, True, [1.0, 1.0])
        return [BeamResult([found], certified=one, optimal=one) for one in hold]

    monkeypatch.setattr(task, "search", search)
    monkeypatch.setattr(task, "store_examples", lambda *_: None)
    scores = task.evaluate_model(task.model, run_folder(tmp_path, "demo", "a" * 12))
    assert [scores[f"dev/{name}"] for name in ("certified", "optimal", "single")] == [50.0] * 3
    assert scores["dev/certified_printed"] == 100.0


def test_languages_are_part_of_the_corpus(tmp_path):
    base = [f"results_dir={tmp_path}"]
    every = compose_run(base)
    names = encode_corpus(every).corpus.languages
    one = compose_run([*base, f"task.languages=[{names[0]}]"])
    assert identify(one).fingerprint != identify(every).fingerprint
    assert {example.language for example in encode_corpus(one).corpus.test} == {names[0]}


def test_lemmas_to_show_are_stored_from_any_split(tmp_path):
    base = [f"results_dir={tmp_path}", "task.setting=medium", "task.stored_examples=1"]
    base += ["model.hidden_size=8", "model.embedding_size=6", "decoding.max_length=8"]
    corpus = encode_corpus(compose_run(base)).corpus
    wanted, other = corpus.train[5], corpus.test[2]
    listed = f"task.shown=['{wanted.lemma} {wanted.form}','{other.lemma.upper()}',unheard]"
    task = MorphologyTask(compose_run([*base, listed]), CPU)
    found = task.shown
    first, rest = found[: len(corpus.languages)], found[len(corpus.languages) :]
    assert {example.split for example in first} == {"dev"}
    assert ("train", 5) in {(example.split, example.index) for example in rest}
    assert ("test", 2) in {(example.split, example.index) for example in rest}
    for example in rest:
        inflection = example.inflection
        assert inflection == getattr(corpus, example.split)[example.index]
        same = (inflection.lemma, inflection.form) == (wanted.lemma, wanted.form)
        assert same or inflection.lemma.lower() == other.lemma.lower()
    assert not {("dev", e.index) for e in first} & {(e.split, e.index) for e in rest}
