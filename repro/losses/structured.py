r"""Structured Fenchel–Young losses: one theorem, with the inference plugged in.

.. math:: \ell_\Omega(\eta, y) = \Omega^*(A^\top \eta) + \Omega(y) - \langle \eta, A y \rangle

(Niculae et al., 2018, Eq. 6). Each regulariser ``Ω`` is one kind of inference:

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

import torch
from torch import Tensor, nn

from repro.losses.fenchel_young import check_loss_settings
from repro.losses.inference import (
    Inference,
    MapInference,
    MarginalInference,
    Prediction,
    ScoredBatch,
    SparsemapInference,
)
from repro.losses.reduction import Reduction, reduce_losses
from repro.losses.target import checked_target
from repro.structures import Structure
from repro.structures.active_set import MAX_ITER


class StructuredLoss(nn.Module):
    r"""The structured Fenchel–Young loss of one kind of inference.

    .. math:: \ell(\eta, \bar y) = \Omega^*(A^\top \eta') + \Omega(\bar y) - \langle \eta', A \bar y
              \rangle, \qquad \eta' = \eta + c \, [1 - M \bar y; 0]

    Its gradient is ``A(y* - ȳ)``, with ``y*`` what inference finds at ``η'``. It is nonnegative,
    convex in the scores, and zero exactly if ``ȳ`` is as good as ``y*`` for inference (Proposition
    2). The gradient is a constant for autograd except that of the CRF losses: there are no second
    derivatives through MAP and SparseMAP here.

    Args:
        structure: what is predicted.
        inference: maximises ``⟨η, Ay⟩ - Ω(y)``.
        cost: ``c``, the Hamming cost of each wrong unary part (tag, head or pair).
        reduction: ``"mean"`` or ``"sum"`` over instances, or ``"none"``.

    Raises:
        ValueError: the reduction is none of these, or the cost is negative.
    """

    def __init__(
        self,
        structure: Structure,
        inference: Inference,
        cost: float = 0.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        check_loss_settings(reduction, 0.0)
        if not cost >= 0:
            raise ValueError(f"cost must not be negative, got {cost}")
        self.structure = structure
        self.inference = inference
        self.cost = cost
        self.reduction = reduction

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        lengths: Tensor | None = None,
        additional: Tensor | None = None,
    ) -> Tensor:
        """Return the loss.

        Args:
            scores: unary scores ``η_U``, as the structure takes them.
            target: one structure for each instance, as ``structure.map`` returns it: tags
                ``(B, n)``, heads ``(B, n)`` of the words (or ``(B, n+1)`` with the root in front),
                or the column of each row, -1 without one. Entries past the length are ignored.
            lengths: sizes of the instances, as the structure takes them; all full if None.
            additional: scores ``η_F``, where the structure takes them.

        Returns:
            A scalar, or shape ``(B,)`` with ``reduction="none"``, in the dtype of the scores;
            ``+inf`` where the target has a part whose score is ``-inf``.

        Raises:
            ValueError: shapes, types or lengths do not fit, or the target names no part.
        """
        vertex = checked_target(self.structure, target, scores, lengths)
        gold = self.structure.indicator(vertex, scores.detach().double())
        wide = scores.double() + self.cost * (1 - gold)
        extra = None if additional is None else additional.double()
        best = self.inference.conjugate(ScoredBatch(self.structure, wide, extra, lengths))
        losses = best + self.inference.omega(gold) - self.structure.score(vertex, wide, extra)
        losses = losses - losses.detach().clamp(max=0)
        counted = torch.zeros_like(losses, dtype=torch.bool)
        return reduce_losses(losses, counted, self.reduction).to(scores.dtype)

    def predict(
        self, scores: Tensor, lengths: Tensor | None = None, additional: Tensor | None = None
    ) -> Prediction:
        """Run the inference that this loss trains: at the scores, without any cost.

        Args:
            scores: as in :meth:`forward`.
            lengths: as there.
            additional: as there.
        """
        return self.inference.predict(ScoredBatch(self.structure, scores, additional, lengths))

    def extra_repr(self) -> str:
        """Show the settings."""
        return f"{self.structure!r}, cost={self.cost}, reduction={self.reduction!r}"


class StructuredPerceptronLoss(StructuredLoss):
    """The margin-free loss of MAP inference (Collins, 2002): ``max_y ⟨η, Ay⟩ - ⟨η, Aȳ⟩``."""

    def __init__(self, structure: Structure, reduction: Reduction = "mean") -> None:
        super().__init__(structure, MapInference(), 0.0, reduction)


class StructuredSVMLoss(StructuredLoss):
    """The structured hinge loss (Taskar et al., 2003; Tsochantaridis et al., 2004)."""

    def __init__(
        self, structure: Structure, cost: float = 1.0, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(structure, MapInference(), cost, reduction)


class CRFLoss(StructuredLoss):
    """The negative log-likelihood of a conditional random field (Lafferty et al., 2001)."""

    def __init__(self, structure: Structure, reduction: Reduction = "mean") -> None:
        super().__init__(structure, MarginalInference(), 0.0, reduction)


class MarginCRFLoss(StructuredLoss):
    """The softmax-margin loss (Gimpel & Smith, 2010)."""

    def __init__(
        self, structure: Structure, cost: float = 1.0, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(structure, MarginalInference(), cost, reduction)


class SparseMAPLoss(StructuredLoss):
    """The SparseMAP loss (Niculae et al., 2018, §4).

    Args:
        structure: as in :class:`StructuredLoss`.
        max_iter: bound on the solver's iterations. Where it stops early the loss is too small by
            the solution's gap at most, and the gradient is that of the mixture found.
        tol: gap at which the solver stops; None as in :func:`repro.structures.sparsemap`.
        reduction: as in :class:`StructuredLoss`.
    """

    def __init__(
        self,
        structure: Structure,
        max_iter: int = MAX_ITER,
        tol: float | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(structure, SparsemapInference(max_iter, tol), 0.0, reduction)


class MarginSparseMAPLoss(StructuredLoss):
    """The SparseMAP loss with a margin; see :class:`SparseMAPLoss` for the solver's settings."""

    def __init__(
        self,
        structure: Structure,
        cost: float = 1.0,
        max_iter: int = MAX_ITER,
        tol: float | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(structure, SparsemapInference(max_iter, tol), cost, reduction)
