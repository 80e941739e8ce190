"""Summarization: ROUGE of summaries that are cut to 75 bytes, and of whole ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from repro.evaluation.metrics.metric import Metric, signature
from repro.evaluation.rouge import Overlap, rouge
from repro.evaluation.sufficient_statistics import Statistics, mean_of_sums, ratios

MAX_BYTES = 75
"""Length of a summary in DUC 2004, task 1."""


@dataclass(frozen=True)
class Summaries:
    """Summaries of a split with all references of each."""

    summaries: Sequence[str]
    references: Sequence[Sequence[str]]
    _known: dict[int | None, dict[str, list[Overlap]]] = field(default_factory=dict, repr=False)

    def rouge(self, max_bytes: int | None) -> dict[str, list[Overlap]]:
        """Every kind of ROUGE of each summary, computed once."""
        if max_bytes not in self._known:
            self._known[max_bytes] = rouge(self.summaries, self.references, max_bytes=max_bytes)
        return self._known[max_bytes]


def _rouge(kind: str, part: str, max_bytes: int | None, texts: Summaries) -> Statistics:
    return Statistics(ratios([getattr(one, part) for one in texts.rouge(max_bytes)[kind]]))


_COMMON = f"stem:yes|refs:average|rouge-score:{version('rouge-score')}"
_KINDS = [
    ("rouge1", "rouge1", "fmeasure", "f1", "F score of ROUGE-1"),
    ("rouge2", "rouge2", "fmeasure", "f1", "F score of ROUGE-2"),
    ("rougeL", "rougeL", "fmeasure", "f1", "F score of ROUGE-L"),
    ("rougeW", "rougeW1.2", "fmeasure", "f1|wlcs:rouge-1.5.5",
     "F score of ROUGE-W with weight 1.2"),
    ("rougeL_precision", "rougeL", "precision", "precision", "Precision of ROUGE-L"),
    ("rougeL_recall", "rougeL", "recall", "recall", "Recall of ROUGE-L"),
]  # fmt: skip
_CUTS = {
    "": (MAX_BYTES, "75|cut:both", "summaries; these and references are cut to 75 bytes"),
    "_whole": (None, "no", "whole summaries"),
}
METRICS = tuple(
    Metric(
        name + suffix, "%", 2, True,
        signature(name.split("_")[0], f"score:{score}|bytes:{cut}|{_COMMON}"),
        f"{words}, mean over {summaries}.",
        of_sums=mean_of_sums, reads=Summaries, statistics=partial(_rouge, kind, part, max_bytes),
    )
    for suffix, (max_bytes, cut, summaries) in _CUTS.items()
    for name, kind, part, score, words in _KINDS
)  # fmt: skip
