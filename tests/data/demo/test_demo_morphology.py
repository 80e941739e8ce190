from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest

from repro.data.demo import morphology
from repro.data.demo.morphology import (
    BACK,
    DEMO_LANGUAGES,
    FREQUENT,
    FRONT,
    SONORANTS,
    demo_rows,
    write_demo_corpus,
)
from repro.data.sigmorphon import Inflection, SigmorphonCorpus, load

FINGERPRINT = "ca5e896f28c158295876d565f58e393b4798ddb2bd50e59d93e8f5adab85b503"


def drovan_pasts(lemma: str) -> set[str]:
    """Every possible past of a verb of drovan: two after a sonorant, else one."""
    return {lemma + "ed", lemma + "t"} if lemma.endswith(SONORANTS) else {lemma + "ed"}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_demo_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def high(data_dir: Path) -> SigmorphonCorpus:
    return load(data_dir, "high")


def of_language(corpus: SigmorphonCorpus, language: str) -> list[Inflection]:
    examples = corpus.train + corpus.dev + corpus.test
    return [example for example in examples if example.language == language]


def form_of(language: str, lemma: str, tags: str, seed: int = 0) -> str:
    """The form of one lemma, found by drawing paradigms until it comes up."""
    random, draw = Random(seed), DEMO_LANGUAGES[language]
    for paradigm in FREQUENT.get(language, ()):
        if paradigm.lemma == lemma:
            return paradigm.forms[tags]
    for _ in range(100_000):
        paradigm = draw(random)
        if paradigm.lemma == lemma:
            return paradigm.forms[tags]
    raise AssertionError(f"{language} never draws {lemma}")


def test_reader_reads_the_written_sizes(data_dir, high):
    assert load(data_dir, "high").languages == sorted(DEMO_LANGUAGES)
    assert load(data_dir, "medium").languages == sorted(DEMO_LANGUAGES)
    assert Counter(example.language for example in high.train) == dict.fromkeys(
        DEMO_LANGUAGES, morphology.TRAIN_HIGH
    )
    assert (len(high.dev), len(high.test)) == (5 * morphology.DEV, 5 * morphology.TEST)
    assert len(load(data_dir, "medium").train) == 5 * morphology.TRAIN_MEDIUM


def test_corpus_is_the_same_on_every_machine(data_dir, high):
    assert high.fingerprint == FINGERPRINT
    assert len([*(data_dir / "conll2018" / "task1" / "all").iterdir()]) == 20


@pytest.mark.parametrize("name", sorted(DEMO_LANGUAGES))
def test_splits_share_no_lemma_and_tags(name):
    rows = demo_rows(name, seed=3)
    cells = {part: {(lemma, tags) for lemma, _, tags in rows[part]} for part in rows}
    parts = ("train-high", "dev", "test")
    assert sum(len(cells[part]) for part in parts) == len(set().union(*(cells[p] for p in parts)))
    assert all(len(cells[part]) == len(rows[part]) for part in rows)
    assert rows["train-medium"] == rows["train-high"][: morphology.TRAIN_MEDIUM]


@pytest.mark.parametrize("name", sorted(DEMO_LANGUAGES))
def test_paradigms_are_small_and_forms_short(high, name):
    examples = of_language(high, name)
    assert 4 <= len({example.tags for example in examples}) <= 8
    assert len({letter for e in examples for letter in e.lemma + e.form}) <= 22
    assert all(2 <= len(e.lemma) <= 7 and len(e.form) <= 13 for e in examples)


def test_sulmari_words_have_vowels_of_one_kind(high):
    for example in of_language(high, "sulmari"):
        letters = set(example.form)
        assert not (letters & set(BACK) and letters & set(FRONT))


@pytest.mark.parametrize(
    ("language", "lemma", "tags", "form"),
    [
        ("sulmari", "kato", "N;GEN;SG", "katonun"),
        ("sulmari", "kätö", "N;IN+ESS;PL", "kätölärdä"),
        ("tomelu", "tala", "V;PRS;1;SG", "nitala"),
        ("tomelu", "ola", "V;PRS;1;SG", "nola"),
        ("tomelu", "tala", "V;PRS;3;SG;NEG", "siwatale"),
        ("haldri", "rotta", "N;GEN;SG", "rotan"),
        ("haldri", "rotta", "N;ESS;SG", "rottana"),
        ("haldri", "rotta", "N;NOM;PL", "rötät"),
        ("haldri", "mapo", "N;ESS;PL", "mäpöina"),
        ("velisk", "kadar", "V;PST;1;SG", "kakadi"),
        ("velisk", "kadir", "V;PRS;3;SG", "kade"),
        ("velisk", "esar", "V;PST;3;SG", "fuit"),
        ("drovan", "grind", "V;PST", "grinded"),
    ],
)
def test_rules(language, lemma, tags, form):
    assert form_of(language, lemma, tags) == form


def test_drovan_past_is_one_of_its_plausible_forms(high):
    pasts = [e for e in of_language(high, "drovan") if e.tags == ("V", "PST")]
    assert all(example.form in drovan_pasts(example.lemma) for example in pasts)
    endings: dict[int, Counter[str]] = defaultdict(Counter)
    for example in pasts:
        endings[len(drovan_pasts(example.lemma))][example.form.removeprefix(example.lemma)] += 1
    assert set(endings[1]) == {"ed"}
    assert min(endings[2]["ed"], endings[2]["t"]) >= 10


def test_drovan_choice_cannot_be_read_off_the_lemma():
    chosen = {form_of("drovan", "tal", "V;PST", seed) for seed in range(8)}
    assert chosen == drovan_pasts("tal") == {"taled", "talt"}


def test_documented_rows_are_training_data(high):
    page = Path(__file__).parents[3] / "docs" / "data.md"
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith(tuple(f"| {name} |" for name in DEMO_LANGUAGES))
    ]
    trained = {(e.language, e.lemma, ";".join(e.tags), e.form) for e in high.train}
    assert len(rows) >= 3 * len(DEMO_LANGUAGES)
    assert set(rows) <= trained
