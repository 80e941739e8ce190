"""Small problems of each kind, with all their structures."""

from dataclasses import dataclass

import numpy as np
import torch
from all_structures import Enumerated, matchings, sequences, trees
from torch import Tensor

from repro.structures import Arborescence, LinearChain, Matching, Structure


@dataclass(frozen=True)
class Kind:
    """A structure, the shape of its scores, that of additional ones, and all structures."""

    structure: Structure
    shape: tuple[int, ...]
    additional: tuple[int, ...] | None
    every: Enumerated

    def scores(self, batch: int, seed: int = 0) -> tuple[Tensor, Tensor | None]:
        generator = torch.Generator().manual_seed(seed)
        unary = torch.randn(batch, *self.shape, generator=generator, dtype=torch.float64)
        if self.additional is None:
            return unary, None
        more = torch.randn(batch, *self.additional, generator=generator, dtype=torch.float64)
        return unary, more


KINDS = {
    "sequence": Kind(LinearChain(), (3, 3), (2, 3, 3), sequences(3, 3)),
    "independent tags": Kind(LinearChain(), (3, 3), None, sequences(3, 3)),
    "tree": Kind(Arborescence(), (4, 4), None, trees(3, False)),
    "single root": Kind(Arborescence(single_root=True), (5, 5), None, trees(4, True)),
    "square matching": Kind(Matching(), (4, 4), None, matchings(4, 4)),
    "wide matching": Kind(Matching(), (3, 4), None, matchings(3, 4)),
    "tall matching": Kind(Matching(), (4, 3), None, matchings(4, 3)),
}


def arrays(kind: Kind, unary: Tensor, additional: Tensor | None, b: int) -> tuple[np.ndarray, ...]:
    """Scores of an instance for the enumeration; arcs that do not exist score zero."""
    scores = unary[b].detach().clone()
    if isinstance(kind.structure, Arborescence):
        scores[:, 0] = 0
        scores.fill_diagonal_(0)
    more = () if additional is None else (additional[b].detach().numpy(),)
    return scores.numpy(), *more
