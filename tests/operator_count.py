"""Count of the operators that a computation consists of."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Operators(TorchDispatchMode):
    """Count operators that compute; views, which launch nothing on a device, do not count."""

    free = (torch.ops.aten.detach.default, torch.ops.aten._unsafe_view.default)

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += not func.is_view and func not in self.free
        return func(*args, **(kwargs or {}))
