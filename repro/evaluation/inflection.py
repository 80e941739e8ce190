"""Scores of morphological inflection as the CoNLL–SIGMORPHON 2018 shared task defines them.

Gold and guess are tables from (lemma, tags) to a form: a later line with the same key replaces
an earlier one, and a key without a guess counts as the empty form. Forms are compared exactly,
without Unicode normalisation. The official scorer rounds each language to two digits; these
scores are not rounded.

References:
    Cotterell et al. (2018), §2 and ``task1/evaluation/evalm.py`` of the shared task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from repro.data.errors import DataError
from repro.data.files import numbered_lines, write_if_changed
from repro.data.sigmorphon import Inflection
from repro.evaluation.sufficient_statistics import statistics_of_scores

Cell = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class InflectionScores:
    """Scores of each language.

    Attributes:
        accuracy: language to share of exact forms in percent.
        levenshtein: language to mean edit distance.
    """

    accuracy: Mapping[str, float]
    levenshtein: Mapping[str, float]

    @property
    def macro_accuracy(self) -> float:
        """Mean over languages, each weighing the same, in percent."""
        return fmean(self.accuracy.values())

    @property
    def macro_levenshtein(self) -> float:
        """Mean over languages, each weighing the same."""
        return fmean(self.levenshtein.values())

    def as_metrics(self, split: str) -> dict[str, float]:
        """Macro averages and each language's scores by full metric name."""
        named = {
            f"{split}/accuracy": self.macro_accuracy,
            f"{split}/levenshtein": self.macro_levenshtein,
        }
        named |= {f"{split}/accuracy/{name}": value for name, value in self.accuracy.items()}
        named |= {f"{split}/levenshtein/{name}": value for name, value in self.levenshtein.items()}
        return named


def levenshtein(first: Sequence[str], second: Sequence[str]) -> int:
    """Least number of insertions, deletions and substitutions between two strings."""
    if first == second:
        return 0
    previous = list(range(len(second) + 1))
    for row, left in enumerate(first, start=1):
        current = [row]
        for column, right in enumerate(second, start=1):
            replaced = previous[column - 1] + (left != right)
            current.append(min(previous[column] + 1, current[-1] + 1, replaced))
        previous = current
    return previous[-1]


def word_accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of equal strings in percent.

    Raises:
        ValueError: no string, or a different number of predictions.
    """
    _check_lengths(len(gold), len(predicted))
    return 100.0 * fmean(g == p for g, p in zip(gold, predicted, strict=True))


def macro_percentage(languages: Sequence[str], holds: Sequence[bool]) -> float:
    """Share of examples of which something holds, averaged over languages, in percent.

    Args:
        languages: of each example.
        holds: for each example, in the same order.

    Raises:
        ValueError: no example, or a different number of values.

    References:
        Peters et al. (2019), §4.1; its released analysis averages over languages, too.
    """
    _check_lengths(len(languages), len(holds))
    of_language: dict[str, list[bool]] = {}
    for language, value in zip(languages, holds, strict=True):
        of_language.setdefault(language, []).append(value)
    return 100.0 * fmean(fmean(values) for values in of_language.values())


def score_inflections(examples: Sequence[Inflection], predicted: Sequence[str]) -> InflectionScores:
    """Score the predictions of one split, language by language.

    Args:
        examples: gold examples of any number of languages.
        predicted: one form per example, in the same order; ``""`` where there is none.

    Raises:
        ValueError: no example, or a different number of predictions.
    """
    accuracy, distance = {}, {}
    for language, pairs in _pairs(examples, predicted).items():
        accuracy[language] = word_accuracy([g for g, _ in pairs], [p for _, p in pairs])
        distance[language] = fmean(levenshtein(g, p) for g, p in pairs)
    return InflectionScores(accuracy, distance)


def inflection_statistics(
    examples: Sequence[Inflection], predicted: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What each scored form adds to the accuracy, and the number of its language.

    Args:
        examples: as for :func:`score_inflections`.
        predicted: as there.

    Returns:
        Rows of two numbers, whether the form is right, and one; the languages by rising name.

    Raises:
        ValueError: as there.
    """
    tables = _pairs(examples, predicted).values()
    right = [gold == guess for pairs in tables for gold, guess in pairs]
    languages = [number for number, pairs in enumerate(tables) for _ in pairs]
    return statistics_of_scores(right), np.array(languages)


def _pairs(
    examples: Sequence[Inflection], predicted: Sequence[str]
) -> dict[str, list[tuple[str, str]]]:
    """Gold and guessed form of every key, by rising name of the language."""
    _check_lengths(len(examples), len(predicted))
    tables: dict[str, dict[Cell, tuple[str, str]]] = {}
    for example, form in zip(examples, predicted, strict=True):
        cell = (example.lemma, example.tags)
        tables.setdefault(example.language, {})[cell] = (example.form, form)
    return {language: list(tables[language].values()) for language in sorted(tables)}


def write_predictions(path: Path, examples: Sequence[Inflection], predicted: Sequence[str]) -> None:
    """Write ``lemma TAB predicted form TAB tags`` lines, atomically.

    Raises:
        ValueError: a different number of predictions, or a tab or line feed inside one.
    """
    _check_lengths(len(examples), len(predicted))
    lines = []
    for example, form in zip(examples, predicted, strict=True):
        if "\t" in form or "\n" in form:
            raise ValueError(f"the prediction {form!r} for {example.lemma!r} cannot stand in a TSV")
        lines.append(f"{example.lemma}\t{form}\t{';'.join(example.tags)}\n")
    write_if_changed(path, "".join(lines).encode())


def read_predictions(path: Path) -> dict[Cell, str]:
    """Read what :func:`write_predictions` wrote; a later line replaces an earlier one.

    Raises:
        DataError: the file is missing or malformed; names the file and the line.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing: expected predictions in lines of lemma, form, tags")
    guesses: dict[Cell, str] = {}
    for number, line in numbered_lines(path.read_bytes(), path):
        fields = line.split("\t")
        if len(fields) != 3:
            raise DataError(
                f"{path}:{number}: expected lemma TAB form TAB tags, found {len(fields)} field(s)"
            )
        guesses[fields[0], tuple(fields[2].split(";"))] = fields[1]
    return guesses


def align_predictions(examples: Sequence[Inflection], guesses: Mapping[Cell, str]) -> list[str]:
    """One guess per example of one language, ``""`` where none was made."""
    return [guesses.get((example.lemma, example.tags), "") for example in examples]


def _check_lengths(gold: int, predicted: int) -> None:
    if gold != predicted or gold == 0:
        raise ValueError(f"{predicted} predictions for {gold} gold examples; at least one needed")
