"""The demo corpus of morphological inflection, in the layout of CoNLL–SIGMORPHON 2018 task 1."""

from pathlib import Path
from random import Random

from repro.data.demo.languages import DEMO_LANGUAGES, DemoLanguage
from repro.data.files import write_if_changed

TRAIN_HIGH = 240
TRAIN_MEDIUM = 60
DEV = 40
TEST = 40


def write_demo_corpus(data_dir: Path, seed: int = 2018) -> None:
    """Write the corpus of the invented languages under ``data_dir/conll2018/task1/all``.

    Every file is written atomically; one that is there with the right bytes is left alone.

    Args:
        data_dir: folder that the reader takes as its ``data_dir``.
        seed: the corpus is a pure function of it.
    """
    folder = Path(data_dir) / "conll2018" / "task1" / "all"
    for language in DEMO_LANGUAGES.values():
        for part, rows in demo_rows(language, seed).items():
            text = "".join(f"{lemma}\t{form}\t{tags}\n" for lemma, form, tags in rows)
            write_if_changed(folder / f"{language.name}-{part}", text.encode())


def demo_rows(language: DemoLanguage, seed: int) -> dict[str, list[tuple[str, str, str]]]:
    """Rows ``(lemma, form, tags)`` of every file of one language.

    Returns:
        ``train-high``, ``train-medium`` (its beginning), ``dev`` and ``test``; no lemma and tags
        of one split stand in another.
    """
    random = Random(f"{seed} {language.name}")
    total = TRAIN_HIGH + DEV + TEST
    # Different lemmas, the frequent ones first.
    paradigms = {paradigm.lemma: paradigm for paradigm in language.frequent}
    while sum(len(paradigm.forms) for paradigm in paradigms.values()) < total:
        drawn = language.draw(random)
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
