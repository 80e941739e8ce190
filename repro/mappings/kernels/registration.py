"""How kernels become operators of torch: one schema, one launcher for each kind of device.

The launcher of operator ``name`` of family ``family`` is the function ``name`` of
``repro.mappings.kernels.cpu.<family>`` and of ``repro.mappings.kernels.cuda.<family>``. These
modules are imported in the first call: numba and triton are not needed before.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

_library = torch.library.Library("repro", "DEF")
launchers: dict[tuple[str, str], Callable[..., Any]] = {}
"""By the device's type and the operator's name; the kernel's own from the first call on."""


def define(family: str, schema: str, shapes: Callable[..., Any]) -> None:
    """Register an operator of torch, which then survives ``torch.compile``.

    Args:
        family: module of the launchers.
        schema: in torch's language, for example ``"f(Tensor scores, float order) -> Tensor"``.
        shapes: takes the same arguments and returns empty results; used where no values exist.
    """
    name = schema[: schema.index("(")]
    _library.define(schema, tags=torch.Tag.pt2_compliant_tag)
    for device in ("cpu", "cuda"):
        launchers[device, name] = launcher = _launcher(device, family, name)
        _library.impl(name, launcher, device.upper())
    torch.library.register_fake(f"repro::{name}", shapes, lib=_library)


def _launcher(device: str, family: str, name: str) -> Callable[..., Any]:
    found: list[Callable[..., Any]] = []

    def launch(*arguments: Any) -> Any:
        if not found:
            module = import_module(f"repro.mappings.kernels.{device}.{family}")
            found.append(getattr(module, name))
            launchers[device, name] = found[0]
        return found[0](*arguments)

    return launch
