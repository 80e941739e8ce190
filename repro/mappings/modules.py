"""Modules of the mappings, with the interface that models and losses use."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from repro.mappings._arguments import allowed_scores, center, integer, positive
from repro.mappings._conjugate import WithGradient, terms_in_r, tsallis
from repro.mappings._entmax import entmax, softmax, sparsemax


class ConvergenceWarning(UserWarning):
    """Warning that an iterative solver returns its best point, short of the tolerance asked for."""


class ProbabilityMap(nn.Module, ABC):
    r"""Base class of maps from scores to distributions, ``p = argmax_{q ∈ Δ} <q, z> - Ω(q)``.

    A subclass defines ``forward`` (the maximizer) and ``omega`` (the regularizer, zero on one-hot
    distributions unless ``omega_one_hot`` returns its value). One with learnable parameters, or
    with a more accurate formula for the maximum, also overrides ``conjugate_centered``.

    What holds for every mapping, function or module:

    Args:
        scores: ``z``, floating point, ``n`` on ``dim``; ``-inf`` forbids an entry.
        mask: boolean, broadcasts to ``scores``; True = allowed.
        dim: the axis that becomes a distribution.

    Returns:
        ``p``, like ``scores``; sums to one along ``dim``, exactly zero where masked. A row with
        nothing allowed is all zeros. NaN stays in its row.

    Raises:
        TypeError: scores are not floating point, the mask is not boolean, or a setting is not a
            number.
        ValueError: a setting is out of range or not finite, or a shape does not broadcast. Values
            of tensors are not read on an accelerator, under ``torch.compile`` or ``vmap``: there,
            rows with invalid values become NaN.
    """

    settings: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that ``repr`` shows, unless they are tensors."""
    bounded: ClassVar[bool] = False
    """Whether upper bounds are the second argument of every call."""

    def extra_repr(self) -> str:
        """Show the settings."""
        shown = ((name, getattr(self, name)) for name in self.settings)
        return ", ".join(f"{name}={x!r}" for name, x in shown if not isinstance(x, Tensor))

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return the distribution, with the shape and dtype of ``scores``."""

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``Ω(p)``, the shape of ``probs`` without ``dim``; zero on one-hot rows.

        Attention does not need it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no omega, which losses need")

    def value(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        r"""Return ``max_Ω(z) = <p, z> - Ω(p)``; its gradient is ``p``.

        There is at least one score on ``dim``. The result has the shape of ``scores`` without it;
        it is ``-inf`` for a row with nothing allowed.
        """
        wide = allowed_scores(scores, mask, dim)
        probs = self(wide, dim=dim)
        centered, top = center(wide.detach(), dim)
        best = self.conjugate_centered(centered, probs, dim) + top.squeeze(dim)
        maximum: Tensor = WithGradient.run(wide, probs, best, dim, None)
        return maximum.to(scores.dtype)

    def _keep(self, name: str, value: float | Tensor, check: Callable[[str, Any], float]) -> None:
        """Store a setting: a checked number or a parameter as it is, other tensors as buffers."""
        if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
            self.register_buffer(name, value)
        else:
            setattr(self, name, value if isinstance(value, Tensor) else check(name, value))

    def conjugate_centered(self, centered: Tensor, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``max_Ω(z)`` of centered scores, given the maximizer.

        By Danskin's theorem the maximizer counts as constant here: the result has gradients in the
        map's own parameters only.

        Args:
            centered: finite scores whose largest entry along ``dim`` is zero.
            probs: the distribution of these scores.
            dim: the axis of the distributions.
        """
        held = probs.detach()
        return (held * centered).sum(dim) - self.omega(held, dim)

    def omega_one_hot(self, centered: Tensor, chosen: Tensor, dim: int = -1) -> Tensor | float:
        """Return ``Ω(e_y)``, a term of the losses; zero unless a subclass overrides it.

        Args:
            centered: finite scores whose largest entry along ``dim`` is zero.
            chosen: ``y``, indices with size 1 on ``dim``.
            dim: the axis of the distributions.
        """
        return 0.0


