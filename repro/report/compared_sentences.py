"""Sentences that several runs translate or summarize: what each run says, and which are shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.data.segmentation import join_subwords
from repro.data.sentence_search import preference
from repro.report.choice import OWN, VALIDATION, place_of, split_of
from repro.report.examples import AttentionExample, attention_example
from repro.results import ResultsError

Row = Mapping[str, Any]
SINK = "<SINK>"
"""Last word that runs with bounded attention read besides the sentence."""
_SHARED = ("index", "language", "source", "gold", "separator")


@dataclass(frozen=True)
class ComparedSentence:
    """A source with its reference, and what each run makes of it.

    Attributes:
        index: place in the validation data.
        source: symbols, without a sink.
        panels: the run's own example by the label of the run; its source may end in a sink.
    """

    index: int
    language: str
    source: tuple[str, ...]
    gold: str
    panels: Mapping[str, AttentionExample]

    @property
    def reference(self) -> list[str]:
        """Whole words of the reference."""
        return join_subwords(self.gold.split())

    @property
    def text(self) -> str:
        """The source in whole words."""
        return " ".join(join_subwords(self.source))

    @property
    def names(self) -> tuple[str, ...]:
        """Texts by which a figure may ask for it: the source and the reference."""
        return self.text, self.gold

    def words(self, label: str) -> list[str]:
        """Whole words that a run says."""
        return join_subwords(self.panels[label].prediction.split())

    @property
    def longest(self) -> int:
        """Number of symbols of the longest output."""
        return max(len(panel.output) for panel in self.panels.values())


Rank = Callable[[ComparedSentence], tuple[int, ...]]
"""Smaller is shown first."""


def common_sentences(kept: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """The sentences that every run kept, by rising index; ``panels`` holds what each run says.

    Args:
        kept: rows of ``attention.jsonl`` of each run, by the label of the run.

    Raises:
        ResultsError: a row is malformed, or the runs have no sentence in common.
    """
    try:
        found = {label: {place_of(row): row for row in rows} for label, rows in kept.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"compared sentences: missing or malformed: {error}") from error
    shared = set.intersection(*({*rows} for rows in found.values())) if found else set()
    if not shared:
        raise ResultsError("the runs kept no sentence in common to draw")
    ordered = sorted(shared, key=lambda place: (place[0] != VALIDATION, place))
    return [_join({label: rows[place] for label, rows in found.items()}) for place in ordered]


def compared_sentence(row: Row) -> ComparedSentence:
    """Read one row of :func:`common_sentences`.

    Raises:
        ResultsError: a key is missing, weights are no distributions, or a run read other words.
    """
    place = f"sentence {row.get('index')}"
    try:
        shared = {key: row[key] for key in _SHARED}
        panels = {
            label: attention_example({**shared, **one}) for label, one in row["panels"].items()
        }
        source = tuple(str(symbol) for symbol in row["source"])
        sentence = ComparedSentence(
            int(row["index"]), str(row["language"]), source, str(row["gold"]), panels
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultsError(f"{place}: missing or malformed: {error}") from error
    if not panels or any(
        panel.source not in (source, (*source, SINK)) for panel in panels.values()
    ):
        raise ResultsError(f"{place}: expected at least one run, all of them of the same source")
    return sentence


def chosen_sentences(
    kept: Mapping[str, Sequence[Row]], prefer: Sequence[str], rank: Rank, count: int
) -> dict[str, Any]:
    """The data of a figure: preferred sentences, then validation sentences by rank.

    No source is shown twice.

    Args:
        kept: rows of each run, by the label of the run.
        prefer: sources or references; case, spaces and punctuation do not matter.
        rank: smaller goes first; ties go to the lowest index.
        count: how many sentences are shown, if there are so many.

    Raises:
        ResultsError: the runs kept no sentence in common, or a row is malformed.
    """

    def merit(row: Row) -> tuple[int, ...]:
        sentence = compared_sentence(row)
        return preference(sentence.names, prefer), *rank(sentence), sentence.index

    def allowed(row: Row) -> bool:
        return row[OWN] or split_of(row) == VALIDATION

    found = [
        {**row, OWN: preference(compared_sentence(row).names, prefer) < len(prefer)}
        for row in common_sentences(kept)
    ]
    ordered = sorted(filter(allowed, found), key=merit)
    if not ordered:
        raise ResultsError("the runs kept no validation sentence in common to draw")
    fresh = {tuple(row["source"]): row for row in reversed(ordered)}
    shown = [row for row in ordered if fresh[tuple(row["source"])] is row][:count]
    return {"index": shown[0]["index"], "sentences": shown}


def shown_sentences(row: Row) -> list[ComparedSentence]:
    """Read what :func:`chosen_sentences` returned.

    Raises:
        ResultsError: there is no sentence, or one is malformed.
    """
    sentences = [compared_sentence(one) for one in row.get("sentences", [])]
    if not sentences:
        raise ResultsError("compared sentences: expected at least one sentence")
    return sentences


def runs_shown(row: Row) -> str:
    """Which runs are shown."""
    runs = "; ".join(f"{label} {run}" for label, run in row.get("runs", {}).items())
    return f"Runs: {runs}." if runs else ""


def _join(rows: Mapping[str, Row]) -> dict[str, Any]:
    """What the runs keep of one sentence as one row."""
    place = f"sentence {next(iter(rows.values()))['index']}"
    try:
        source = min((row["source"] for row in rows.values()), key=len)
        heads = [
            {key: row[key] for key in _SHARED} | {"source": source, "split": split_of(row)}
            for row in rows.values()
        ]
        panels = {
            label: {key: row[key] for key in ("source", "output", "weights")}
            for label, row in rows.items()
        }
    except (KeyError, TypeError) as error:
        raise ResultsError(f"{place}: missing or malformed: {error}") from error
    if any(head != heads[0] for head in heads):
        raise ResultsError(f"{place}: the runs read other sentences")
    return {**heads[0], "panels": panels}
