"""Translation."""

from importlib.metadata import version

from repro.evaluation.metrics.metric import Metric, signed

_SACREBLEU = f"smooth:exp|sacrebleu:{version('sacrebleu')}"

METRICS = (
    Metric(
        "bleu", "", 2, True, signed("bleu", f"tok:none|case:mixed|{_SACREBLEU}"),
        "BLEU of tokens as they are.",
    ),
    Metric(
        "bleu_lc", "", 2, True, signed("bleu", f"tok:none|case:lc|{_SACREBLEU}"),
        "BLEU of tokens in lower case.",
    ),
    Metric(
        "bleu_13a", "", 2, True, signed("bleu", f"tok:13a|case:lc|{_SACREBLEU}"),
        "BLEU of plain text in lower case.",
    ),
    Metric(
        "rep", "", 2, False, signed("rep", "n:2|ngrams:1|words:2"),
        "REP-score: repetitions that the reference has not, per 100 reference words.",
    ),
    Metric(
        "drop", "%", 2, False, signed("drop", "aligner:ibm2|symmetry:grow-diag-final-and"),
        "DROP-score: source words aligned to the reference but not to the translation.",
    ),
    Metric(
        "meteor", "", 2, True, signed("meteor", "program:meteor-1.5|norm:no"),
        "METEOR 1.5 by its own program.",
    ),
)  # fmt: skip
