"""Base class of structures, 0/1 vectors of parts with a MAP oracle, and the data of solvers."""

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
        unary: scores of unary parts, ``(B, ...)``.
        additional: scores of additional parts ``(B, ...)``, or transitions ``(n - 1, m, m)`` shared
            by the batch.
        lengths: sizes of the instances in a padded batch, ``(B, ...)``, or None.
        mask: True where a part is allowed, like ``unary``, or None.
    """

    unary: Tensor
    additional: Tensor | None = None
    lengths: Tensor | None = None
    mask: Tensor | None = None


Solve = Callable[[Inputs], tuple[Any, ...]]
"""Solver called below ``torch.func`` transforms.

It returns first tensors ``(B, ...)``, then objects about the whole batch.
"""


def solve_below_transforms(solve: Solve, inputs: Inputs) -> tuple[Any, ...]:
    """Call a solver with plain tensors, below the transforms of ``torch.func``.

    Dimensions mapped by ``vmap`` are folded into the batch. The results are not differentiable.
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
    """Autograd function without derivative; its last argument is the solver to call."""

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
            shape = info.batch_size, *tensor.shape
            return (tensor.expand(shape) if dim is None else tensor.movedim(dim, 0)).flatten(0, 1)

        folded = [fold(tensor, dim) for tensor, dim in zip(tensors, in_dims, strict=False)]
        found = _Solver.apply(*folded, solve)
        unfolded = tuple(
            part.unflatten(0, (info.batch_size, -1)) if isinstance(part, Tensor) else part
            for part in found
        )
        return unfolded, tuple(0 if isinstance(part, Tensor) else None for part in found)


NO_TRANSITIONS = torch.zeros(1, 0, 0, 0, dtype=torch.float64)
"""Empty placeholder for the additional scores of structures without additional parts."""


class InfeasibleError(ValueError):
    """Raised when all structures of an instance are forbidden."""


