"""Base class of structures: families of 0/1 vectors of parts with a MAP oracle."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from repro.structures.kernels.codes import SEQUENCE, Array
from repro.structures.problem import (
    Instances,
    Layout,
    Scores,
    Selection,
    check_target,
    checked_lengths,
    checked_unary,
    no_additional,
    on_device,
    on_host,
    refuse_targets,
)


class Structure(ABC):
    """A family of structures, given by an oracle for the one with the largest score.

    A subclass needs :meth:`best` only: SparseMAP, its derivatives and the structured losses follow.
    A structure is represented by a vector of integers, its vertex ``(V,)``: zeros and ones for all
    parts, the unary ones first, in the order of the scores. :class:`LinearChain`,
    :class:`Arborescence` and :class:`Matching` have shorter vertices and compiled solvers.

    Attributes:
        has_additional: whether there are additional parts, which enter the linear term of SparseMAP
            but not the quadratic one.
    """

    has_additional: ClassVar[bool] = False

    @abstractmethod
    def best(
        self, scores: Tensor, lengths: Tensor | None, *additional: Tensor
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Find the structure with the largest sum of scores in each instance.

        It is called with some of the instances of a batch, on the CPU in double precision, and its
        answer for an instance must not depend on the others.

        Args:
            scores: scores of unary parts, ``(B, ...)``. A part with ``-inf`` is forbidden: by a
                mask, or because it is past the lengths.
            lengths: sizes of the instances, ``(B,)`` or ``(B, axes)``; None if all are full.
            additional: scores of additional parts ``(B, ...)`` if ``has_additional``; other
                structures need not declare it.

        Returns:
            Zeros and ones like ``scores``, the parts of the structures; with additional parts a
            pair, the second like ``additional``. If all structures of an instance are forbidden,
            any structure.
        """

    def map(
        self,
        unary: Tensor,
        additional: Tensor | None = None,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Find the highest-scoring structure of each instance (Niculae et al. 2018, Eq. 3).

        Args:
            unary: scores of unary parts; ``-inf`` forbids a part.
            additional: scores of additional parts.
            lengths: sizes of the instances in a padded batch.
            mask: like ``unary``, True where a part is allowed.

        Returns:
            Vertices ``(B, V)``, on the device of the scores. Which of several tied structures is
            found is unspecified, but deterministic.

        Raises:
            ValueError: shapes do not fit, or scores are NaN or +inf.
            InfeasibleError: an instance has no allowed structure.
        """
        problem = self.problem(Instances(unary, additional, lengths, mask))
        found = self.vertices(self.best_stored(problem)[:, None], problem)[:, 0]
        return on_device(found, unary.device, found.dtype)

    def score(self, vertex: Tensor, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Compute the scores of structures, differentiable in the scores of their parts.

        Vertices are ``(B, V)``, or ``(B, K, V)`` for several structures of each instance; the
        result is ``(B,)`` or ``(B, K)``.
        """
        scores = unary.flatten(1)
        if additional is not None:
            scores = torch.cat([scores, additional.flatten(1)], dim=-1)
        scores = scores.view(scores.size(0), *[1] * (vertex.dim() - 2), scores.size(-1))
        return torch.where(vertex[..., : scores.size(-1)] > 0, scores, 0.0).sum(-1)

    def unary_mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor:
        """Sum the unary parts of structures ``(B, K, V)`` with weights ``(B, K)``.

        The sum is shaped like the unary scores ``like``, and differentiable in the weights.
        """
        parts = vertices[..., : like.shape[1:].numel()].to(weights.dtype)
        return (weights.unsqueeze(1) @ parts).view(like.shape)

    def indicator(self, vertex: Tensor, unary: Tensor) -> Tensor:
        """Return the unary parts of structures ``(B, V)`` as 0/1 vectors shaped like ``unary``."""
        return self.unary_mixture(vertex.unsqueeze(1), unary.new_ones(len(vertex), 1), unary)

    def mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor | None:
        """Compute the marginals of additional parts of weighted structures; None without any."""
        if not self.has_additional:
            return None
        parts = vertices[..., vertices.size(-1) - like.shape[1:].numel() :].to(weights.dtype)
        return (weights.unsqueeze(1) @ parts).view(like.shape)

    def choices(self, vertices: Tensor, like: Tensor) -> Tensor:
        """Return the first column that structures ``(B, K, V)`` choose in each row of scores.

        Shape ``(B, K, rows)`` for unary scores ``like`` of ``(B, rows, columns)``; -1 without one.
        """
        parts = vertices[..., : like.shape[1:].numel()].unflatten(-1, like.shape[1:]) > 0
        return torch.where(parts.any(-1), parts.int().argmax(-1), -1)

    def checked_target(
        self,
        target: Tensor,
        unary: Tensor,
        additional: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Check one structure for each instance; return it as :meth:`map` does, ``(B, V)``.

        Targets are vertices, or unary parts in the shape of the scores; other arguments are those
        of :meth:`map`.

        Raises:
            ValueError: the target has a wrong shape or dtype, or is not a structure.
        """
        groups = [one for one in (unary, additional) if one is not None]
        parts = sum(one.shape[1:].numel() for one in groups)
        vertex = target.reshape(len(target), target.shape[1:].numel())
        check_target(vertex, (len(unary), parts), unary)
        refuse_targets(vertex, ((vertex != 0) & (vertex != 1)).any(-1), "has entries outside 0..1")
        self.refuse_invalid(vertex, lengths, *_split(2.0 * vertex - 1, groups))
        return vertex

    def refuse_invalid(
        self,
        vertex: Tensor,
        lengths: Tensor | None,
        signs: Tensor,
        additional: Tensor | None = None,
    ) -> None:
        """Raise ValueError for the first vertex that is not a structure, if any.

        If the parts of the target score 1 and all others -1, every other structure scores less. The
        oracle therefore returns the target, unless the target is not a structure.

        These scores are the ``signs`` of unary and of ``additional`` parts; the latter are None if
        the unary parts of the vertices ``(B, V)`` determine them.
        """
        wrong = (self.map(signs, additional, lengths) != vertex).any(-1)
        refuse_targets(vertex, wrong, f"is not a valid {type(self).__name__}")

    def log_partition(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Compute the differentiable log-sum of ``exp(score)`` over all structures, ``(B,)``.

        The arguments are those of :meth:`map`.

        Raises:
            NotImplementedError: the structure has no sum, or it is intractable (for matchings:
                #P-complete).
        """
        raise NotImplementedError(f"{type(self).__name__} has no marginal inference")

    def marginals(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Compute differentiable probabilities of all parts (Niculae et al. 2018, Eq. 4).

        The probability of a structure is proportional to ``exp(score)``. Probabilities of parts are
        the gradient of :meth:`log_partition`, with the same arguments and errors.

        Returns:
            Like ``unary``, and ``(B, ...)`` like ``additional`` or None without any; exactly zero
            in padding, and everywhere if no structure of an instance is allowed.
        """
        points = [unary] if additional is None else [unary, additional]
        attached = torch.is_grad_enabled() and any(point.requires_grad for point in points)
        with torch.enable_grad():
            unary, *rest = leaves = [
                p if p.requires_grad and attached else p.detach().requires_grad_() for p in points
            ]
            total = self.log_partition(unary, rest[0] if rest else None, lengths).sum()
            # Scores of no structure, as those of the transitions of one item, have gradient zero.
            marginals, *more = torch.autograd.grad(
                total, leaves, create_graph=attached, allow_unused=True, materialize_grads=True
            )
        return marginals, more[0] if more else None

    def problem(self, given: Instances) -> Any:
        """Check the scores and convert them to the form that the solver takes.

        Raises:
            ValueError: shapes, types or lengths do not fit.
        """
        unary, additional, lengths, _mask = given
        scores, name = checked_unary(given), type(self).__name__
        if not self.has_additional:
            no_additional(additional, name)
        elif additional is None or len(additional) != len(unary):
            found = None if additional is None else tuple(additional.shape)
            raise ValueError(f"{name} needs additional scores ({len(unary)}, ...), got {found}")
        else:
            additional = on_host(additional, torch.float64)
        if lengths is not None:
            axes = lengths.size(-1) if lengths.dim() == 2 else 1
            sizes = checked_lengths(lengths, len(unary), tuple(unary.shape[1 : 1 + axes]))
            for axis, size in enumerate(sizes.unbind(1), start=1):
                past = torch.arange(scores.size(axis)) >= size.unsqueeze(1)
                shape = [1] * scores.dim()
                shape[0], shape[axis] = past.shape
                scores = scores.masked_fill(past.view(shape), -torch.inf)
            lengths = sizes.view(lengths.shape)
        return Scores(scores, additional, lengths)

    def best_stored(self, problem: Any) -> Tensor:
        """Find the highest-scoring structures as the solver stores them, ``(B, width)``."""
        from repro.structures.solving import best_of_oracle

        return torch.from_numpy(best_of_oracle(self._ask(problem), problem)[0])

    def solve(
        self, problem: Any, tol: float, max_iter: int, start: Selection | None = None
    ) -> Selection:
        """Solve SparseMAP for :meth:`problem`; see :func:`repro.structures.sparsemap`."""
        from repro.structures.solving import solve_with_oracle

        if start is not None:
            raise ValueError("a start needs a structure with a compiled solver")
        return solve_with_oracle(self._ask(problem), problem, tol, max_iter)

    def vertices(self, stored: Tensor, problem: Any) -> Tensor:
        """Convert stored structures ``(B, K, width)``, filled with -1, to vertices."""
        return stored.to(torch.int64) + 1

    def layouts(self, selection: Selection) -> list[Layout]:
        """Return the layouts of unary and additional parts; a part is a slot with one value, 0."""
        batch, first = len(selection.counts), selection.problem.unary_parts
        groups = np.split(selection.vertices, [first], axis=1)
        shapes = [(batch, one.shape[1], 1) for one in groups]
        return [
            Layout(SEQUENCE, np.full((batch, 2), shape[1:]), np.ascontiguousarray(one), shape)
            for one, shape in zip(groups, shapes, strict=True)
        ]

    def _ask(self, problem: Scores) -> Callable[[Array, Array], Array]:
        """Return the oracle for flat scores ``(b, parts)`` of some rows of the batch.

        The oracle returns 0 for chosen parts and -1 for the others, the form in which the kernels
        compare structures: two share a part if their entries there are equal and not negative.
        """

        def ask(scores: Array, rows: Array) -> Array:
            unary, *additional = shaped = _split(torch.from_numpy(scores), problem.groups)
            lengths = None if problem.lengths is None else problem.lengths[rows]
            answer = self.best(unary, lengths, *additional)
            found = answer if isinstance(answer, tuple) else (answer,)
            if [one.shape for one in found] != [one.shape for one in shaped] or any(
                ((one != 0) & (one != 1)).any() for one in found
            ):
                expected = " and ".join(str(tuple(one.shape)) for one in shaped)
                raise ValueError(f"{type(self).__name__}.best must return 0/1 parts {expected}")
            chosen = torch.cat([one.flatten(1).to(torch.int32) for one in found], 1)
            return (chosen - 1).numpy()

        return ask


def _split(flat: Tensor, groups: list[Tensor]) -> list[Tensor]:
    """Split values of all parts, ``(b, parts)``, into tensors shaped like groups of scores."""
    pieces = flat.split([one.shape[1:].numel() for one in groups], 1)
    pairs = zip(pieces, groups, strict=True)
    return [piece.reshape(len(flat), *one.shape[1:]) for piece, one in pairs]
