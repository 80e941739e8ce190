"""Constrained softmax and sparsemax: distributions with an upper bound on every entry."""

from torch import Tensor

from repro.mappings._bounded import admit, bounded_value, constrained
from repro.mappings._conjugate import tsallis
from repro.mappings._masking import allowed_scores, cast_like
from repro.mappings.modules import ProbabilityMap


def csoftmax(scores: Tensor, upper: Tensor, *, mask: Tensor | None = None, dim: int = -1) -> Tensor:
    r"""Find the distribution closest to softmax that respects upper bounds.

    .. math:: p = \arg\min_{q \in \Delta^n,\, q \le u} \mathrm{KL}(q \parallel \mathrm{softmax}(z)),
              \qquad p_j = \min(\exp(z_j) / Z, u_j)

    Args:
        scores: ``z``, floating point, ``n`` on ``dim``; ``-inf`` forbids an entry.
        upper: ``u >= 0``, floating point, broadcasts to ``scores``; ``inf`` is no bound, zero is
            an exhausted one. It receives gradients.
        mask: boolean, broadcasts to ``scores``; True = allowed.
        dim: the axis that becomes a distribution.

    Returns:
        ``p``, like ``scores``; sums to one along ``dim``, nowhere above ``u``, exactly zero where
        masked or exhausted. Bounds that sum to one are returned. A row with nothing allowed is
        all zeros. NaN stays in its row.

    Raises:
        TypeError: scores or bounds are not floating point, or the mask is not boolean.
        ValueError: bounds are negative or NaN, or sum to less than one over the allowed entries
            of a row, in both cases by more than ``n`` roundings; or a shape does not broadcast.
            On an accelerator, under ``torch.compile`` or ``vmap`` values are not read; there,
            such rows come out as NaN.

    References:
        Malaviya et al. (2018), Eq. 4; Martins & Kreutzer (2017).
    """
    return _constrained(scores, upper, 0.0, mask, dim)


def csparsemax(
    scores: Tensor, upper: Tensor, *, mask: Tensor | None = None, dim: int = -1
) -> Tensor:
    r"""Project scores onto the distributions that respect upper bounds.

    .. math:: p = \arg\min_{q \in \Delta^n,\, q \le u} \lVert q - z \rVert_2^2,
              \qquad p_j = \max(0, \min(u_j, z_j - \tau))

    Args:
        scores: ``z``, floating point, ``n`` on ``dim``; ``-inf`` forbids an entry.
        upper: ``u >= 0``, floating point, broadcasts to ``scores``; ``inf`` is no bound, zero is
            an exhausted one. It receives gradients.
        mask: boolean, broadcasts to ``scores``; True = allowed.
        dim: the axis that becomes a distribution.

    Returns:
        ``p``, like ``scores``; sums to one along ``dim``, nowhere above ``u``, exactly zero where
        masked, exhausted or off the support. Bounds that sum to one are returned. A row with
        nothing allowed is all zeros. NaN stays in its row.

    Raises:
        TypeError: scores or bounds are not floating point, or the mask is not boolean.
        ValueError: bounds are negative or NaN, or sum to less than one over the allowed entries
            of a row, in both cases by more than ``n`` roundings; or a shape does not broadcast.
            On an accelerator, under ``torch.compile`` or ``vmap`` values are not read; there,
            such rows come out as NaN.

    References:
        Malaviya et al. (2018), Eq. 6 and Proposition 1.
    """
    return _constrained(scores, upper, 1.0, mask, dim)


def _constrained(
    scores: Tensor, upper: Tensor, order: float, mask: Tensor | None, dim: int
) -> Tensor:
    wide = allowed_scores(scores, mask, dim)
    if scores.size(dim) == 0:
        return scores.clone()
    return cast_like(scores, constrained(wide, upper, order, dim))


class BoundedMap(ProbabilityMap):
    """A map with upper bounds, which every call takes as its second argument."""

    order: float
    """Order of the Tsallis entropy ``-Ω``."""

    def forward(  # type: ignore[override]
        self, scores: Tensor, upper: Tensor, mask: Tensor | None = None, dim: int = -1
    ) -> Tensor:
        """Return the distribution, like ``scores``; arguments as of the function."""
        return _constrained(scores, upper, self.order, mask, dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``Ω(p)``, that of the map without bounds."""
        return tsallis(probs, self.order, dim)

    def value(  # type: ignore[override]
        self, scores: Tensor, upper: Tensor, mask: Tensor | None = None, dim: int = -1
    ) -> Tensor:
        """Return ``max <q, z> - Ω(q)`` over the distributions under the bounds.

        Its gradient is ``p`` in the scores and the multipliers in the bounds (zero for a bound
        that is not met; where several are possible, because no entry is free, also zero).

        Args:
            scores: ``z``, floating point, ``n >= 1`` on ``dim``; ``-inf`` forbids an entry.
            upper: ``u``, as for the map.
            mask: boolean, broadcasts to ``scores``; True = allowed.
            dim: the axis of the distributions.

        Returns:
            The shape of ``scores`` without ``dim``; ``-inf`` for a row with nothing allowed.
        """
        wide, bounds = admit(allowed_scores(scores, mask, dim), upper, dim)
        return bounded_value(wide, bounds, 1.0, self.order, dim).to(scores.dtype)


class Csoftmax(BoundedMap):
    """:func:`csoftmax` with ``Ω(p) = Σ p log p``.

    Where a bound is exhausted (zero) its multiplier is infinite; :meth:`value` reports zero.
    """

    order = 0.0


class Csparsemax(BoundedMap):
    """:func:`csparsemax` with ``Ω(p) = ½ (‖p‖² - 1)``."""

    order = 1.0
