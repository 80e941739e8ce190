"""Demo corpus of morphological inflection, in the layout of CoNLL–SIGMORPHON 2018 task 1.

Each of five synthetic languages has random lemmas and a paradigm that inflects them.
"""

from pathlib import Path
from random import Random
from typing import NamedTuple

from repro.data.files import write_if_changed


class Paradigm(NamedTuple):
    """Lemma and its form in every cell; a cell is named by its tags joined by ``;``."""

    lemma: str
    forms: dict[str, str]


BACK, FRONT = "aou", "äöü"
FRONTING = str.maketrans(BACK, FRONT)
SULMARI_CASES = {"NOM": "", "GEN": "un", "IN+ESS": "da", "DAT": "ki"}


def sulmari(random: Random) -> Paradigm:
    """Draw an agglutinating noun: stem, plural, case; suffix vowels are fronted if the stem is."""
    front = random.random() < 0.5
    stem = "".join(random.choice("kstmnlrv") + random.choice(BACK) for _ in range(2))
    stem += random.choice(("", "k", "s", "n", "l"))
    forms = {}
    for number, plural in (("SG", ""), ("PL", "lar")):
        for case, ending in SULMARI_CASES.items():
            buffer = "n" if ending == "un" and (stem + plural)[-1] in BACK else ""
            form = stem + plural + buffer + ending
            forms[f"N;{case};{number}"] = form.translate(FRONTING) if front else form
    return Paradigm(forms["N;NOM;SG"], forms)


TOMELU_AFFIXES = {
    "V;PRS;1;SG": ("ni", "a"),
    "V;PRS;2;SG": ("ku", "a"),
    "V;PRS;3;SG": ("wa", "a"),
    "V;PRS;1;PL": ("tu", "a"),
    "V;PST;1;SG": ("nime", "a"),
    "V;PST;3;SG": ("wame", "a"),
    "V;PRS;1;SG;NEG": ("sini", "e"),
    "V;PRS;3;SG;NEG": ("siwa", "e"),
}


def tomelu(random: Random) -> Paradigm:
    """Draw a prefixing verb: prefixes elide before a vowel; negation is a circumfix."""
    onset = random.choice(("", "t", "k", "p", "m", "l", "s", "b"))
    stem = onset + random.choice("aeiou") + random.choice(("t", "k", "p", "n", "l", "mb", "nd"))
    if random.random() < 0.4:
        stem += random.choice("iu") + random.choice("lkns")
    kept = None if onset else -1  # elide the last vowel of the prefix
    forms = {
        cell: prefix[:kept] + stem + suffix for cell, (prefix, suffix) in TOMELU_AFFIXES.items()
    }
    return Paradigm(stem + "a", forms)


GRADATION = {"pp": "p", "tt": "t", "kk": "k", "p": "v", "t": "d", "k": "g"}


def haldri(random: Random) -> Paradigm:
    """Draw a noun with stem changes: consonant gradation, and umlaut in the plural."""
    head = random.choice(("", "h", "l", "m", "r", "s", "v")) + random.choice("aoui")
    middle = random.choice((*GRADATION, "l", "n", "r"))
    vowel = random.choice("aou")
    strong, weak = head + middle + vowel, head + GRADATION.get(middle, middle) + vowel
    forms = {
        "N;NOM;SG": strong,
        "N;GEN;SG": weak + "n",
        "N;ESS;SG": strong + "na",
        "N;IN+ESS;SG": weak + "ssa",
        "N;NOM;PL": weak.translate(FRONTING) + "t",
        "N;ESS;PL": strong.translate(FRONTING) + "ina",
    }
    return Paradigm(strong, forms)


def velisk(random: Random) -> Paradigm:
    """Draw a fusional verb of one of two classes; the past reduplicates the first syllable."""
    root = random.choice("bdklmprst") + random.choice("aeio")
    if random.random() < 0.3:
        root += random.choice("lmnr") + random.choice("ae")
    root += random.choice("dklnrst")
    return _velisk_verb(root, random.choice("ai"), past=root[:2] + root)


