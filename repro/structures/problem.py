"""Validation of scores and targets, and the structures that a solver selects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from repro.mappings._arguments import check_broadcast
from repro.structures.kernels.codes import Array


class InfeasibleError(ValueError):
    """Raised when all structures of an instance are forbidden."""


class Instances(NamedTuple):
    """Scores of a batch with lengths and mask, as :meth:`Structure.map` takes them."""

    unary: Tensor
    additional: Tensor | None = None
    lengths: Tensor | None = None
    mask: Tensor | None = None


@dataclass(frozen=True)
class Scores:
    """Scores of a structure with an oracle in PyTorch, on the CPU and detached.

    Attributes:
        unary: ``(B, ...)`` in double precision; ``-inf`` where forbidden or past the lengths.
        additional: ``(B, ...)`` in double precision, or None.
        lengths: ``(B,)`` or ``(B, axes)``, or None.
    """

    unary: Tensor
    additional: Tensor | None
    lengths: Tensor | None

    @property
    def unary_parts(self) -> int:
        """Number of unary parts of an instance."""
        return self.unary.shape[1:].numel()

    @property
    def groups(self) -> list[Tensor]:
        """Unary scores and, if there are any, additional ones."""
        return [self.unary] if self.additional is None else [self.unary, self.additional]

    @property
    def flat(self) -> Array:
        """Scores of all parts, the unary ones first, ``(B, parts)``."""
        joined: Array = torch.cat([one.flatten(1) for one in self.groups], 1).numpy()
        return joined


@dataclass(frozen=True)
class Problem:
    """Checked scores in the form that the kernels take: on the CPU, detached.

    Args:
        code: family of structures, a constant of ``kernels/codes.py``.
        unary: ``(B, R, C)`` in double precision; forbidden parts have ``-inf``.
        additional: ``(B, ...)``, or ``(1, ...)`` if shared by the batch; also in double precision,
            since compiling the kernels for a second type takes a minute.
        sizes: ``(B, 2)`` numbers of rows and columns that are not padding.
        width: number of entries of a stored structure.
    """

    code: int
    unary: Tensor
    additional: Tensor
    sizes: Tensor
    width: int

    def subset(self, rows: Array) -> "Problem":
        """Return the problem of some instances of the batch."""
        own = self.additional[rows] if len(self.additional) > 1 else self.additional
        return Problem(self.code, self.unary[rows], own, self.sizes[rows], self.width)

    @property
    def batch(self) -> Any:
        """The problem as arrays, for the compiled kernels."""
        from repro.structures.kernels.batch import Batch  # imports numba, so only when needed

        arrays = (self.unary.numpy(), self.additional.numpy(), self.sizes.numpy())
        return Batch(self.code, *arrays)


class Layout(NamedTuple):
    """Where an array holds the values of the parts of structures; see ``kernels/mixture.py``.

    Attributes:
        code: family of structures, a constant of ``kernels/codes.py``.
        sizes: ``(B, 2)`` numbers of rows and columns that are not padding.
        vertices: ``(N, slots)`` value of each slot, -1 for none.
        shape: of the array: ``(B, rows, columns)``, or ``(1, ...)`` if the batch shares it.
    """

    code: int
    sizes: Array
    vertices: Array
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Selection:
    """Selected structures of a batch, concatenated over its instances.

    Args:
        problem: the scores that were solved, in the form that the structure's solver takes.
        vertices: ``(N, width)`` structures as the solver stores them.
        weights: ``(N,)`` weights of the structures.
        inverses: flattened inverses of ``H`` (see ``kernels/gram.py``), one per instance.
        counts: ``(B,)`` number of structures of each instance.
        iterations: ``(B,)`` number of oracle calls.
        gaps: ``(B,)`` Frank-Wolfe gaps.
        converged: ``(B,)`` whether the gap is within the tolerance.
    """

    problem: Any
    vertices: Array
    weights: Array
    inverses: Array
    counts: Array
    iterations: Array
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
        """Return a selection with the solutions of the instances ``rows`` replaced."""

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
            vertices=pieces(self.vertices, self.offsets, by.vertices, by.offsets),
            weights=pieces(self.weights, self.offsets, by.weights, by.offsets),
            inverses=pieces(self.inverses, self.inverse_starts, by.inverses, by.inverse_starts),
            counts=values(self.counts, by.counts),
            iterations=values(self.iterations, by.iterations),
            gaps=values(self.gaps, by.gaps),
            converged=values(self.converged, by.converged),
        )


def starts(counts: Array) -> Array:
    """Return the start offset of each of several groups, and the end of the last one."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def on_host(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Copy detached values to the CPU, for a solver: an accelerator waits for no other reason.

    Meta tensors, which have no values, give zeros: an update can be traced without a device.
    """
    if values.is_meta:
        return torch.zeros(values.shape, dtype=dtype)
    return values.detach().to("cpu", dtype)


def on_device(values: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Copy what a solver has found to the device of the scores.

    The host need not wait for a copy from pinned memory to CUDA. PyTorch's allocator of such memory
    lets nobody else write there before the stream of the copy has passed it.
    """
    if device.type != "cuda":
        return values.to(device, dtype)
    return values.to(dtype).pin_memory().to(device, non_blocking=True)


