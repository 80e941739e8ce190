"""Rows of the table: every registered mapping, the losses, and peers if installed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from repro.losses import CrossEntropyLoss, EntmaxLoss, SparsemaxLoss
from repro.mappings import MAPPINGS, MappingSpec, entmax, sparsemax

Work = Callable[[], object]
"""Function that runs a forward and backward pass."""


class Shape(NamedTuple):
    """Number of rows, and of entries per row."""

    rows: int
    size: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.size}"


SHAPES = (Shape(1280, 50), Shape(1280, 400), Shape(1280, 18_000), Shape(256, 32_000))
"""Attention over short and long sentences; output layers with small and large vocabularies."""
_VOCABULARY = 10_000
"""Least length of rows on which peers are compared."""
_MAPPING_FLOATS = 5
_BOUNDED_FLOATS = 7
_LOSS_FLOATS = 3


@dataclass(frozen=True)
class Row:
    """Row of the table: a function and its baseline, measured at several shapes.

    Attributes:
        name: key in tables and for ``--only``.
        kind: ``mapping``, ``loss`` or ``peer``.
        passes: returns the measured pass and its baseline for a shape and a device.
        floats: numbers per score that must be read from or written to memory.
        color: plot colour.
    """

    name: str
    kind: str
    passes: Callable[[Shape, torch.device], tuple[Work, Work]]
    floats: int
    color: str

    def takes(self, shape: Shape) -> bool:
        """Return whether the row is measured at a shape."""
        return self.kind != "peer" or shape.size >= _VOCABULARY


def all_rows() -> list[Row]:
    """Return all rows: mappings in the order of the registry, variants of α, losses, peers."""
    return [
        *(_mapping_row(spec) for spec in MAPPINGS.values()),
        *_alpha_rows(),
        *_loss_rows(),
        *(_peer_rows() if find_spec("entmax") else []),
    ]


def both_ways(
    function: Callable[..., Tensor], leaves: tuple[Tensor, ...], grad: Tensor | None = None
) -> Work:
    """Return a pass that evaluates a function and its gradients with respect to ``leaves``."""

    def run() -> object:
        return torch.autograd.grad(function(*leaves), leaves, grad)

    return run


def draw_scores(shape: Shape, device: torch.device) -> Tensor:
    """Draw float32 scores from N(0, 1), equal in every call."""
    generator = torch.Generator().manual_seed(shape.size)
    return torch.randn(shape, generator=generator).to(device).requires_grad_()


def _mapping_row(spec: MappingSpec) -> Row:
    leaves = _upper_bounds if spec.bounded else _nothing
    floats = _BOUNDED_FLOATS if spec.bounded else _MAPPING_FLOATS
    passes = partial(_beside_softmax, spec.function, leaves)
    return Row(spec.name, "mapping", passes, floats, spec.color)


def _alpha_rows() -> list[Row]:
    variants = (
        ("entmax_1.3", partial(entmax, alpha=1.3), _nothing),
        ("entmax_2.5", partial(entmax, alpha=2.5), _nothing),
        ("entmax_rows", entmax, _alpha_of_rows),
    )
    return [
        Row(
            name, "mapping", partial(_beside_softmax, function, leaves), _MAPPING_FLOATS,
            _color("entmax"),
        )
        for name, function, leaves in variants
    ]  # fmt: skip


def _nothing(shape: Shape, device: torch.device) -> tuple[Tensor, ...]:
    return ()


def _upper_bounds(shape: Shape, device: torch.device) -> tuple[Tensor, ...]:
    """Draw bounds that sum to about two in every row, so that many are active."""
    generator = torch.Generator().manual_seed(shape.size + 1)
    bounds = torch.rand(shape, generator=generator) * (4 / shape.size)
    return (bounds.to(device).requires_grad_(),)


def _alpha_of_rows(shape: Shape, device: torch.device) -> tuple[Tensor, ...]:
    """Return one α per row, which requires a gradient."""
    alphas = torch.linspace(1.05, 1.95, shape.rows).unsqueeze(-1)
    return (alphas.to(device).requires_grad_(),)


def _beside_softmax(
    function: Callable[..., Tensor],
    more: Callable[[Shape, torch.device], tuple[Tensor, ...]],
    shape: Shape,
    device: torch.device,
) -> tuple[Work, Work]:
    scores = draw_scores(shape, device)
    grad = torch.randn_like(scores)
    softmax = partial(torch.softmax, dim=-1)
    measured = both_ways(function, (scores, *more(shape, device)), grad)
    return measured, both_ways(softmax, (scores,), grad)


def _loss_rows() -> list[Row]:
    losses = (
        ("cross_entropy_loss", CrossEntropyLoss(), "softmax"),
        ("sparsemax_loss", SparsemaxLoss(), "sparsemax"),
        ("entmax_loss", EntmaxLoss(), "entmax"),
    )
    return [
        Row(name, "loss", partial(_beside_cross_entropy, loss), _LOSS_FLOATS, _color(mapping))
        for name, loss, mapping in losses
    ]


def _color(mapping: str) -> str:
    return MAPPINGS[mapping].color


def _beside_cross_entropy(
    loss: Callable[[Tensor, Tensor], Tensor], shape: Shape, device: torch.device
) -> tuple[Work, Work]:
    scores = draw_scores(shape, device)
    generator = torch.Generator().manual_seed(shape.size + 2)
    target = torch.randint(shape.size, (shape.rows,), generator=generator).to(device)

    def on(function: Callable[[Tensor, Tensor], Tensor]) -> Work:
        return both_ways(lambda z: function(z, target), (scores,))

    return on(loss), on(F.cross_entropy)


def _peer_rows() -> list[Row]:
    import entmax as peer

    pairs = (
        ("peer_sparsemax", peer.sparsemax, "sparsemax"),
        ("peer_entmax15", peer.entmax15, "entmax"),
        ("peer_sparsemax_bisect", peer.sparsemax_bisect, "sparsemax"),
        ("peer_entmax_bisect", partial(peer.entmax_bisect, alpha=1.5), "entmax"),
    )
    ours: dict[str, Callable[[Tensor], Tensor]] = {"sparsemax": sparsemax, "entmax": entmax}
    return [
        Row(
            name, "peer", partial(_beside_ours, theirs, ours[mapping]), _MAPPING_FLOATS,
            _color(mapping),
        )
        for name, theirs, mapping in pairs
    ]  # fmt: skip


def _beside_ours(
    theirs: Callable[[Tensor], Tensor],
    ours: Callable[[Tensor], Tensor],
    shape: Shape,
    device: torch.device,
) -> tuple[Work, Work]:
    scores = draw_scores(shape, device)
    grad = torch.randn_like(scores)
    return both_ways(theirs, (scores,), grad), both_ways(ours, (scores,), grad)
