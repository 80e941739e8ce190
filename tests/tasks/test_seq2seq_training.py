"""Shared training of tasks on source-target pairs."""

import pytest
import torch

from repro.config.compose import compose_run
from repro.data.pair import Pair
from repro.data.vocabulary import SPECIALS, Vocabulary
from repro.tasks import seq2seq
from repro.tasks.seq2seq import Seq2SeqTask

WORDS = Vocabulary([*SPECIALS, *(f"w{i}" for i in range(30))])
PAIRS = [Pair([4, 9, 6], [7, 8]), Pair([5, 4], [30, 11, 29, 12]), Pair([7], [14])]


def training(*overrides: str) -> Seq2SeqTask:
    torch.manual_seed(0)
    sizes = ("model.embedding_size=6", "model.hidden_size=8", "model.layers=1", "model.dropout=0")
    config = compose_run(["task=nmt", "scale=demo", *sizes, *overrides])
    return Seq2SeqTask(config, WORDS, WORDS, {}, torch.device("cpu"))


@pytest.mark.parametrize("loss", ["loss.alpha=1.5", "loss.alpha=2", "loss=sparsemax"])
def test_a_large_vocabulary_has_the_same_loss_and_gradients(monkeypatch, loss):
    plain = training(loss)
    monkeypatch.setattr(seq2seq, "LARGE_VOCABULARY", len(WORDS))
    large = training(loss)
    assert plain.linear_loss is None
    assert large.linear_loss is not None
    batch = plain.ordered(PAIRS)[0]
    losses = [one.loss(batch)[0] for one in (plain, large)]
    torch.testing.assert_close(losses[1], losses[0])
    for one in losses:
        one.backward()
    pairs = zip(plain.model.parameters(), large.model.parameters(), strict=True)
    for first, second in pairs:
        torch.testing.assert_close(second.grad, first.grad)


@pytest.mark.parametrize("loss", ["loss.alpha=1", "loss=cross_entropy"])
def test_softmax_keeps_its_scores(monkeypatch, loss):
    monkeypatch.setattr(seq2seq, "LARGE_VOCABULARY", 1)
    assert training(loss).linear_loss is None


def test_padding_counts_in_no_statistic_of_teacher_forcing():
    task = training("mapping=softmax", "loss.alpha=1.5")
    task.model.eval()
    with torch.no_grad():
        whole = vars(task.teacher_forced(PAIRS))
        alone = [vars(task.teacher_forced([pair])) for pair in PAIRS]
    symbols = [len(pair.target) + 1 for pair in PAIRS]
    for name, value in whole.items():
        parts = (number * one[name] for number, one in zip(symbols, alone, strict=True))
        assert value == pytest.approx(sum(parts) / sum(symbols), rel=1e-5), name
