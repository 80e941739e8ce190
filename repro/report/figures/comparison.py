"""Examples that several runs have in common: outputs of each run, and choice of examples."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from repro.data.segmentation import join_subwords
from repro.data.vocabulary import with_sink, without_sink
from repro.report.figures.heatmap import Panel
from repro.report.figures.kinds import RULE, VALIDATION, FigureRuns, Row, ordered_examples, place_of
from repro.results import ResultsError

_SENTENCE = ("index", "language", "source", "gold", "separator", "split")
_PAIR = ("index", "split", "pair", "premise", "hypothesis", "gold")


@dataclass(frozen=True)
class Sentence:
    """Source sentence with its reference and the output of each run."""

    row: Row

    @property
    def source(self) -> Sequence[str]:
        """Symbols of the source."""
        return [str(symbol) for symbol in self.row["source"]]

    @property
    def text(self) -> str:
        """Source in whole words, separated by spaces."""
        return " ".join(join_subwords(self.source))

    @property
    def reference(self) -> list[str]:
        """Reference in whole words."""
        return join_subwords(str(self.row["gold"]).split())

    @property
    def panels(self) -> list[Panel]:
        """Output and attention of each run."""
        source = self.source
        return [
            Panel(
                label,
                str(one["mapping"]),
                source if len(one["weights"][0]) == len(source) else with_sink(source),
                one["output"],
                one["weights"],
            )
            for label, one in self.row["panels"].items()
        ]


def shown_sentences(data: Row) -> list[Sentence]:
    """Return the sentences of a figure."""
    return [Sentence(row) for row in data["sentences"]]


def choose_sentences(
    runs: FigureRuns, rank: Callable[[Sentence], tuple[int, ...]], count: int, rule: str
) -> dict[str, Any]:
    """Collect the data of a figure: preferred sentences, then validation sentences by rank.

    Each source is shown once.

    Raises:
        ResultsError: the runs kept no sentence in common.
    """
    rows = [
        {"split": VALIDATION, "separator": "", **row}
        for row in _common_examples(runs, place_of, _SENTENCE)
    ]

    def names(row: Row) -> tuple[str, str]:
        return Sentence(row).text, str(row["gold"])

    ordered = ordered_examples(rows, runs.prefer, names, lambda row: rank(Sentence(row)))
    return _figure_data(runs, ordered, ["source"], count, "sentences", rule)


def choose_pairs(
    runs: FigureRuns, rank: Callable[[Row], tuple[int, ...]], count: int, rule: str
) -> dict[str, Any]:
    """Collect the data of a figure: pairs with preferred hypotheses, then validation pairs by rank.

    Each premise and each hypothesis is shown once.

    Raises:
        ResultsError: the runs kept no pair in common.
    """
    rows = _common_examples(runs, lambda row: row["pair"], _PAIR)
    ordered = ordered_examples(rows, runs.prefer, lambda row: [hypothesis_of(row)], rank)
    return _figure_data(runs, ordered, ["premise", "hypothesis"], count, "pairs", rule)


def hypothesis_of(pair: Row) -> str:
    """Return the hypothesis as text."""
    return " ".join(pair["hypothesis"])


def wrong_runs(pair: Row) -> list[str]:
    """Return the labels of the runs whose prediction is not the gold label."""
    return [label for label, one in pair["panels"].items() if one["predicted"] != pair["gold"]]


def wrong_in_words(pairs: Sequence[Row]) -> str:
    """List the runs that are wrong about each pair; empty if none is."""
    return " ".join(
        f"The label of {hypothesis_of(pair)!r} is not predicted by: {', '.join(wrong)}."
        for pair in pairs
        if (wrong := wrong_runs(pair))
    )


def _common_examples(
    runs: FigureRuns, place: Callable[[Row], Hashable], keys: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the examples that the best run of every row kept, its outputs under ``panels``."""
    kept = {
        run.row: {
            place(row): {k: without_sink(v) if k == "source" else v for k, v in row.items()}
            | {"mapping": run.mapping}
            for row in run.examples.read_attention()
        }
        for run in runs.best_of_rows
    }
    found = []
    common = set.intersection(*({*rows} for rows in kept.values())) if kept else set()
    for one in sorted(common, key=str):  # the order of a set differs between processes
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


def _figure_data(
    runs: FigureRuns, ordered: Sequence[Row], texts: Sequence[str], count: int, key: str, rule: str
) -> dict[str, Any]:
    """Collect up to ``count`` examples that share none of their texts, the runs and the rule."""
    shown: list[Row] = []
    for row in ordered:
        repeated = any(row[text] == one[text] for one in shown for text in texts)
        if len(shown) < count and not repeated:
            shown.append(row)
    ids = {run.row: run.folder.run_id for run in runs.best_of_rows}
    return {"index": shown[0]["index"], key: shown, "runs": ids, RULE: rule}
