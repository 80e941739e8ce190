"""Which example a figure shows: a rule, so that nobody picks the prettiest."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from repro.data.sentence_search import preference
from repro.report.examples import AttentionExample, LatticeExample
from repro.results import ResultsError

LONGEST_SOURCE = 30
SIZES = range(2, 5)

Example = TypeVar("Example", AttentionExample, LatticeExample)


def choose_attention(examples: Sequence[AttentionExample], prefer: Sequence[str]) -> int:
    """Choose a preferred text, else the longest source of at most 30 symbols, predicted correctly.

    Args:
        examples: of one run.
        prefer: texts to show if they are among the examples, the first one first: lemmas, alone or
            with their forms, or sentences; case, spaces and punctuation do not matter.

    Returns:
        Position of the example; ties go to the lowest ``index``. Without an example that fits,
        a correct prediction goes before a short source.

    Raises:
        ResultsError: there are no examples.
    """

    def merit(example: AttentionExample) -> tuple[float, ...]:
        length = len(example.source)
        fits = length <= LONGEST_SOURCE
        return (fits and example.correct, fits, length if fits else -length, -example.index)

    return _choose(examples, prefer, merit)


def choose_lattice(examples: Sequence[LatticeExample], prefer: Sequence[str]) -> int:
    """Choose a preferred lemma, else the most even complete set of two to four with the gold form.

    Args:
        examples: of one run.
        prefer: texts to show if they are among the examples, the first one first: lemmas, alone or
            with their forms, or sentences; case, spaces and punctuation do not matter.

    Returns:
        Position of the example; ties go to the lowest ``index``. Without an example that fits,
        complete sets go before others, then sets with the gold form.

    Raises:
        ResultsError: there are no examples.
    """

    def merit(example: LatticeExample) -> tuple[float, ...]:
        right_size = len(example.hypotheses) in SIZES
        fits = example.finite and right_size and example.has_gold
        # A hypothesis of another size than wanted may have any entropy: size counts first.
        return (
            fits,
            example.finite,
            right_size,
            example.has_gold,
            entropy(example),
            -example.index,
        )

    return _choose(examples, prefer, merit)


def entropy(example: LatticeExample) -> float:
    """Shannon entropy in nats of the listed hypotheses, their mass scaled to one."""
    total = sum(hypothesis.probability for hypothesis in example.hypotheses)
    if total == 0:
        return 0.0
    shares = [hypothesis.probability / total for hypothesis in example.hypotheses]
    return -sum(share * math.log(share) for share in shares if share > 0)


def _choose(
    examples: Sequence[Example],
    prefer: Sequence[str],
    merit: Callable[[Example], tuple[float, ...]],
) -> int:
    if not examples:
        raise ResultsError("the run kept no examples to draw")
    places = [preference(example.names, prefer) for example in examples]
    return max(range(len(examples)), key=lambda n: (-places[n], *merit(examples[n])))
