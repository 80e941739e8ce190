"""Translation."""

from functools import partial
from importlib.metadata import version

from repro.evaluation.bleu import bleu_of_statistics
from repro.evaluation.meteor import meteor_of_statistics
from repro.evaluation.metrics.metric import Metric, signed
from repro.evaluation.sufficient_statistics import percentage_of_sums

_MULTI_BLEU = "smooth:none|program:multi-bleu"
_SACREBLEU = f"smooth:exp|sacrebleu:{version('sacrebleu')}"

METRICS = (
    Metric(
        "bleu", "", 2, True, signed("bleu", f"tok:none|case:mixed|{_MULTI_BLEU}"),
        "BLEU of tokens as they are, as multi-bleu.perl counts it.",
        of_sums=bleu_of_statistics,
    ),
    Metric(
        "bleu_lc", "", 2, True, signed("bleu", f"tok:none|case:lc|{_MULTI_BLEU}"),
        "BLEU of tokens in lower case, as multi-bleu.perl -lc counts it.",
        of_sums=bleu_of_statistics,
    ),
    Metric(
        "bleu_13a", "", 2, True, signed("bleu", f"tok:13a|case:lc|{_SACREBLEU}"),
        "BLEU of plain text in lower case.",
        of_sums=partial(bleu_of_statistics, smoothed=True),
    ),
    Metric(
        "rep", "", 2, False, signed("rep", "n:2|ngrams:1|words:2"),
        "REP-score: repetitions that the reference has not, per 100 reference words.",
        of_sums=percentage_of_sums,
    ),
    Metric(
        "drop", "%", 2, False, signed("drop", "aligner:fast_align|symmetry:grow-diag-final-and"),
        "DROP-score: source words aligned to the reference but not to the translation.",
        of_sums=percentage_of_sums,
    ),
    Metric(
        "meteor", "", 2, True, signed("meteor", "program:meteor-1.5|norm:no"),
        "METEOR 1.5 by its own program.",
        of_sums=meteor_of_statistics,
    ),
    Metric(
        "meteor_nltk", "", 2, True,
        signed("meteor_nltk", f"modules:exact,stem|mean:sentence|nltk:{version('nltk')}"),
        "METEOR of 2007 by NLTK, without synonyms, mean over sentences; not METEOR 1.5.",
        of_sums=percentage_of_sums,
    ),
)  # fmt: skip
