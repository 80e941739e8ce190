"""How a figure came to its examples: they are the paper's own, or a stated rule chose them."""

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
VALIDATION = "dev"
RULE, OWN = "rule", "preferred"
"""Keys of a figure's data: the rule in words; whether an example is the paper's own."""
MISSING = "missing"
"""Key of a figure's data where no example shows what the figure is about: says so."""
_SPLITS = {VALIDATION: "validation", "test": "test", "train": "training"}


def split_of(row: Row) -> str:
    """The split that an example is of; runs of earlier versions kept validation examples only."""
    return str(row.get("split", VALIDATION))


def place_of(row: Row) -> tuple[str, int]:
    """Split and position of an example, which identify it.

    Raises:
        KeyError, TypeError, ValueError: ``index`` is missing or no number.
    """
    return split_of(row), int(row["index"])


def place_in_words(row: Row) -> str:
    """Split and position of an example, counted from one as in the files of a corpus."""
    split, index = place_of(row)
    return f"{_SPLITS.get(split, split)} example {index + 1}"


def shown_examples(example: Row) -> Sequence[Row]:
    """The examples that a figure shows, each with split and position; none for curves."""
    parts = example.get("sentences") or example.get("pairs")
    return parts or ([example] if "index" in example else [])


def missing(reason: str) -> dict[str, Any]:
    """Data of a figure that has no example to show, which the report then says."""
    return {MISSING: reason}


def choice_in_words(example: Row) -> str:
    """Say which examples are the paper's own, and which rule chose the others.

    Blank where nothing was chosen, and for data of earlier versions, which hold no rule.
    """
    rule, shown = example.get(RULE), shown_examples(example)
    if not (rule and shown):
        return ""
    own = [place_in_words(one) for one in shown if one.get(OWN)]
    others = [place_in_words(one) for one in shown if not one.get(OWN)]
    found = f"The paper's own: {', '.join(own)}." if own else ""
    chosen = f"Chosen by a rule, {rule}: {', '.join(others)}." if others else ""
    return " ".join(part for part in (found, chosen) if part)
