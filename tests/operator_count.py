"""Count of the launches of a computation on CUDA, as far as its operators tell."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class Operators(TorchDispatchMode):
    """Count what operators launch: mostly one kernel each.

    Views and allocations launch nothing. Some operators are two launches: products that are added
    to a matrix in other memory than the result's, which is first copied there (a vector is added by
    the product itself), and gradients of slices, which are written into zeros. What a library
    launches for one operator is not seen: layers of cuDNN, sums of products that are split, and the
    sorting for gradients of embeddings count as one.
    """

    free = (
        aten.detach.default, aten._unsafe_view.default, aten.promote_types.default,
        aten.empty_like.default, aten.new_empty.default, aten.new_empty_strided.default,
    )  # fmt: skip
    twice = (aten.slice_backward.default, aten.select_backward.default)
    added = (aten.addmm.default, aten.baddbmm.default, aten.addmm.out, aten.baddbmm.out)

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not func.is_view and func not in self.free:
            self.count += 1 + (func in self.twice or self._copies(func, args, kwargs.get("out")))
        return func(*args, **kwargs)

    def _copies(self, func: Any, args: tuple[Any, ...], out: Tensor | None) -> bool:
        return func in self.added and args[0] is not out and args[0].dim() > 1