class Softmax(ProbabilityMap):
    """Module form of :func:`softmax`, with ``Ω(p) = γ Σ p log p``."""

    settings = ("gamma",)

    def __init__(self, gamma: float = 1.0) -> None:
        super().__init__()
        self.gamma = positive("gamma", gamma)

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`softmax` of the scores."""
        return softmax(scores, gamma=self.gamma, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ Σ p log p``."""
        return self.gamma * tsallis(probs, 0.0, dim)

    def conjugate_centered(self, centered: Tensor, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``γ log Σ exp(z / γ)``."""
        return self.gamma * torch.logsumexp(centered / self.gamma, dim)


class _AlongDim(ProbabilityMap):
    """Base class of maps with an axis of their own, ``dim``, unless a call names another."""

    dim: int

    def value(self, scores: Tensor, mask: Tensor | None = None, dim: int | None = None) -> Tensor:
        """Return ``max_Ω`` of the scores; see the base class."""
        return super().value(scores, mask, self.dim if dim is None else dim)


class Sparsemax(_AlongDim):
    """Module form of :func:`sparsemax`, with ``Ω(p) = γ/2 (‖p‖² - 1)``.

    Args:
        gamma: strength of the regularizer.
        dim: the axis that becomes a distribution, unless a call names another.
    """

    settings = ("gamma", "dim")

    def __init__(self, gamma: float = 1.0, *, dim: int = -1) -> None:
        super().__init__()
        self.gamma = positive("gamma", gamma)
        self.dim = dim

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int | None = None) -> Tensor:
        """Return :func:`sparsemax` of the scores."""
        return sparsemax(scores, self.dim if dim is None else dim, gamma=self.gamma, mask=mask)

    def omega(self, probs: Tensor, dim: int | None = None) -> Tensor:
        """Return ``γ/2 (‖p‖² - 1)``."""
        return self.gamma * tsallis(probs, 1.0, self.dim if dim is None else dim)


class _TsallisMap(ProbabilityMap):
    """Base class of α-entmax with a given or a learned ``alpha``."""

    alpha: float | Tensor

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        """Return :func:`entmax` of the scores at the current alpha."""
        return entmax(scores, self.alpha, mask=mask, dim=dim)

    def omega(self, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``Σ (p^α - p) / (α (α - 1))``; ``Σ p log p`` at alpha 1."""
        return tsallis(probs, self.alpha - 1.0, dim)

    def conjugate_centered(self, centered: Tensor, probs: Tensor, dim: int = -1) -> Tensor:
        """Return ``<p, z> - Ω(p)``, differentiable in a tensor alpha."""
        r = self.alpha - 1.0
        if isinstance(r, float) and r == 0.0:
            return torch.logsumexp(centered, dim)
        held = probs.detach()
        best = (held * centered).sum(dim) - tsallis(held, r, dim)
        if not isinstance(r, Tensor):
            return best
        # The terms of -∂Ω/∂r at a fixed p, with their graph for second derivatives.
        terms = -terms_in_r(probs, r)
        each = r.to(terms.dtype).expand_as(terms)
        value: Tensor = WithGradient.run(each, terms, best.detach(), dim, None)
        return value


class Entmax(_TsallisMap):
    """Module form of :func:`entmax`, with ``Ω(p) = Σ (p^α - p) / (α (α - 1))``.

    Args:
        alpha: a number; a tensor with size 1 on the axis of the distributions, kept as a buffer;
            or an ``nn.Parameter``, learned without reparametrization.
    """

    settings: ClassVar[tuple[str, ...]] = ("alpha",)

    def __init__(self, alpha: float | Tensor = 1.5) -> None:
        super().__init__()
        self._keep("alpha", alpha, positive)


class Entmax15(_AlongDim, Entmax):
    """Module form of :func:`entmax15`.

    Args:
        dim: the axis that becomes a distribution, unless a call names another.
    """

    settings = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__(1.5)
        self.dim = dim

    def forward(self, scores: Tensor, mask: Tensor | None = None, dim: int | None = None) -> Tensor:
        """Return :func:`entmax15` of the scores."""
        return super().forward(scores, mask, self.dim if dim is None else dim)

    def omega(self, probs: Tensor, dim: int | None = None) -> Tensor:
        """Return ``Ω(p)`` at alpha 1.5; see :class:`Entmax`."""
        return super().omega(probs, self.dim if dim is None else dim)


class LearnedAlphaEntmax(_TsallisMap):
    """Module of α-entmax with one learned ``alpha = 1 + sigmoid(a)`` in ``(1, 2)`` per head.

    With several heads the scores are ``(..., heads, queries, keys)`` and the distributions lie on
    ``dim=-1`` (or ``-2``); alpha has shape ``(heads, 1, 1)``. With one head alpha is a scalar and
    the scores may have any shape.

    Args:
        heads: number of alphas.
        alpha: initial value of all of them, strictly between 1 and 2.

    References:
        Correia et al. (2019), §3.
    """

    def __init__(self, heads: int = 1, alpha: float = 1.5) -> None:
        super().__init__()
        if integer("heads", heads) < 1:
            raise ValueError(f"heads must be at least 1, got {heads}")
        if not 1 < alpha < 2:
            raise ValueError(f"the initial alpha must lie strictly between 1 and 2, got {alpha}")
        start = torch.logit(torch.tensor(alpha - 1.0, dtype=torch.float64)).float()
        self.logit = nn.Parameter(start if heads == 1 else start.repeat(heads, 1, 1))

    @property
    def alpha(self) -> Tensor:  # type: ignore[override]
        """Current alphas, shape ``()`` or ``(heads, 1, 1)``."""
        return 1 + torch.sigmoid(self.logit)

    def extra_repr(self) -> str:
        """Show the number of heads."""
        return f"heads={self.logit.numel()}"
