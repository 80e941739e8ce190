"""Metrics of the CoNLL–SIGMORPHON 2018 shared task on inflection, and certificates of search.

Gold data and predictions map (lemma, tags) to a form: a later line with the same key replaces an
earlier one, and a key without a prediction counts as the empty form. Forms are compared exactly,
without Unicode normalization. The official scorer rounds each language to two digits; these scores
are not rounded.

References:
    Cotterell et al. (2018), §2 and ``task1/evaluation/evalm.py`` of the shared task.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from repro.data.files import each_line, numbered_lines, parse_json_object
from repro.data.sigmorphon import SETTINGS, Inflection
from repro.errors import DataError
from repro.evaluation.metrics.metric import Metric, signature
from repro.evaluation.sufficient_statistics import (
    Statistics,
    mean_of_sums,
    percentage_of_sums,
    ratios,
)

RULE_BASELINE_FILE = "sigmorphon2018_task1_rule_baseline.jsonl"


@dataclass(frozen=True)
class InflectedForms:
    """Predicted forms of a split.

    Attributes:
        examples: gold examples of any number of languages.
        predicted: one form per example, in the same order; ``""`` for no prediction.
        certificates: by metric name, whether the search proved a property of each example.
    """

    examples: Sequence[Inflection]
    predicted: Sequence[str]
    certificates: Mapping[str, Sequence[bool]] = field(default_factory=dict)

    @cached_property
    def pairs(self) -> list[tuple[str, str, str]]:
        """Language, gold form and prediction of every key, sorted by language."""
        cells = {
            (example.language, example.lemma, example.tags): (example.language, example.form, form)
            for example, form in zip(self.examples, self.predicted, strict=True)
        }
        return sorted(cells.values(), key=lambda pair: pair[0])


def levenshtein(first: Sequence[str], second: Sequence[str]) -> int:
    """Compute the least number of insertions, deletions and substitutions between strings.

    NLTK has the same distance, but importing it takes longer than evaluating a small run.
    """
    distances = list(range(len(second) + 1))  # from the first i symbols to each prefix of second
    for i, symbol in enumerate(first, start=1):
        diagonal, distances[0] = distances[0], i
        for j, other in enumerate(second, start=1):
            substituted = diagonal + (symbol != other)
            diagonal = distances[j]
            distances[j] = min(diagonal + 1, distances[j - 1] + 1, substituted)
    return distances[-1]


def _by_form(compare: Callable[[str, str], float], forms: InflectedForms) -> Statistics:
    """Compare gold form and prediction of every key, grouped by language."""
    rows = ratios([compare(gold, guess) for _, gold, guess in forms.pairs])
    return Statistics(rows, [language for language, _, _ in forms.pairs])


def _certificate(name: str, forms: InflectedForms) -> Statistics | None:
    """Return whether the search proved a property of each example, grouped by language.

    References:
        Peters et al. (2019), §4.1; their released analysis also averages over languages.
    """
    if name not in forms.certificates:
        return None
    languages = [example.language for example in forms.examples]
    return Statistics(ratios(forms.certificates[name]), languages)


def read_rule_baseline(path: Path) -> dict[tuple[str, str], float]:
    """Read the test accuracies of the rule baseline, which aligns forms and applies affix rules.

    Args:
        path: file with one JSON object per line: at least ``lang``, ``q`` (the setting) and
            ``test`` (accuracy in percent).

    Returns:
        Accuracy on the test set in percent, by ``(language, setting)``.

    Raises:
        DataError: the file is missing or malformed; the message names file and line.

    References:
        Cotterell et al. (2018), the baseline of task 1.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing: expected one JSON object a line (lang, q, test)")
    accuracies: dict[tuple[str, str], float] = {}

    def parse(line: str) -> tuple[tuple[str, str], float]:
        row = parse_json_object(line)
        language, setting = row.get("lang"), row.get("q")
        percentage: Any = row.get("test")
        if not isinstance(language, str) or not language:
            raise ValueError(f"expected the language as text in 'lang', found {language!r}")
        if setting not in SETTINGS:
            raise ValueError(f"expected {' or '.join(SETTINGS)} in 'q', found {setting!r}")
        if type(percentage) not in (int, float) or not 0 <= percentage <= 100:
            raise ValueError(f"expected a percentage in 'test', found {percentage!r}")
        if (language, setting) in accuracies:
            raise ValueError(f"{language} in {setting} is repeated")
        return (language, setting), float(percentage)

    for measured, accuracy in each_line(numbered_lines(path), path, parse):
        accuracies[measured] = accuracy
    return accuracies


_SCORER = "macro:language|scorer:evalm2018"
_SEARCH = "macro:language|search:beam"
_CERTIFICATES = (
    ("certified", True, "cert", "whose beam held every hypothesis of nonzero probability"),
    (
        "certified_printed", True, "cert_printed",
        "whose hypotheses, as the released program prints them, have probabilities that sum to one",
    ),
    ("optimal", True, "optimal", "whose prediction is proven a most probable sequence"),
    ("single", None, "single", "with all probability mass on one sequence"),
)  # fmt: skip

METRICS = (
    Metric(
        "accuracy", "%", 2, True, signature("acc", _SCORER),
        "Share of forms that are predicted exactly, averaged over languages.",
        from_sums=percentage_of_sums, outputs=InflectedForms, recorded="both",
        statistics=partial(_by_form, str.__eq__),
    ),
    Metric(
        "levenshtein", "edits", 3, False, signature("lev", _SCORER),
        "Mean edit distance from predicted to gold form, averaged over languages.",
        from_sums=mean_of_sums, outputs=InflectedForms, recorded="both",
        statistics=partial(_by_form, levenshtein),
    ),
    Metric(
        "rule_baseline", "%", 2, True, signature("acc", _SCORER + "|system:rule-baseline"),
        "Accuracy of the shared task's rule baseline, as measured by its own program.",
    ),
    *(
        Metric(
            name, "%", 1, better, signature(short, _SEARCH),
            f"Share of examples {which}, averaged over languages.",
            from_sums=percentage_of_sums, outputs=InflectedForms,
            statistics=partial(_certificate, name),
        )
        for name, better, short, which in _CERTIFICATES
    ),
)  # fmt: skip
