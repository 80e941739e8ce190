"""Metrics of dependency parsing, computed as in the CoNLL 2017 shared task."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from repro.evaluation.metrics.metric import Metric, signature
from repro.evaluation.sufficient_statistics import Statistics, percentage_of_sums, ratios


@dataclass(frozen=True)
class ParsedSentences:
    """Gold and predicted heads of each sentence; positions start at 1, the root is 0."""

    gold: Sequence[Sequence[int]]
    predicted: Sequence[Sequence[int]]

    @cached_property
    def correct(self) -> list[int]:
        """Number of words with the correct head in each sentence."""
        pairs = zip(self.gold, self.predicted, strict=True)
        return [sum(a == b for a, b in zip(*pair, strict=True)) for pair in pairs]


def uas(parsed: ParsedSentences) -> Statistics:
    """Count the correct heads and the words of each sentence.

    With gold words, precision, recall and F1 of the shared task's UAS all equal the share of words
    whose head is correct. Punctuation counts.

    References:
        Zeman et al. (2017), §5.
    """
    return Statistics(ratios(parsed.correct, [len(heads) for heads in parsed.gold]))


def exact_trees(parsed: ParsedSentences) -> Statistics:
    """Return for each sentence whether all of its heads are correct."""
    pairs = zip(parsed.correct, parsed.gold, strict=True)
    return Statistics(ratios([right == len(heads) for right, heads in pairs]))


METRICS = (
    Metric(
        "uas", "%", 2, True, signature("uas", "micro:word|punctuation:counted|tokens:gold"),
        "Share of words with the correct head, punctuation included, as in CoNLL 2017.",
        from_sums=percentage_of_sums, outputs=ParsedSentences, statistics=uas,
    ),
    Metric(
        "exact_trees", "%", 2, True, signature("exact", "micro:sentence|tokens:gold"),
        "Share of sentences with all heads correct.",
        from_sums=percentage_of_sums, outputs=ParsedSentences, statistics=exact_trees,
    ),
    Metric(
        "tree_loss", "", 4, False, signature("loss", "mean:sentence"),
        "Mean structured loss of a sentence.",
    ),
    Metric(
        "trees", "trees", 2, None, signature("trees", "mean:sentence|inference:sparsemap"),
        "Mean number of trees with nonzero weight.",
    ),
    Metric(
        "parents", "heads", 3, None, signature("parents", "mean:sentence|inference:sparsemap"),
        "Mean number of heads per word with nonzero probability, averaged over sentences.",
    ),
    Metric(
        "trees_ratio", "", 3, False, signature("treesratio", "validations:last/first"),
        "Mean number of trees in the last validation, divided by that in the first.",
    ),
    Metric(
        "parents_ratio", "", 3, False, signature("parentsratio", "validations:last/first"),
        "Mean number of heads per word in the last validation, divided by that in the first.",
    ),
    Metric(
        "single_tree", "%", 1, None, signature("single", "micro:sentence|inference:sparsemap"),
        "Share of sentences with all weight on a single tree.",
    ),
    Metric(
        "sentences_per_second", "sentences/s", 1, True, signature("speed", "clock:wall"),
        "Training sentences per second of wall time.",
    ),
    Metric(
        "inference_share", "", 3, None, signature("inference", "part:loss-forward|clock:wall"),
        "Share of training time spent in the loss with its structured inference.",
    ),
)  # fmt: skip
