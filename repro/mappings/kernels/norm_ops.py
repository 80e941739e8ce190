"""Operators of normmax and sq-pnorm-max, regularised by a norm and by a squared norm."""

from repro.mappings.kernels.ops import launch as launch
from repro.mappings.kernels.registration import define
from repro.mappings.kernels.shapes import like, like_and_rows

_OPERATORS = (
    ("normmax_forward(Tensor scores, float alpha) -> Tensor", like),
    ("normmax_forward_rows(Tensor scores, Tensor alphas) -> Tensor", like),
    ("normmax_backward(Tensor probs, Tensor grad, float alpha) -> Tensor", like),
    (
        "normmax_backward_rows(Tensor probs, Tensor grad, Tensor alphas) -> (Tensor, Tensor)",
        like_and_rows,
    ),
    ("sq_pnorm_max_forward(Tensor scores, float p) -> Tensor", like),
    ("sq_pnorm_max_backward(Tensor probs, Tensor grad, float p) -> Tensor", like),
)
for _schema, _shapes in _OPERATORS:
    define("norm", _schema, _shapes)
