"""Sentence pairs that several runs read: what each run says of them, and which are shown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.data.nli_tokens import bare_sentence
from repro.data.sentence_search import preference
from repro.results import ResultsError

TOLERANCE = 1e-3
SHARED_KEYS = ("index", "pair", "premise", "hypothesis", "gold")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ComparedPair:
    """A premise and a hypothesis, with what each run keeps of them.

    Attributes:
        index: place in the validation data.
        panels: label of the run to the run's own keys of the row, ``predicted`` among them.
    """

    index: int
    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    gold: str
    panels: Mapping[str, Row]

    @property
    def wrong(self) -> list[str]:
        """Labels of the runs that do not predict the gold label."""
        return [label for label, one in self.panels.items() if one["predicted"] != self.gold]

    @property
    def name(self) -> str:
        """The hypothesis, without case and punctuation."""
        return bare_sentence(" ".join(self.hypothesis))

    def place_in(self, prefer: Sequence[str]) -> int:
        """Position of the hypothesis in ``prefer``, else its length."""
        return preference([self.name], prefer)


def common_pairs(kept: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """The pairs that every run kept, by rising index; ``panels`` holds what each run says.

    Args:
        kept: rows of ``attention.jsonl`` of each run, by the label of the run.

    Raises:
        ResultsError: a row is malformed, or the runs have no pair in common.
    """
    try:
        found = {label: {row["pair"]: row for row in rows} for label, rows in kept.items()}
        shared = set.intersection(*({*rows} for rows in found.values()))
        joined = [_join({label: rows[pair] for label, rows in found.items()}) for pair in shared]
    except (KeyError, TypeError) as error:
        raise ResultsError(f"compared pairs: missing or malformed: {error}") from error
    if not joined:
        raise ResultsError("the runs kept no pair in common to draw")
    return sorted(joined, key=lambda row: int(row["index"]))


def compared_pair(row: Row) -> ComparedPair:
    """Read one row of :func:`common_pairs`.

    Raises:
        ResultsError: a key is missing or malformed.
    """
    try:
        pair = ComparedPair(
            index=int(row["index"]),
            premise=tuple(row["premise"]),
            hypothesis=tuple(row["hypothesis"]),
            gold=str(row["gold"]),
            panels={label: {**one} for label, one in row["panels"].items()},
        )
        complete = bool(pair.premise and pair.hypothesis and pair.panels and pair.wrong is not None)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultsError(f"pair {row.get('index')}: missing or malformed: {error}") from error
    if not complete:
        raise ResultsError(f"pair {row.get('index')}: expected words and at least one run")
    return pair


def checked_weights(values: object, rows: int, columns: int, place: str) -> list[list[float]]:
    """A matrix of weights between 0 and 1 of the right shape.

    Raises:
        ResultsError: it is anything else.
    """
    try:
        matrix = [[float(value) for value in line] for line in values]  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise ResultsError(f"{place}: weights are malformed: {error}") from error
    if len(matrix) != rows or any(len(line) != columns for line in matrix):
        raise ResultsError(f"{place}: expected {rows} rows of {columns} weights")
    # Written so that NaN fails as well.
    if not all(0 <= value <= 1 + TOLERANCE for line in matrix for value in line):
        raise ResultsError(f"{place}: a weight lies outside of [0, 1]")
    return matrix


def check_sums(sums: Iterable[float], place: str) -> None:
    """Refuse weights that are no distributions.

    Raises:
        ResultsError: a sum is not one.
    """
    for total in sums:
        if not abs(total - 1) <= TOLERANCE:
            raise ResultsError(f"{place}: the weights sum to {total:.6f}, not to one")


def runs_remark(row: Row, pairs: Sequence[ComparedPair]) -> str:
    """Which runs are shown, and which of them are wrong about a pair."""
    runs = "; ".join(f"{label} {run}" for label, run in row.get("runs", {}).items())
    remarks = [f"Runs: {runs}."] if runs else []
    for pair in pairs:
        if pair.wrong:
            remarks.append(
                f"The label of {pair.name!r} is not predicted by: {', '.join(pair.wrong)}."
            )
    return " ".join(remarks)


def _join(rows: Mapping[str, Row]) -> dict[str, Any]:
    first = next(iter(rows.values()))
    shared = {key: first[key] for key in SHARED_KEYS}
    for label, row in rows.items():
        if {key: row[key] for key in SHARED_KEYS} != shared:
            raise ResultsError(f"pair {first['pair']!r}: run {label} read other words or labels")
    panels = {
        label: {key: value for key, value in row.items() if key not in SHARED_KEYS}
        for label, row in rows.items()
    }
    return {**shared, "panels": panels}
