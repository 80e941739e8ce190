import json
from collections import Counter

import nli_models
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from repro.data.corpora.inference import MULTINLI, SNLI
from repro.data.demo.nli import PREMISES, demo_records, write_demo_nli
from repro.data.nli import LABELS, NliExample, NliReading, load_nli, punctuation_words

READING = NliReading(lowercase=True, check_size=False)
FEW = {"train": 60, "dev": 20, "test": 20, "dev_matched": 20}
Records = dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module", params=[SNLI, MULTINLI], ids=lambda source: source.name)
def records(request: pytest.FixtureRequest) -> Records:
    return demo_records(request.param, seed=2017)


@pytest.mark.parametrize(
    ("premise", "hypothesis", "label"),
    [
        ("Every dog moves.", "Some poodle moves.", "entailment"),
        ("Every dog moves.", "Some animal moves.", "entailment"),
        ("Every dog moves.", "Every animal moves.", "neutral"),
        ("Most dogs move.", "Most animals move.", "neutral"),
        ("Most dogs race.", "Most dogs halt.", "contradiction"),
        ("Three dogs race.", "Two animals move.", "entailment"),
        ("Two dogs race.", "Three dogs race.", "neutral"),
        ("No dog moves.", "Not every poodle races.", "entailment"),
        ("Some dog does not move.", "Every dog races quietly.", "contradiction"),
        ("Every small dog races.", "No big dog races.", "neutral"),
        ("Two cars stall and no kid waits.", "No boy waits and two vehicles halt.", "entailment"),
        ("Two cars stall.", "No kid waits.", "neutral"),
    ],
)
def test_the_oracle_on_pairs_judged_by_hand(premise, hypothesis, label):
    assert nli_models.label(premise, hypothesis) == label


def test_labels_hold_in_all_models(records):
    train = records["train"]
    for record in train[:: len(train) // 300]:
        found = nli_models.label(record["sentence1"], record["sentence2"])
        assert found == record["gold_label"], record


def test_labels_are_balanced_and_pairs_stand_once(records):
    pairs = []
    for part, rows in records.items():
        counted = Counter(record["gold_label"] for record in rows)
        assert counted == dict.fromkeys(LABELS, PREMISES[part])
        pairs += [(record["sentence1"], record["sentence2"]) for record in rows]
        assert len({record["pairID"] for record in rows}) == len(rows)
    assert len(set(pairs)) == len(pairs)


def test_a_bag_of_words_stays_far_below_the_rules(records):
    train, held_out = examples(records["train"]), examples(records[[*records][-1]])
    words = sorted({word for example in train for word in example.premise + example.hypothesis})
    weights = fitted(counts(train, words), labels(train))
    predicted = (counts(held_out, words) @ weights).argmax(1)
    accuracy = (predicted == labels(held_out)).float().mean().item()
    assert 0.34 < accuracy < 0.6


def examples(rows: list[dict[str, str]]) -> list[NliExample]:
    return [
        NliExample(
            row["pairID"],
            tuple(punctuation_words(row["sentence1"].lower())),
            tuple(punctuation_words(row["sentence2"].lower())),
            LABELS.index(row["gold_label"]),
        )
        for row in rows
    ]


def test_the_readers_take_it(tmp_path):
    write_demo_nli(tmp_path, premises=FEW)
    snli, multinli = load_nli(SNLI, tmp_path, READING), load_nli(MULTINLI, tmp_path, READING)
    assert len(snli.train) == len(multinli.train) == 3 * FEW["train"]
    assert len(multinli.dev) == len(multinli.test)
    path = tmp_path / "snli_1.0" / "snli_1.0_dev.jsonl"
    record = json.loads(path.read_text().splitlines()[0])
    assert [*snli.dev[0].premise] == record["sentence1"].lower().replace(".", " .").split()


def counts(examples: list[NliExample], words: list[str]) -> Tensor:
    """Count each word in the premise, and in the hypothesis."""
    table = torch.zeros(len(examples), 2 * len(words))
    index = {word: place for place, word in enumerate(words)}
    for row, example in zip(table, examples, strict=True):
        for word in example.premise:
            row[index[word]] += 1
        for word in example.hypothesis:
            row[len(words) + index[word]] += 1
    return table


def labels(examples: list[NliExample]) -> Tensor:
    return torch.tensor([example.label for example in examples])


def fitted(features: Tensor, gold: Tensor) -> Tensor:
    """Weights of a logistic regression."""
    weights = torch.zeros(features.shape[1], len(LABELS), requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=60)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = cross_entropy(features @ weights, gold) + 1e-4 * weights.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return weights.detach()
