"""Base class of structures: a set of 0/1 vectors of parts, and an oracle for the best of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from repro.structures.kernels.codes import Array


class Inputs(NamedTuple):
    """Arguments of structured inference.

    Attributes:
        unary: scores ``(B, ...)``.
        additional: scores ``(B, ...)``, or transitions ``(n - 1, m, m)`` shared by the batch.
        lengths: ``(B, ...)`` or None.
        mask: like ``unary`` or None.
    """

    unary: Tensor
    additional: Tensor | None = None
    lengths: Tensor | None = None
    mask: Tensor | None = None


Solve = Callable[[Inputs], tuple[Any, ...]]
"""Returns tensors ``(B, ...)``, and anything else, which belongs to all instances together."""


def solve_below_transforms(solve: Solve, inputs: Inputs) -> tuple[Any, ...]:
    """Call a solver with plain tensors; mapped dimensions become part of the batch.

    What the solver returns gets no derivative.
    """
    unary, additional, lengths, mask = inputs
    if not torch._C._are_functorch_transforms_active():
        return solve(inputs)
    if additional is not None:
        additional = additional.detach()
        if additional.dim() == 3:
            additional = additional.expand(len(unary), *additional.shape)
    found: tuple[Any, ...] = _Solver.apply(unary.detach(), additional, lengths, mask, solve)
    return found


class _Solver(Function):
    """The solver as a function without derivative, of the inputs and then the solver."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Any, ...]:
        *inputs, solve = arguments
        found: tuple[Any, ...] = solve(Inputs(*inputs))
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.mark_non_differentiable(*(part for part in output if isinstance(part, Tensor)))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, ...]:
        return None, None, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *arguments: Any
    ) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
        *tensors, solve = arguments

        def fold(tensor: Tensor | None, dim: int | None) -> Tensor | None:
            if tensor is None:
                return None
            each = info.batch_size, *tensor.shape
            return (tensor.expand(each) if dim is None else tensor.movedim(dim, 0)).flatten(0, 1)

        folded = [fold(tensor, dim) for tensor, dim in zip(tensors, in_dims, strict=False)]
        found = _Solver.apply(*folded, solve)
        unfolded = tuple(
            part.unflatten(0, (info.batch_size, -1)) if isinstance(part, Tensor) else part
            for part in found
        )
        return unfolded, tuple(0 if isinstance(part, Tensor) else None for part in found)


NO_TRANSITIONS = torch.zeros(1, 0, 0, 0, dtype=torch.float64)
"""Additional scores of a structure that has none."""


class InfeasibleError(ValueError):
    """All structures of an instance are forbidden."""


