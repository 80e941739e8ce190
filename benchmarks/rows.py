"""Rows of the table: mappings, losses, peers and SparseMAP, each beside a baseline."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from repro.losses import CrossEntropyLoss, EntmaxLoss, SparsemaxLoss, linear_entmax_loss
from repro.mappings import MAPPINGS, entmax, sparsemax
from repro.structures import Arborescence, LinearChain, Matching, Structure, sparsemap


class Shape(NamedTuple):
    """Number of rows, and of entries per row; of SparseMAP, both dimensions of the scores."""

    rows: int
    size: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.size}"


ATTENTION = (Shape(1280, 50), Shape(1280, 400))
"""Attention over short and long sentences."""
OUTPUT = (Shape(1280, 18_000), Shape(256, 32_000))
"""Output layers with small and large vocabularies."""
ON_CUDA = {
    "mapping": (Shape(4096, 1024), Shape(256, 131_072)),
    "peer": (Shape(256, 131_072),),
    "loss": (Shape(2560, 32_000),),
}
"""Further shapes on CUDA devices, by kind of row: many rows, and longer ones than fit a program."""
_SOFTMAX = partial(torch.softmax, dim=-1)
BATCH = 8
"""Number of instances of SparseMAP."""

_GROUPS = {
    "sparsemax entmax": ({"1280x50": 1.5}, 1.2, 1.2),
    "entmax_1.3 entmax_2.5 entmax_rows": ({}, 2.0, 1.5),
    "csoftmax csparsemax": ({}, 2.0, 1.5),
    "fusedmax": ({"1280x50": 3.0, "1280x400": 3.0}, None, 4.0),
    "oscarmax": ({"1280x50": 5.0, "1280x400": 5.0}, None, 6.0),
    "cross_entropy_loss sparsemax_loss entmax_loss": ({}, 1.2, 1.2),
    "linear_loss": ({}, 1.1, 1.1),
}
"""Largest ratios: on the processor at some shapes and at all others, and on CUDA."""
TARGET_THREADS = 2
"""Number of threads for which targets on the processor hold."""


def target_for(device: str, threads: int, name: str, shape: Shape) -> float | None:
    """Return the largest ratio that meets the target of a row, or None without a target."""
    for names, (special, others, cuda) in _GROUPS.items():
        if name in names.split():
            if device == "cuda":
                return cuda
            return special.get(str(shape), others) if threads == TARGET_THREADS else None
    return None


class BothWays(NamedTuple):
    """Pass that evaluates a function and its gradients with respect to ``leaves``."""

    function: Callable[..., Tensor]
    leaves: Sequence[Tensor]
    grad: Tensor | None = None

    def __call__(self) -> object:
        """Evaluate the function and its gradients."""
        return torch.autograd.grad(self.function(*self.leaves), self.leaves, self.grad)

    @torch.no_grad()
    def forward(self) -> Tensor:
        """Evaluate the function alone."""
        return self.function(*self.leaves)


class Row(NamedTuple):
    """Row of the table: a function and its baseline, measured at several shapes.

    Attributes:
        name: key in tables and for ``--only``.
        kind: ``mapping``, ``loss``, ``peer`` or ``structure``; decides which tests must pass.
        passes: returns the measured pass and its baseline for a shape and a device.
        shapes: the shapes on every device, unless others are asked for.
    """

    name: str
    kind: str
    passes: Callable[[Shape, torch.device], tuple[BothWays, BothWays]]
    shapes: tuple[Shape, ...] = (*ATTENTION, *OUTPUT)

    def shapes_on(self, device: str) -> tuple[Shape, ...]:
        """Return the shapes on the processor (``cpu``) or a CUDA device (``cuda``)."""
        return self.shapes + (ON_CUDA.get(self.kind, ()) if device == "cuda" else ())


def all_rows() -> list[Row]:
    """Return all rows: mappings in the order of the registry, variants of α, losses, the others."""
    rows = []
    for spec in MAPPINGS.values():
        passes = partial(_beside, spec.function, _SOFTMAX, _bounds if spec.bounded else None)
        rows.append(Row(spec.name, "mapping", passes))
    for name, function, leaves in (
        ("entmax_1.3", partial(entmax, alpha=1.3), None),
        ("entmax_2.5", partial(entmax, alpha=2.5), None),
        ("entmax_rows", entmax, _alpha_of_rows),
    ):
        rows.append(Row(name, "mapping", partial(_beside, function, _SOFTMAX, leaves)))
    for name, loss in (
        ("cross_entropy_loss", CrossEntropyLoss()),
        ("sparsemax_loss", SparsemaxLoss()),
        ("entmax_loss", EntmaxLoss()),
    ):
        rows.append(Row(name, "loss", partial(_beside_cross_entropy, loss)))
    rows.append(Row("linear_loss", "loss", _linear_beside_two, (Shape(4096, 50_000),)))
    if find_spec("entmax"):
        import entmax as peer

        for name, theirs, ours in (
            ("peer_sparsemax", peer.sparsemax, sparsemax),
            ("peer_entmax15", peer.entmax15, entmax),
            ("peer_sparsemax_bisect", peer.sparsemax_bisect, sparsemax),
            ("peer_entmax_bisect", partial(peer.entmax_bisect, alpha=1.5), entmax),
        ):
            rows.append(Row(name, "peer", partial(_beside, theirs, ours, None), OUTPUT))
    if find_spec("adasplash") and torch.cuda.is_available():
        import adasplash

        passes = partial(_beside, partial(adasplash.triton_entmax, alpha=1.5), entmax, None)
        rows.append(Row("peer_adasplash", "peer", passes, OUTPUT))
    squares = (Shape(20, 20), Shape(50, 50)), (Shape(20, 20), Shape(30, 30))
    trees = (Shape(21, 21), Shape(41, 41))
    for name, structure, shapes in (
        ("sparsemap_sequence", LinearChain(), squares[0]),
        ("sparsemap_matching", Matching(), squares[1]),
        ("sparsemap_tree", Arborescence(), trees),
    ):
        rows.append(Row(name, "structure", partial(_beside_python, structure), shapes))
    return rows


def draw(*shape: int, device: torch.device, seed: int = 0) -> Tensor:
    """Draw float32 values from N(0, 1), equal in every call."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(device).requires_grad_()