def _velisk_verb(root: str, theme: str, past: str) -> Paradigm:
    """Inflect a verb for tense, person and participle; ``theme``, ``a`` or ``i``, is its class."""
    vowel = "a" if theme == "a" else "e"
    forms = {
        "V;PRS;1;SG": root + "o",
        "V;PRS;2;SG": root + vowel + "s",
        "V;PRS;3;SG": root + vowel,
        "V.PTCP;PST": root + theme + "do",
        "V;PST;1;SG": past + "i",
        "V;PST;2;SG": past + "ist",
        "V;PST;3;SG": past + "it",
    }
    return Paradigm(root + theme + "r", forms)


SONORANTS = ("l", "m", "n", "r")


def drovan(random: Random) -> Paradigm:
    """Draw a verb whose past ends in ``-ed`` or, after a sonorant, at random in ``-t``."""
    onset = random.choice(("b", "br", "d", "dr", "g", "gr", "h", "l", "st", "t", "tr", "v"))
    sonorant = random.random() < 0.5
    coda = random.choice(SONORANTS if sonorant else ("d", "g", "k", "s", "v", "nd", "lt"))
    stem = onset + random.choice("aeio") + coda
    short = sonorant and random.random() < 0.5
    forms = {
        "V;NFIN": stem,
        "V;PRS;3;SG": stem + "is",
        "V;PST": stem + ("t" if short else "ed"),
        "V.PTCP;PRS": stem + "an",
    }
    return Paradigm(stem, forms)


DEMO_LANGUAGES = {draw.__name__: draw for draw in (drovan, haldri, sulmari, tomelu, velisk)}
"""Functions that draw the paradigm of a random lemma, by language, the prefix of its files."""
FREQUENT = {
    "velisk": (
        _velisk_verb("es", "a", past="fu"),
        _velisk_verb("and", "i", past="vel"),
        _velisk_verb("tor", "a", past="bes"),
    )
}
"""Paradigms in every corpus of a language; those of velisk have a suppletive past."""


TRAIN_HIGH, TRAIN_MEDIUM, DEV, TEST = 240, 60, 40, 40


def write_demo_corpus(data_dir: Path, seed: int = 2018) -> None:
    """Write the corpus, a pure function of ``seed``, under ``data_dir/conll2018/task1/all``."""
    folder = data_dir / "conll2018" / "task1" / "all"
    for language in DEMO_LANGUAGES:
        for part, rows in demo_rows(language, seed).items():
            text = "".join(f"{lemma}\t{form}\t{tags}\n" for lemma, form, tags in rows)
            write_if_changed(folder / f"{language}-{part}", text.encode())


def demo_rows(language: str, seed: int) -> dict[str, list[tuple[str, str, str]]]:
    """Draw the rows ``(lemma, form, tags)`` of every file of one language.

    Returns:
        ``train-high``, ``train-medium`` (its beginning), ``dev`` and ``test``; training, validation
        and test data share no pair of lemma and tags.
    """
    random = Random(f"{seed} {language}")
    total = TRAIN_HIGH + DEV + TEST
    # Distinct lemmas, the frequent ones first.
    paradigms = {paradigm.lemma: paradigm for paradigm in FREQUENT.get(language, ())}
    while sum(len(paradigm.forms) for paradigm in paradigms.values()) < total:
        drawn = DEMO_LANGUAGES[language](random)
        paradigms.setdefault(drawn.lemma, drawn)
    rows = [
        (paradigm.lemma, form, tags)
        for paradigm in paradigms.values()
        for tags, form in paradigm.forms.items()
    ]
    random.shuffle(rows)
    held_out = TRAIN_HIGH + DEV
    return {
        "train-high": rows[:TRAIN_HIGH],
        "train-medium": rows[:TRAIN_MEDIUM],
        "dev": rows[TRAIN_HIGH:held_out],
        "test": rows[held_out:total],
    }