@dataclass(frozen=True)
class Problem:
    """Checked scores, as the kernels take them: on the CPU, without history.

    Args:
        code: which structure, see ``kernels/codes.py``.
        unary: ``(B, R, C)`` in double precision; forbidden parts have ``-inf``.
        additional: ``(B, ...)`` or, where it is shared by the batch, ``(1, ...)``; in double
            precision too, as kernels take a minute to compile for a second type.
        sizes: ``(B, 2)`` rows and columns that count.
        width: entries of a stored vertex.
    """

    code: int
    unary: Tensor
    additional: Tensor
    sizes: Tensor
    width: int

    def subset(self, rows: np.ndarray) -> "Problem":
        """Some instances of the batch."""
        own = self.additional[rows] if len(self.additional) > 1 else self.additional
        return Problem(self.code, self.unary[rows], own, self.sizes[rows], self.width)

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Unary and additional scores and sizes, as compiled code takes them."""
        return self.unary.numpy(), self.additional.numpy(), self.sizes.numpy()

    @property
    def all_scores(self) -> Tensor:
        """Unary and additional scores of an oracle in Python, ``(B, parts)``."""
        return torch.cat([self.unary.flatten(1), self.additional], dim=1)


class Structure(ABC):
    """A family of structures with a compiled MAP oracle.

    A structure is given as a vector of integers, its vertex: the tag of each item, the head of
    each word, the column of each row. Entries that do not exist are -1.
    """

    def problem(
        self,
        unary: Tensor,
        additional: Tensor | None = None,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Problem:
        """Check the scores and bring them into the form of the kernels.

        Raises:
            ValueError: shapes, types or lengths do not fit.
        """
        return self.checked(Inputs(unary, additional, lengths, mask))

    @abstractmethod
    def checked(self, inputs: Inputs) -> Problem:
        """Return :meth:`problem` of some inputs."""

    @abstractmethod
    def vertices(self, stored: Tensor, problem: Problem) -> Tensor:
        """Bring structures ``(B, K, width)`` from the form of the kernels into that of users."""

    def score(self, vertex: Tensor, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Scores of structures, differentiable.

        Args:
            vertex: ``(B, V)``, or ``(B, K, V)`` for several structures of each instance.
            unary: scores of unary parts.
            additional: scores of additional parts.

        Returns:
            ``(B,)`` or ``(B, K)``.
        """
        no_additional(additional, type(self).__name__)
        return gathered(unary, vertex)

    def unary_mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor:
        """Sums of the unary parts of weighted structures, differentiable in the weights.

        Args:
            vertices: ``(B, K, V)``, -1 where there is none.
            weights: ``(B, K)``.
            like: unary scores, for the shape of the result.
        """
        return weighted_parts(like, vertices, weights)

    def indicator(self, vertex: Tensor, unary: Tensor) -> Tensor:
        """The unary parts of structures ``(B, V)`` as 0/1 vectors, in the shape of ``unary``."""
        return self.unary_mixture(vertex.unsqueeze(1), unary.new_ones(len(vertex), 1), unary)

    def mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor | None:
        """Marginals of additional parts of weighted structures; ``None`` where there are none."""
        return None

    def log_partition(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Logarithm of the sum of ``exp(score)`` over all structures, ``(B,)``, differentiable.

        Args:
            unary: scores of unary parts; ``-inf`` forbids a part.
            additional: scores of additional parts.
            lengths: sizes of the instances in a padded batch.

        Raises:
            NotImplementedError: the sum is intractable (for matchings: #P-complete).
        """
        raise NotImplementedError(f"marginal inference is intractable in {type(self).__name__}")

    def marginals(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Probabilities of unary and additional parts (Niculae et al. 2018, Eq. 4), differentiable.

        The structures have probabilities in proportion to ``exp(score)``. Arguments are those of
        :meth:`log_partition`.

        Returns:
            Like ``unary`` and ``(B, ...)`` like ``additional``, or None without any; exactly zero
            at what does not exist, and everywhere where no structure is allowed.

        Raises:
            NotImplementedError: marginals are intractable.
        """
        raise NotImplementedError(f"marginal inference is intractable in {type(self).__name__}")

    def map(
        self,
        unary: Tensor,
        additional: Tensor | None = None,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The structure with the largest score, for each instance (Niculae et al. 2018, Eq. 3).

        Args:
            unary: scores of unary parts; ``-inf`` forbids a part.
            additional: scores of additional parts.
            lengths: sizes of the instances in a padded batch.
            mask: like ``unary``, True where a part is allowed.

        Returns:
            Vertices ``(B, V)``, on the device of the scores. Of tied structures any, always the
            same.

        Raises:
            ValueError: shapes do not fit, or scores are NaN or +inf.
            InfeasibleError: an instance has no allowed structure.
        """
        from repro.structures.solving import best_vertices

        def solve(inputs: Inputs) -> tuple[Tensor]:
            problem = self.checked(inputs)
            stored = best_vertices(problem).unsqueeze(1)
            return (self.vertices(stored, problem).squeeze(1).to(inputs.unary.device),)

        inputs = Inputs(unary, additional, lengths, mask)
        vertex: Tensor = solve_below_transforms(solve, inputs)[0]
        return vertex


def checked_unary(unary: Tensor, mask: Tensor | None, axes: str) -> Tensor:
    """Unary scores in double precision on the CPU, ``-inf`` where masked."""
    names = axes.split()
    if unary.dim() != len(names):
        raise ValueError(f"unary scores ({', '.join(names)}) expected, got {tuple(unary.shape)}")
    if not unary.is_floating_point():
        raise ValueError(f"unary scores must be floating point, not {unary.dtype}")
    scores = unary.detach()
    if mask is not None:
        if mask.dtype != torch.bool:
            raise ValueError(f"the mask must be boolean, not {mask.dtype}")
        scores = scores.masked_fill(~mask, -torch.inf)
        if scores.shape != unary.shape:
            raise ValueError(f"the mask must have the shape {tuple(unary.shape)} of the scores")
    return scores.to("cpu", torch.float64).contiguous()


def checked_lengths(lengths: Tensor | None, batch: int, largest: tuple[int, ...]) -> Tensor:
    """Lengths ``(B, axes)`` on the CPU; full lengths by default."""
    full = torch.tensor(largest).expand(batch, len(largest))
    if lengths is None:
        return full
    found = lengths.detach().to("cpu")
    if found.is_floating_point() or found.dtype == torch.bool:
        raise ValueError(f"lengths must be integers, not {found.dtype}")
    shape = (batch, len(largest)) if len(largest) > 1 else (batch,)
    if found.shape != shape:
        raise ValueError(f"lengths {shape} expected, got {tuple(found.shape)}")
    found = found.to(torch.int64).view(batch, len(largest))
    wrong = ((found < 0) | (found > full)).any(dim=1).nonzero()
    if wrong.numel():
        first = int(wrong[0])
        raise ValueError(
            f"instance {first}: length {found[first].tolist()} is not in 0..{list(largest)}"
        )
    return found


def no_additional(additional: Tensor | None, name: str) -> None:
    """Refuse additional scores where the structure has no additional parts."""
    if additional is not None:
        raise ValueError(f"{name} has no additional parts, but additional scores were given")


def gathered(scores: Tensor, vertex: Tensor) -> Tensor:
    """Sums of the scores ``(B, S, A)`` of the values that vertices ``(B, ..., S)`` choose."""
    batch = torch.arange(vertex.size(0), device=vertex.device)
    batch = batch.view(-1, *[1] * (vertex.dim() - 1))
    slots = torch.arange(vertex.size(-1), device=vertex.device)
    chosen = scores[batch, slots, vertex.clamp(min=0)]
    return torch.where(vertex >= 0, chosen, 0.0).sum(-1)


def weighted_parts(like: Tensor, vertices: Tensor, weights: Tensor) -> Tensor:
    """Sums of ``weights (B, K)`` at the values that ``vertices (B, K, S)`` choose.

    The result has the shape ``(B, S, A)`` of ``like`` and the type of the weights.
    """
    shares = torch.where(vertices >= 0, weights.unsqueeze(-1), 0.0)
    places = vertices.clamp(min=0).transpose(1, 2)
    return weights.new_zeros(like.shape).scatter_add(-1, places, shares.transpose(1, 2))


@dataclass(frozen=True)
class Selection:
    """The selected structures of a batch, one instance after the other.

    Args:
        problem: what was solved.
        marginals: ``(B, R, C)`` in double precision.
        vertices: ``(N, width)`` structures in the form of the kernels.
        weights: ``(N,)``.
        inverses: for each instance the square inverse of ``H`` (see ``kernels/gram.py``), flat.
        counts: ``(B,)`` structures of each instance.
        rounds: ``(B,)`` oracle calls.
        gaps: ``(B,)`` Frank-Wolfe gaps.
        converged: ``(B,)``.
    """

    problem: Problem
    marginals: Tensor
    vertices: Array
    weights: Array
    inverses: Array
    counts: Array
    rounds: Array
    gaps: Array
    converged: Array

    @property
    def offsets(self) -> Array:
        """``(B + 1,)`` where the structures of an instance begin."""
        return starts(self.counts)

    @property
    def places(self) -> tuple[Array, Array]:
        """Instance and position of each structure in a padded array."""
        rows = np.repeat(np.arange(len(self.counts)), self.counts)
        return rows, np.arange(len(rows)) - self.offsets[rows]

    def padded(self, values: Array, fill: int = 0) -> Array:
        """Numbers ``(N, ...)`` of structures as ``(B, K, ...)``, ``fill`` where there is none."""
        shape = len(self.counts), int(self.counts.max(initial=0)), *values.shape[1:]
        table = np.full(shape, fill, values.dtype)
        table[self.places] = values
        return table

    @property
    def squares(self) -> Array:
        """``(B + 1,)`` where the inverse of an instance begins."""
        return starts(self.counts**2)

    def replaced(self, rows: Array, by: "Selection") -> "Selection":
        """Selection with the solutions of some instances replaced.

        Args:
            rows: which instances.
            by: their solutions, in this order; its problem is not used.
        """

        def values(own: Array, other: Array) -> Array:
            own = own.copy()
            own[rows] = other
            return own

        def pieces(own: Array, ends: Array, other: Array, other_ends: Array) -> Array:
            parts = np.split(own, ends[1:-1])
            for row, part in zip(rows, np.split(other, other_ends[1:-1]), strict=True):
                parts[row] = part
            return np.concatenate(parts)

        return Selection(
            problem=self.problem,
            marginals=torch.from_numpy(values(self.marginals.numpy(), by.marginals.numpy())),
            vertices=pieces(self.vertices, self.offsets, by.vertices, by.offsets),
            weights=pieces(self.weights, self.offsets, by.weights, by.offsets),
            inverses=pieces(self.inverses, self.squares, by.inverses, by.squares),
            counts=values(self.counts, by.counts),
            rounds=values(self.rounds, by.rounds),
            gaps=values(self.gaps, by.gaps),
            converged=values(self.converged, by.converged),
        )


def starts(counts: Array) -> Array:
    """Start offsets of the groups, then the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
