"""Operators of the mappings under upper bounds: csoftmax, csparsemax, budget.

``place`` says where an entry lies: 0 at zero, 1 strictly inside its bounds, 2 at its upper bound.
``faults`` is how many rows cannot be solved; they come out as NaN. Only its value on the processor
is ever read.
"""

import torch
from torch import Tensor

from repro.mappings.kernels.ops import launch as launch
from repro.mappings.kernels.registration import define
from repro.mappings.kernels.shapes import like, rows


def _solution(scores: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    probs = like(scores)
    return probs, like(scores).to(torch.uint8), scores.new_empty((), dtype=torch.int64)


def _gradients(
    probs: Tensor, place: Tensor, grad: Tensor, order: float, to_upper: bool, to_total: bool
) -> tuple[Tensor, Tensor, Tensor]:
    none = probs.new_empty(0)
    return like(probs), like(probs) if to_upper else none, rows(probs) if to_total else none


_OPERATORS = (
    (
        "bounded_forward(Tensor scores, Tensor upper, float order, float slack)"
        " -> (Tensor, Tensor, Tensor)",
        _solution,
    ),
    ("budget_forward(Tensor scores, float total) -> (Tensor, Tensor, Tensor)", _solution),
    ("budget_forward_rows(Tensor scores, Tensor totals) -> (Tensor, Tensor, Tensor)", _solution),
    (
        "bounded_backward(Tensor probs, Tensor place, Tensor grad, float order, bool to_upper,"
        " bool to_total) -> (Tensor, Tensor, Tensor)",
        _gradients,
    ),
)
for _schema, _shapes in _OPERATORS:
    define("bounded", _schema, _shapes)
