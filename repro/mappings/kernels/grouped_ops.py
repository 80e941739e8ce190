"""Operators of fusedmax and oscarmax, whose entries are tied in groups.

``groups`` numbers the group of every entry with mass, below the length of the row.
"""

import torch
from torch import Tensor

from repro.mappings.kernels.ops import launch as launch
from repro.mappings.kernels.registration import define
from repro.mappings.kernels.shapes import like


def _solution(scores: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    return like(scores), like(scores).to(torch.int32)


_OPERATORS = (
    ("fusedmax_forward(Tensor scores, float lam) -> (Tensor, Tensor)", _solution),
    ("oscarmax_forward(Tensor scores, float lam) -> (Tensor, Tensor)", _solution),
    ("grouped_backward(Tensor probs, Tensor groups, Tensor grad) -> Tensor", like),
)
for _schema, _shapes in _OPERATORS:
    define("grouped", _schema, _shapes)