@dataclass(frozen=True)
class Problem:
    """Checked scores in the form that the kernels take: on the CPU, detached.

    Args:
        code: family of structures, a constant of ``kernels/codes.py``.
        unary: ``(B, R, C)`` in double precision; forbidden parts have ``-inf``.
        additional: ``(B, ...)``, or ``(1, ...)`` if shared by the batch; also in double precision,
            since compiling the kernels for a second type takes a minute.
        sizes: ``(B, 2)`` numbers of rows and columns that are not padding.
        width: number of entries of a stored vertex.
    """

    code: int
    unary: Tensor
    additional: Tensor
    sizes: Tensor
    width: int

    def subset(self, rows: np.ndarray) -> "Problem":
        """Return the problem of some instances of the batch."""
        own = self.additional[rows] if len(self.additional) > 1 else self.additional
        return Problem(self.code, self.unary[rows], own, self.sizes[rows], self.width)

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Unary scores, additional scores and sizes, as arrays for the compiled kernels."""
        return self.unary.numpy(), self.additional.numpy(), self.sizes.numpy()

    @property
    def all_scores(self) -> Tensor:
        """Unary, then additional scores, ``(B, parts)``, for an oracle written in Python."""
        return torch.cat([self.unary.flatten(1), self.additional], dim=1)


class Structure(ABC):
    """A family of structures with a compiled MAP oracle.

    A structure is represented by a vector of integers, its vertex: the tag of each item, the head
    of each word, the column of each row. Entries of padding are -1.
    """

    def problem(
        self,
        unary: Tensor,
        additional: Tensor | None = None,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Problem:
        """Check the scores and convert them to the form that the kernels take.

        Raises:
            ValueError: shapes, types or lengths do not fit.
        """
        return self.checked(Inputs(unary, additional, lengths, mask))

    @abstractmethod
    def checked(self, inputs: Inputs) -> Problem:
        """Check the inputs and convert them as :meth:`problem` does."""

    @abstractmethod
    def vertices(self, stored: Tensor, problem: Problem) -> Tensor:
        """Convert structures ``(B, K, width)`` stored by the kernels to vertices ``(B, K, V)``."""

    def score(self, vertex: Tensor, unary: Tensor, additional: Tensor | None = None) -> Tensor:
        """Compute the scores of structures, differentiable in the scores of their parts.

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
        """Sum the unary parts of weighted structures, differentiable in the weights.

        Args:
            vertices: ``(B, K, V)``, filled with -1.
            weights: ``(B, K)``.
            like: unary scores, for the shape of the result.
        """
        return weighted_parts(like, vertices, weights)

    def indicator(self, vertex: Tensor, unary: Tensor) -> Tensor:
        """Return the unary parts of structures ``(B, V)`` as 0/1 vectors shaped like ``unary``."""
        return self.unary_mixture(vertex.unsqueeze(1), unary.new_ones(len(vertex), 1), unary)

    def mixture(self, vertices: Tensor, weights: Tensor, like: Tensor) -> Tensor | None:
        """Compute the marginals of additional parts of weighted structures; None without any."""
        return None

    def log_partition(
        self, unary: Tensor, additional: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Compute the differentiable log-sum of ``exp(score)`` over all structures, ``(B,)``.

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
        """Compute differentiable probabilities of all parts (Niculae et al. 2018, Eq. 4).

        The probability of a structure is proportional to ``exp(score)``. Arguments are those of
        :meth:`log_partition`.

        Returns:
            Like ``unary``, and ``(B, ...)`` like ``additional`` or None without any; exactly zero
            in padding, and everywhere if no structure of an instance is allowed.

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
        from repro.structures.solving import best_vertices

        def solve(inputs: Inputs) -> tuple[Tensor]:
            problem = self.checked(inputs)
            stored = best_vertices(problem).unsqueeze(1)
            return (self.vertices(stored, problem).squeeze(1).to(inputs.unary.device),)

        inputs = Inputs(unary, additional, lengths, mask)
        vertex: Tensor = solve_below_transforms(solve, inputs)[0]
        return vertex


def checked_unary(unary: Tensor, mask: Tensor | None, axes: str) -> Tensor:
    """Check unary scores; return them in double precision on the CPU, ``-inf`` where masked."""
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
    """Check lengths; return them as ``(B, axes)`` on the CPU, the largest ones by default."""
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
    """Raise ValueError if a structure without additional parts is given additional scores."""
    if additional is not None:
        raise ValueError(f"{name} has no additional parts, but additional scores were given")


def gathered(scores: Tensor, vertex: Tensor) -> Tensor:
    """Sum the scores ``(B, S, A)`` of the values that vertices ``(B, ..., S)`` choose."""
    batch = torch.arange(vertex.size(0), device=vertex.device)
    batch = batch.view(-1, *[1] * (vertex.dim() - 1))
    slots = torch.arange(vertex.size(-1), device=vertex.device)
    chosen = scores[batch, slots, vertex.clamp(min=0)]
    return torch.where(vertex >= 0, chosen, 0.0).sum(-1)


def weighted_parts(like: Tensor, vertices: Tensor, weights: Tensor) -> Tensor:
    """Add ``weights (B, K)`` up at the values that ``vertices (B, K, S)`` choose.

    The result has the shape ``(B, S, A)`` of ``like`` and the dtype of the weights.
    """
    shares = torch.where(vertices >= 0, weights.unsqueeze(-1), 0.0)
    places = vertices.clamp(min=0).transpose(1, 2)
    return weights.new_zeros(like.shape).scatter_add(-1, places, shares.transpose(1, 2))


@dataclass(frozen=True)
class Selection:
    """Selected structures of a batch, concatenated over its instances.

    Args:
        problem: the problem that was solved.
        marginals: ``(B, R, C)`` in double precision.
        vertices: ``(N, width)`` structures as the kernels store them.
        weights: ``(N,)`` weights of the structures.
        inverses: flattened inverses of ``H`` (see ``kernels/gram.py``), one per instance.
        counts: ``(B,)`` number of structures of each instance.
        rounds: ``(B,)`` number of oracle calls.
        gaps: ``(B,)`` Frank-Wolfe gaps.
        converged: ``(B,)`` whether the gap is within the tolerance.
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
        """Offsets ``(B + 1,)`` at which the structures of each instance start."""
        return starts(self.counts)

    @property
    def places(self) -> tuple[Array, Array]:
        """Instance and position of each structure in a padded array."""
        rows = np.repeat(np.arange(len(self.counts)), self.counts)
        return rows, np.arange(len(rows)) - self.offsets[rows]

    def padded(self, values: Array, fill: int = 0) -> Array:
        """Pad values ``(N, ...)``, one per structure, to ``(B, K, ...)`` with ``fill``."""
        shape = len(self.counts), int(self.counts.max(initial=0)), *values.shape[1:]
        table = np.full(shape, fill, values.dtype)
        table[self.places] = values
        return table

    @property
    def inverse_starts(self) -> Array:
        """Offsets ``(B + 1,)`` at which the flattened inverse of each instance starts."""
        return starts(self.counts**2)

    def replaced(self, rows: Array, by: "Selection") -> "Selection":
        """Return a selection with the solutions of some instances replaced.

        Args:
            rows: indices of the instances.
            by: their new solutions, in this order; its problem is ignored.
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
            inverses=pieces(self.inverses, self.inverse_starts, by.inverses, by.inverse_starts),
            counts=values(self.counts, by.counts),
            rounds=values(self.rounds, by.rounds),
            gaps=values(self.gaps, by.gaps),
            converged=values(self.converged, by.converged),
        )


def starts(counts: Array) -> Array:
    """Return the start offset of each of several groups, and the end of the last one."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
