r"""Structured Fenchel–Young losses: one formula for every kind of inference.

.. math:: \ell_\Omega(\eta, y) = \Omega^*(A^\top \eta) + \Omega(y) - \langle \eta, A y \rangle

(Niculae et al., 2018, Eq. 6). Each regularizer ``Ω`` is one kind of inference:

========================  ==============  =========  =======================
loss                      ``Ω(y)``        inference  with a margin
========================  ==============  =========  =======================
StructuredPerceptronLoss  0               MAP        StructuredSVMLoss
CRFLoss                   ``-H(y)``       marginal   MarginCRFLoss
SparseMAPLoss             ``½ ‖M y‖²``    SparseMAP  MarginSparseMAPLoss
========================  ==============  =========  =======================

A margin subtracts a cost ``ρ(y, ȳ)`` from ``Ω``. (The paper prints a plus; the cost-augmented
maximum of Tsochantaridis et al., 2004, needs the minus.) The Hamming cost is linear in ``y`` and
zero at ``ȳ``, so this is the same loss at scores to which the cost of every wrong part is added.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.losses.fenchel_young import Reduction, check_reduction, reduce_losses
from repro.structures import ConvergenceWarning, Solution, Structure, sparsemap
from repro.structures.active_set import MAX_ITER
from repro.structures.problem import copied

_HOST = torch.device("cpu")


@dataclass(frozen=True)
class Prediction:
    """Result of inference for a batch of scores.

    Attributes:
        marginals: ``u``, like the scores.
        additional: ``v``, like the additional scores, or None.
        solution: the selected structures and their weights; None unless inference is SparseMAP.
    """

    marginals: Tensor
    additional: Tensor | None
    solution: Solution | None = None


class StructuredLoss(nn.Module, ABC):
    r"""Structured Fenchel–Young loss; a subclass defines ``Ω`` by its inference.

    .. math:: \ell(\eta, \bar y) = \Omega^*(A^\top \eta') + \Omega(\bar y) - \langle \eta', A \bar y
              \rangle, \qquad \eta' = \eta + c \, [1 - M \bar y; 0]

    Its gradient is ``A(y* - ȳ)``, where ``y*`` is the maximizer found by inference at ``η'``. The
    loss is nonnegative, convex in the scores, and zero exactly if ``ȳ`` is a maximizer too
    (Proposition 2). Only the CRF losses have second derivatives; autograd treats the gradients of
    the others as constants.

    Args:
        structure: kind of structure to predict.
        cost: ``c``, the Hamming cost of each wrong unary part (tag, head or pair).
        reduction: ``"mean"`` or ``"sum"`` over instances, or ``"none"``.

    Raises:
        ValueError: the reduction is unknown, or the cost is negative.
    """

    def __init__(
        self, structure: Structure, cost: float = 1.0, reduction: Reduction = "mean"
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        if not cost >= 0:
            raise ValueError(f"cost must not be negative, got {cost}")
        self.structure = structure
        self.cost = cost
        self.reduction = reduction

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        lengths: Tensor | None = None,
        additional: Tensor | None = None,
        check_target: bool = True,
    ) -> Tensor:
        """Return the loss.

        Args:
            scores: unary scores ``η_U``, as the structure takes them.
            target: one structure for each instance, as ``structure.map`` returns it: tags
                ``(B, n)``, heads ``(B, n)`` of the words (or ``(B, n+1)`` with the root in front),
                the column of each row, -1 without one, or the 0/1 parts of other structures, also
                in the shape of the scores. Entries past the length are ignored by the built-in
                structures and must be 0 for others.
            lengths: sizes of the instances, as the structure takes them; None if all are full.
            additional: scores ``η_F``, if the structure has additional parts.
            check_target: whether to validate the target by a MAP solve on the CPU. If False, it
                must have the form that ``structure.map`` returns, as when it was validated where
                the data were read.

        Returns:
            A scalar, or shape ``(B,)`` with ``reduction="none"``, in the dtype of the scores;
            ``+inf`` where the target has a part whose score is ``-inf``.

        Raises:
            ValueError: shapes, dtypes or lengths do not fit, or a target is not a valid structure.
        """
        vertex = target
        if check_target:
            vertex = self.structure.checked_target(target, scores, additional, lengths)
        gold = self.structure.indicator(vertex, scores.detach().double())
        wide = scores.double() + self.cost * (1 - gold)
        extra = None if additional is None else additional.double()
        best = self.conjugate(wide, lengths, extra)
        # Without any allowed structure the maximum is -inf; the loss is +inf, as documented.
        best = best.masked_fill(best == -torch.inf, 0.0)
        losses = best + self.omega(gold) - self.structure.score(vertex, wide, extra)
        losses = losses - losses.detach().clamp(max=0)
        ignored = torch.zeros_like(losses, dtype=torch.bool)
        return reduce_losses(losses, ignored, self.reduction).to(scores.dtype)

    @abstractmethod
    def predict(
        self, scores: Tensor, lengths: Tensor | None = None, additional: Tensor | None = None
    ) -> Prediction:
        """Return the parts ``A y*`` of the maximizer of ``⟨η, Ay⟩ - Ω(y)`` over mixtures ``y``.

        Arguments are as in :meth:`forward`; no cost is added to the scores.
        """

    @abstractmethod
    def conjugate(self, scores: Tensor, lengths: Tensor | None, extra: Tensor | None) -> Tensor:
        """Return the maximum ``Ω*(Aᵀη)``, ``(B,)``, whose gradient is ``A y*``."""

    def omega(self, vertex: Tensor) -> Tensor:
        """Return ``Ω`` of single structures, given as unary parts ``(B, ...)``: zero, ``(B,)``."""
        return vertex.new_zeros(vertex.size(0))

    def extra_repr(self) -> str:
        """Show the settings."""
        return f"{type(self.structure).__name__}, cost={self.cost}, reduction={self.reduction!r}"


class StructuredSVMLoss(StructuredLoss):
    """Structured hinge loss (Taskar et al., 2003; Tsochantaridis et al., 2004).

    Inference is MAP, ``Ω = 0``: the structure with the highest score.
    """

    def predict(
        self, scores: Tensor, lengths: Tensor | None = None, additional: Tensor | None = None
    ) -> Prediction:
        """Return the parts of the best structure."""
        best, pairs = self.structure.map(scores, additional, lengths), None
        if additional is not None:
            one = scores.new_ones(len(best), 1)
            pairs = self.structure.mixture(best[:, None], one, additional)
        return Prediction(self.structure.indicator(best, scores), pairs)

    def conjugate(self, scores: Tensor, lengths: Tensor | None, extra: Tensor | None) -> Tensor:
        """Return the score of the best structure."""
        best = self.structure.map(scores, extra, lengths)
        return self.structure.score(best, scores, extra)


class StructuredPerceptronLoss(StructuredSVMLoss):
    """Structured perceptron loss (Collins, 2002): ``max_y ⟨η, Ay⟩ - ⟨η, Aȳ⟩``."""

    def __init__(self, structure: Structure, reduction: Reduction = "mean") -> None:
        super().__init__(structure, 0.0, reduction)


class MarginCRFLoss(StructuredLoss):
    """Softmax-margin loss (Gimpel & Smith, 2010).

    Inference is marginal, ``Ω = -H``: structures are weighted by ``exp`` of their scores. It runs
    on the CPU, as it takes many small steps, each of which depends on the one before.
    """

    def predict(
        self, scores: Tensor, lengths: Tensor | None = None, additional: Tensor | None = None
    ) -> Prediction:
        """Return the probabilities of the parts."""
        unary, extra = self.structure.marginals(
            copied(scores, _HOST), copied(additional, _HOST), copied(lengths, _HOST)
        )
        return Prediction(copied(unary, scores.device), copied(extra, scores.device))

    def conjugate(self, scores: Tensor, lengths: Tensor | None, extra: Tensor | None) -> Tensor:
        """Return the log-partition function."""
        total = self.structure.log_partition(
            copied(scores, _HOST), copied(extra, _HOST), copied(lengths, _HOST)
        )
        return copied(total, scores.device)


class CRFLoss(MarginCRFLoss):
    """Negative log-likelihood of a conditional random field (Lafferty et al., 2001)."""

    def __init__(self, structure: Structure, reduction: Reduction = "mean") -> None:
        super().__init__(structure, 0.0, reduction)


class MarginSparseMAPLoss(StructuredLoss):
    """SparseMAP loss with a margin (Niculae et al., 2018, §4).

    Inference is SparseMAP, ``Ω(y) = ½ ‖M y‖²``: a mixture of few structures.

    ``max_iter`` and ``tol`` are those of :func:`repro.structures.sparsemap`, other arguments those
    of :class:`StructuredLoss`. If the solver stops early, the loss is too small by at most the gap
    of the solution, and the gradient is that of the mixture found.
    """

    def __init__(
        self,
        structure: Structure,
        cost: float = 1.0,
        max_iter: int = MAX_ITER,
        tol: float | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(structure, cost, reduction)
        self.max_iter = max_iter
        self.tol = tol

    def predict(
        self, scores: Tensor, lengths: Tensor | None = None, additional: Tensor | None = None
    ) -> Prediction:
        """Return the parts of the mixture and the solution, which tells whether it converged."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = sparsemap(
                self.structure, scores, additional, lengths=lengths,
                max_iter=self.max_iter, tol=self.tol,
            )  # fmt: skip
        return Prediction(solution.marginals, solution.additional, solution)

    def conjugate(self, scores: Tensor, lengths: Tensor | None, extra: Tensor | None) -> Tensor:
        """Return the score of the mixture minus its penalty."""
        with torch.no_grad():
            found = self.predict(scores, lengths, extra)
        value = _inner_product(found.marginals, scores) - self.omega(found.marginals)
        if extra is None or found.additional is None:
            return value
        return value + _inner_product(found.additional, extra)

    def omega(self, vertex: Tensor) -> Tensor:
        """Return half the squared norm of the unary parts."""
        return vertex.flatten(1).square().sum(-1) / 2


class SparseMAPLoss(MarginSparseMAPLoss):
    """SparseMAP loss (Niculae et al., 2018, §4); see :class:`MarginSparseMAPLoss`."""

    def __init__(
        self,
        structure: Structure,
        max_iter: int = MAX_ITER,
        tol: float | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(structure, 0.0, max_iter, tol, reduction)


def _inner_product(parts: Tensor, scores: Tensor) -> Tensor:
    """Return ``⟨parts, scores⟩`` of each instance, ``(B,)``; zero times infinity is zero."""
    return torch.where(parts != 0, parts * scores, 0.0).flatten(1).sum(-1)