def _bounds(shape: Shape, device: torch.device) -> tuple[Tensor, ...]:
    """Draw bounds that sum to about two in every row, so that many are active."""
    bounds = torch.rand(shape, generator=torch.Generator().manual_seed(1)) * (4 / shape.size)
    return (bounds.to(device).requires_grad_(),)


def _alpha_of_rows(shape: Shape, device: torch.device) -> tuple[Tensor, ...]:
    """Return one α per row, which requires a gradient."""
    alphas = torch.linspace(1.05, 1.95, shape.rows, device=device).unsqueeze(-1)
    return (alphas.requires_grad_(),)


def _beside(
    function: Callable[..., Tensor],
    other: Callable[[Tensor], Tensor],
    more: Callable[[Shape, torch.device], tuple[Tensor, ...]] | None,
    shape: Shape,
    device: torch.device,
) -> tuple[BothWays, BothWays]:
    """Return passes of two functions of equal scores, the first with ``more`` arguments."""
    scores, grad = draw(*shape, device=device), draw(*shape, device=device, seed=1).detach()
    leaves = (scores, *more(shape, device)) if more else (scores,)
    return BothWays(function, leaves, grad), BothWays(other, (scores,), grad)


def _targets(shape: Shape, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randint(shape.size, (shape.rows,), generator=generator).to(device)


def _beside_cross_entropy(
    loss: Callable[[Tensor, Tensor], Tensor], shape: Shape, device: torch.device
) -> tuple[BothWays, BothWays]:
    scores, target = draw(*shape, device=device), _targets(shape, device)
    measured = BothWays(lambda z: loss(z, target), (scores,))
    return measured, BothWays(lambda z: F.cross_entropy(z, target), (scores,))


def _linear_beside_two(shape: Shape, device: torch.device) -> tuple[BothWays, BothWays]:
    """Return the fused linear layer and loss, and the two in a row, with 512 units."""
    hidden = draw(shape.rows, 512, device=device)
    weight = (draw(shape.size, 512, device=device) / 512**0.5).detach().requires_grad_()
    target, loss = _targets(shape, device), EntmaxLoss(1.5)
    fused = BothWays(lambda h, w: linear_entmax_loss(h, w, None, target, 1.5), (hidden, weight))
    return fused, BothWays(lambda h, w: loss(F.linear(h, w), target), (hidden, weight))


class PythonOracle(Structure):
    """A structure of the package whose oracle is called from Python in every iteration."""

    def __init__(self, structure: Structure) -> None:
        self.structure, self.has_additional = structure, structure.has_additional  # type: ignore[misc]

    def best(self, scores: Tensor, lengths: Tensor | None, *additional: Tensor) -> object:
        """Return the parts of the best structures."""
        return self.structure.best(scores, lengths, *additional)


def _beside_python(
    structure: Structure, shape: Shape, device: torch.device
) -> tuple[BothWays, BothWays]:
    leaves = [draw(BATCH, *shape, device=device)]
    if structure.has_additional:
        leaves.append(draw(BATCH, shape.rows - 1, shape.size, shape.size, device=device))
    grad = draw(BATCH, *shape, device=device, seed=1).detach()

    def solved(one: Structure) -> BothWays:
        return BothWays(lambda *scores: sparsemap(one, *scores).marginals, leaves, grad)

    return solved(structure), solved(PythonOracle(structure))
