"""Summarization."""

from importlib.metadata import version

from repro.evaluation.metrics.metric import Metric, signed
from repro.evaluation.sufficient_statistics import mean_of_sums

_ROUGE = f"stem:yes|refs:average|rouge-score:{version('rouge-score')}"


def _rouge_metrics() -> tuple[Metric, ...]:
    """ROUGE of texts cut to 75 bytes, and of whole ones."""
    kinds = {f"rouge{kind}": ("f1", f"F score of ROUGE-{kind}") for kind in ("1", "2", "L")}
    kinds["rougeW"] = ("f1|wlcs:rouge-1.5.5", "F score of ROUGE-W with weight 1.2")
    kinds |= {f"rougeL_{p}": (p, f"{p.capitalize()} of ROUGE-L") for p in ("precision", "recall")}
    cuts = {
        "": ("75|cut:both", "summaries; these and references are cut to 75 bytes"),
        "_whole": ("no", "whole summaries"),
    }
    return tuple(
        Metric(
            name + suffix, "%", 2, True,
            signed(name.split("_")[0], f"score:{part}|bytes:{cut}|{_ROUGE}"),
            f"{words}, mean over {summaries}.",
            of_sums=mean_of_sums,
        )
        for suffix, (cut, summaries) in cuts.items()
        for name, (part, words) in kinds.items()
    )  # fmt: skip


METRICS = _rouge_metrics()
