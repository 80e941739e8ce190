r"""Rescoring of finished hypotheses by their length and by how much of the source they attended."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from repro.decoding.search import Hypothesis


@dataclass(frozen=True)
class Penalties:
    r"""Parameters of the global score by which finished hypotheses are ranked.

    .. math:: s(y) = \frac{\log p(y \mid x)}{lp(y)}
              + \beta \sum_j \log \max\Big\{\epsilon, \min\Big\{1, \sum_t \alpha_{jt}\Big\}\Big\},
              \qquad lp(y) = \left( \frac{5 + |y|}{6} \right)^{\alpha}

    ``|y|`` counts EOS, if the hypothesis is finished.

    Attributes:
        length: ``α``; zero for no length normalization.
        coverage: ``β``; zero for no coverage penalty.
        floor: ``ε`` in (0, 1]: sparse attention may give a word exactly zero in total.

    References:
        Wu et al. (2016), §7, Eq. 14; Malaviya et al. (2018), §5, footnote 5, for ``ε``.
    """

    length: float = 0.0
    coverage: float = 0.0
    floor: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.floor <= 1:
            raise ValueError(f"floor must lie in (0, 1], got {self.floor}")

    def score(self, hypothesis: Hypothesis) -> float:
        """Compute the global score ``s(y)``.

        Raises:
            ValueError: there is a coverage penalty, and the hypothesis kept no attention.
        """
        steps = len(hypothesis.step_probabilities)
        normalized = hypothesis.log_probability / ((5 + steps) / 6) ** self.length
        if not self.coverage:
            return normalized
        if hypothesis.attention is None:
            raise ValueError("a coverage penalty needs hypotheses that keep their attention")
        coverage: list[float] = hypothesis.attention.double().sum(0).tolist()
        logarithms = (math.log(max(self.floor, min(1.0, total))) for total in coverage)
        return normalized + self.coverage * sum(logarithms)


def rescored(hypotheses: Sequence[Hypothesis], penalties: Penalties) -> list[Hypothesis]:
    """Sort hypotheses by global score, highest first; ties keep their order.

    Raises:
        ValueError: there is a coverage penalty, and a hypothesis kept no attention.
    """
    return sorted(hypotheses, key=penalties.score, reverse=True)