GroupT = TypeVar("GroupT", Tensor, "Tensor | None")


def copied(values: GroupT, device: torch.device) -> GroupT:
    """Copy values from or to the CPU, any number of times differentiable; None stays None."""
    if values is None or values.device == device:
        return values
    found: Tensor = _Copy.apply(values, device)
    return found


def copied_together(device: torch.device, *values: Tensor) -> Sequence[Tensor]:
    """Copy tensors of one device by one transfer; see :func:`copied`."""
    if values[0].device == device:
        return values
    flat = copied(torch.cat([one.flatten() for one in values]), device)
    pieces = zip(flat.split([one.numel() for one in values]), values, strict=True)
    return [piece.view(one.shape).to(one.dtype) for piece, one in pieces]


class _Copy(Function):
    """Copy between the CPU and an accelerator, whose gradient is copied back."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, device: torch.device) -> Tensor:
        ctx.origin = values.device
        if device.type == "cpu":
            return on_host(values, values.dtype)
        return on_device(values, device, values.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _Copy.apply(grads[0], ctx.origin), None


def checked_unary(given: Instances, axes: str | None = None) -> Tensor:
    """Check unary scores; return them in double precision on the CPU, ``-inf`` where masked."""
    unary, mask = given.unary, given.mask
    names = axes.split() if axes else ["B", "..."]
    if unary.dim() < 2 or (axes and unary.dim() != len(names)):
        raise ValueError(f"unary scores ({', '.join(names)}) expected, got {tuple(unary.shape)}")
    if not unary.is_floating_point():
        raise ValueError(f"unary scores must be floating point, not {unary.dtype}")
    scores = unary.detach()
    if mask is not None:
        if mask.dtype != torch.bool:
            raise ValueError(f"the mask must be boolean, not {mask.dtype}")
        check_broadcast("mask", mask, scores)
        scores = scores.masked_fill(~mask, -torch.inf)
    return on_host(scores, torch.float64).contiguous()


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


def device_lengths(
    lengths: Tensor | None, batch: int, largest: tuple[int, ...], device: torch.device
) -> Tensor:
    """Return lengths as ``(B, axes)`` on a device; those that are there already are not checked.

    Reading them would make the host wait for an accelerator.
    """
    if lengths is None or lengths.is_cpu:
        return checked_lengths(lengths, batch, largest).to(device)
    return lengths.view(batch, len(largest))


def no_additional(additional: Tensor | None, name: str) -> None:
    """Raise ValueError if a structure without additional parts is given additional scores."""
    if additional is not None:
        raise ValueError(f"{name} has no additional parts, but additional scores were given")


def check_target(target: Tensor, shape: tuple[int, ...], scores: Tensor) -> None:
    """Raise ValueError unless the dtype and the shape of a target are as expected."""
    if target.dtype != torch.long:
        raise ValueError(f"the target must hold integers (torch.long), not {target.dtype}")
    if target.shape != shape:
        raise ValueError(
            f"target {shape} expected for scores {tuple(scores.shape)}, got {tuple(target.shape)}"
        )


def refuse_targets(vertex: Tensor, wrong: Tensor, why: str) -> None:
    """Raise ValueError for the first instance that is ``wrong``, ``(B,)``, if any."""
    found = wrong.nonzero()
    if found.numel():
        first = int(found[0])
        raise ValueError(f"instance {first}: target {vertex[first].tolist()} {why}")
