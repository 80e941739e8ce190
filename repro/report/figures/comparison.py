"""Examples that several runs read: what each run makes of them, and which are shown."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from repro.data.segmentation import join_subwords
from repro.report.figures.kinds import RULE, VALIDATION, FigureRuns, Row, ordered_examples, place_of
from repro.results import ResultsError

END, SINK = "</s>", "<SINK>"
"""Last symbol of an output; last word that runs with bounded attention read besides the source."""
_SENTENCE = ("index", "language", "source", "gold", "separator", "split")
_PAIR = ("index", "pair", "premise", "hypothesis", "gold")


@dataclass(frozen=True)
class Panel:
    """Output and weights of one run for a sentence, one line of weights per output symbol.

    It attends to ``columns``: the words of the source, and a sink if there is one.
    """

    label: str
    mapping: str
    columns: Sequence[str]
    output: Sequence[str]
    weights: Sequence[Sequence[float]]

    @property
    def words(self) -> list[str]:
        """Whole words of the output."""
        return join_subwords([symbol for symbol in self.output if symbol != END])


@dataclass(frozen=True)
class Sentence:
    """A source with its reference, and what each run makes of it."""

    row: Row

    @property
    def source(self) -> Sequence[str]:
        """Symbols of the source."""
        return [str(symbol) for symbol in self.row["source"]]

    @property
    def text(self) -> str:
        """The source in whole words."""
        return " ".join(join_subwords(self.source))

    @property
    def reference(self) -> list[str]:
        """Whole words of the reference."""
        return join_subwords(str(self.row["gold"]).split())

    @property
    def panels(self) -> list[Panel]:
        """Panels, one for each run."""
        source = self.source
        return [
            Panel(
                label,
                str(one.get("mapping", "")),
                source if len(one["weights"][0]) == len(source) else [*source, SINK],
                one["output"],
                one["weights"],
            )
            for label, one in self.row["panels"].items()
        ]


def shown_sentences(data: Row) -> list[Sentence]:
    """The sentences of a figure."""
    return [Sentence(row) for row in data["sentences"]]


def choose_sentences(
    runs: FigureRuns, rank: Callable[[Sentence], tuple[int, ...]], count: int, rule: str
) -> dict[str, Any]:
    """The data of a figure: preferred sentences, then validation sentences by rank.

    No source is shown twice.

    Raises:
        ResultsError: the runs kept no sentence in common.
    """

    def place(row: Row) -> tuple[str, int]:
        row["source"][:] = [word for word in row["source"] if word != SINK]
        return place_of(row)

    rows = [
        {"split": VALIDATION, "separator": "", **row} for row in _shared(runs, place, _SENTENCE)
    ]

    def names(row: Row) -> tuple[str, str]:
        return Sentence(row).text, str(row["gold"])

    ordered = ordered_examples(rows, runs.prefer, names, lambda row: rank(Sentence(row)))
    return _data(runs, ordered, ["source"], count, "sentences", rule)


def choose_pairs(
    runs: FigureRuns, rank: Callable[[Row], tuple[int, ...]], count: int, rule: str
) -> dict[str, Any]:
    """The data of a figure: pairs of preferred hypotheses, then pairs by rank.

    No premise and no hypothesis is shown twice.

    Raises:
        ResultsError: the runs kept no pair in common.
    """
    rows = _shared(runs, lambda row: row["pair"], _PAIR)
    ordered = ordered_examples(rows, runs.prefer, lambda row: [hypothesis_of(row)], rank)
    return _data(runs, ordered, ["premise", "hypothesis"], count, "pairs", rule)


def hypothesis_of(pair: Row) -> str:
    """The hypothesis as a text."""
    return " ".join(pair["hypothesis"])


def wrong_runs(pair: Row) -> list[str]:
    """Labels of the runs that do not predict the gold label."""
    return [label for label, one in pair["panels"].items() if one["predicted"] != pair["gold"]]


def wrong_in_words(pairs: Sequence[Row]) -> str:
    """Name the runs that are wrong about a pair; blank if none is."""
    return " ".join(
        f"The label of {hypothesis_of(pair)!r} is not predicted by: {', '.join(wrong)}."
        for pair in pairs
        if (wrong := wrong_runs(pair))
    )


def _shared(
    runs: FigureRuns, place: Callable[[Row], Hashable], keys: Sequence[str]
) -> list[dict[str, Any]]:
    """The examples that the best run of every row kept; ``panels`` holds what each run says."""
    kept = {
        run.row: {place(row): row | {"mapping": run.mapping} for row in run.folder.read_attention()}
        for run in runs.best_of_rows
    }
    found = []
    for one in set.intersection(*({*rows} for rows in kept.values())) if kept else set():
        same = {label: rows[one] for label, rows in kept.items()}
        heads = [{key: row[key] for key in keys if key in row} for row in same.values()]
        if any(head != heads[0] for head in heads):
            raise ResultsError(f"example {heads[0]['index']}: the runs read different texts")
        panels = {
            label: {key: value for key, value in row.items() if key not in keys}
            for label, row in same.items()
        }
        found.append({**heads[0], "panels": panels})
    return found


def _data(
    runs: FigureRuns, ordered: Sequence[Row], texts: Sequence[str], count: int, key: str, rule: str
) -> dict[str, Any]:
    """The first examples that differ in every one of their texts, with the runs and the rule."""
    shown: list[Row] = []
    for row in ordered:
        repeated = any(row[text] == one[text] for one in shown for text in texts)
        if len(shown) < count and not repeated:
            shown.append(row)
    ids = {run.row: run.folder.run_id for run in runs.best_of_rows}
    return {"index": shown[0]["index"], key: shown, "runs": ids, RULE: rule}
