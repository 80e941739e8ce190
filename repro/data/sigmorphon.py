"""CoNLL–SIGMORPHON 2018 task 1: morphological inflection in 103 languages.

Files ``conll2018/task1/{all,surprise}/<language>-{train-medium,train-high,dev,test}``: UTF-8,
one example per line, ``lemma TAB form TAB tags`` with the tags joined by ``;``.

References:
    Cotterell et al. (2018), The CoNLL–SIGMORPHON 2018 shared task.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.checksums import sha256_of_file
from repro.data.corpora.inflection import SIGMORPHON
from repro.data.files import each_line, numbered_lines, require_files, sha256_of
from repro.errors import DataError

SETTINGS = ("medium", "high")
FOLDERS = ("all", "surprise")
LONGEST = 1000
"""Most characters of a lemma, a form or tags; those of the corpus have at most a hundred."""
FETCH_HINT = SIGMORPHON.how_to_get


@dataclass(frozen=True, slots=True)
class Inflection:
    """Form that ``lemma`` takes under ``tags``, with text exactly as in the file."""

    language: str
    lemma: str
    form: str
    tags: tuple[str, ...]


@dataclass(frozen=True)
class SigmorphonCorpus:
    """Examples of all chosen languages, concatenated in alphabetical order of the languages.

    Attributes:
        languages: the chosen languages, sorted.
        fingerprint: SHA-256 over the names and the SHA-256 of every file that was read.
    """

    languages: list[str]
    train: list[Inflection]
    dev: list[Inflection]
    test: list[Inflection]
    fingerprint: str


def source_tokens(example: Inflection) -> list[str]:
    """Return a language token, tag tokens, then one symbol per character of the lemma.

    References:
        Peters et al. (2019), §4.1.
    """
    tags = [f"<tag:{tag}>" for tag in example.tags]
    return [f"<lang:{example.language}>", *tags, *example.lemma]


def target_tokens(example: Inflection) -> list[str]:
    """Return one symbol per character of the form; ``"".join`` restores it."""
    return list(example.form)


def read_file(path: Path, language: str) -> list[Inflection]:
    """Read one file of the corpus.

    Raises:
        DataError: the file is empty or malformed; names the file and the line.
    """
    shared_tags: dict[str, tuple[str, ...]] = {}

    def parse(line: str) -> Inflection:
        fields = line.split("\t")
        if len(fields) != 3:
            raise ValueError(f"expected lemma TAB form TAB tags, found {len(fields)} field(s)")
        lemma, form, tags = fields
        if not lemma.strip() or not form.strip():
            raise ValueError(f"expected a lemma and a form, found {lemma!r} and {form!r}")
        if "\0" in line:  # no character of a word: libraries end texts with it
            raise ValueError("expected text without NUL characters")
        if max(map(len, fields)) > LONGEST:
            raise ValueError(f"expected at most {LONGEST:,} characters in a field")
        if not all(tag.strip() for tag in tags.split(";")):
            raise ValueError(f"expected tags joined by ';', none of them empty, found {tags!r}")
        return Inflection(
            language, lemma, form, shared_tags.setdefault(tags, tuple(tags.split(";")))
        )

    examples = [*each_line(numbered_lines(path), path, parse)]
    if not examples:
        raise DataError(f"{path} is empty: expected lines of lemma TAB form TAB tags")
    return examples


def load(data_dir: Path, setting: str, languages: list[str] | None = None) -> SigmorphonCorpus:
    """Read training, validation and test data of several languages.

    Args:
        data_dir: folder that holds ``conll2018/task1``, or ``conll2018``, or ``task1`` itself.
        setting: ``"medium"`` (about 1,000 training examples per language) or ``"high"`` (10,000).
        languages: names as in the files; ``None`` means all with training data of the setting.

    Raises:
        DataError: the corpus, a language or a file is missing, or a line is malformed.
    """
    inside = (data_dir / "conll2018" / "task1", data_dir / "task1", data_dir)
    task_dir = next((d for d in inside if any((d / name).is_dir() for name in FOLDERS)), None)
    if task_dir is None:
        raise DataError(
            f"no CoNLL–SIGMORPHON 2018 corpus in {data_dir} (conll2018/task1/all is not there); "
            f"{FETCH_HINT}, or set data_dir to the folder that holds conll2018"
        )
    ending = f"-train-{setting}"
    folders = [task_dir / folder for folder in FOLDERS]
    found = [path for folder in folders for path in folder.glob(f"*{ending}")]
    files = {path.name.removesuffix(ending): path for path in found}
    if not files:
        raise DataError(f"no file <language>{ending} in {task_dir}; {FETCH_HINT}")
    chosen = sorted(files if languages is None else set(languages))
    with_dev = {p.name.removesuffix("-dev") for folder in folders for p in folder.glob("*-dev")}
    known = sorted(files.keys() | with_dev)
    for language in chosen:
        if language not in known:
            nearest = difflib.get_close_matches(language, known, n=3) or known[:10]
            raise DataError(
                f"task.languages: unknown language {language!r} in {task_dir} ({len(known)} "
                f"languages, nearest: {', '.join(nearest)})"
            )
    without = [language for language in chosen if language not in files]
    if without:
        raise DataError(
            f"no training data in the setting {setting!r} for: {', '.join(without)} "
            f"(in {task_dir}); leave them out of task.languages, or set "
            f"task.setting={'high' if setting == 'medium' else 'medium'}"
        )
    return _read({language: files[language] for language in chosen}, f"; {FETCH_HINT}")


def load_word_lists(folder: Path, languages: list[str] | None = None) -> SigmorphonCorpus:
    """Read user-supplied word lists ``<language>-{train,dev,test}`` in the format of the task.

    Args:
        folder: folder of the files, of any languages.
        languages: languages to read; ``None`` means all with training data.

    Raises:
        DataError: a language or file is missing, or a line is malformed; names file and line.
    """
    files = {path.name.removesuffix("-train"): path for path in sorted(folder.glob("*-train"))}
    if not files:
        raise DataError(
            f"data.folder: {folder} has no file <language>-train; expected word lists "
            "<language>-{train,dev,test} with lines of lemma TAB form TAB tags"
        )
    chosen = sorted(files if languages is None else languages)
    for language in chosen:
        if language not in files:
            raise DataError(
                f"task.languages: {folder} has no {language}-train; it has {', '.join(files)}"
            )
    return _read({language: files[language] for language in chosen})


def _read(files: Mapping[str, Path], advice: str = "") -> SigmorphonCorpus:
    """Read all splits of each language; ``files`` has the training file of each."""
    splits: dict[str, list[Inflection]] = {"train": [], "dev": [], "test": []}
    lines = []
    for language, train in files.items():
        names = [train.name, f"{language}-dev", f"{language}-test"]
        require_files(train.parent, names, advice)
        for name, examples in zip(names, splits.values(), strict=True):
            path = train.with_name(name)
            examples += read_file(path, language)
            lines.append(f"{path.parent.name}/{path.name} {sha256_of_file(path)}\n")
    fingerprint = sha256_of("".join(sorted(lines)).encode())
    return SigmorphonCorpus(list(files), fingerprint=fingerprint, **splits)
