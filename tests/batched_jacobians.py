"""Ways in which torch computes a Jacobian with batched derivatives."""

import torch
from torch.autograd.functional import jacobian


def batched_gradients(function, point):
    point = point.clone().requires_grad_()
    output = function(point)
    rows = torch.eye(output.numel(), dtype=point.dtype).view(-1, *output.shape)
    (found,) = torch.autograd.grad(output, point, rows, is_grads_batched=True)
    return found.view(*output.shape, *point.shape)


WAYS = {
    "is_grads_batched": batched_gradients,
    "vectorize": lambda function, point: jacobian(function, point, vectorize=True),
    "jacrev": lambda function, point: torch.func.jacrev(function)(point),
}
