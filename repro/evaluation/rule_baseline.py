"""Accuracies of the shared task's rule baseline, read from an optional file of measurements."""

from pathlib import Path
from typing import Any

from repro.data.errors import DataError
from repro.data.files import numbered_lines, parse_json_object
from repro.data.sigmorphon import SETTINGS

RULE_BASELINE_FILE = "sigmorphon2018_task1_rule_baseline.jsonl"


def read_rule_baseline(path: Path) -> dict[tuple[str, str], float]:
    """Read test accuracies of the baseline that aligns, extracts and applies affix rules.

    Args:
        path: one JSON object a line with at least ``lang``, ``q`` (the setting) and ``test``
            (accuracy in percent).

    Returns:
        ``(language, setting)`` to accuracy on the test set in percent.

    Raises:
        DataError: the file is missing or malformed; names the file and the line.

    References:
        Cotterell et al. (2018), the baseline of task 1.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing: expected one JSON object a line (lang, q, test)")
    accuracies: dict[tuple[str, str], float] = {}
    for number, line in numbered_lines(path.read_bytes(), path):
        try:
            row = parse_json_object(line)
            language, setting = row.get("lang"), row.get("q")
            accuracy: Any = row.get("test")
            if not isinstance(language, str) or not language:
                raise ValueError(f"expected the language as text in 'lang', found {language!r}")
            if setting not in SETTINGS:
                raise ValueError(f"expected {' or '.join(SETTINGS)} in 'q', found {setting!r}")
            if type(accuracy) not in (int, float) or not 0 <= accuracy <= 100:
                raise ValueError(f"expected a percentage in 'test', found {accuracy!r}")
        except ValueError as error:
            raise DataError(f"{path}:{number}: {error}") from None
        if (language, setting) in accuracies:
            raise DataError(f"{path}:{number}: {language} in {setting} is repeated")
        accuracies[language, setting] = float(accuracy)
    return accuracies
