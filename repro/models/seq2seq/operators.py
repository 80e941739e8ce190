"""Operators of a decoder's step on accelerators: kernels in ``cuda/steps.py``, or PyTorch."""

from collections.abc import Callable
from typing import Any

import torch

from repro.mappings.kernels.dispatch import CudaLauncher, has_kernel, references

_library = torch.library.Library("repro", "FRAGMENT")


def define(schema: str, in_torch: Callable[..., Any], empty_results: Callable[..., Any]) -> None:
    """Register an operator with torch, so that it is one operator also of tensors without values.

    Args:
        schema: its name, arguments and results. ``cuda/steps.py`` has a function of its name.
        in_torch: the operator where there is no kernel, or where it fails.
        empty_results: the function that allocates its results.
    """
    name = schema[: schema.index("(")]
    launcher, references[name] = CudaLauncher("steps", name), in_torch

    def launch(*given: Any) -> Any:
        return (launcher if has_kernel(given[0]) else in_torch)(*given)

    _library.define(schema)
    _library.impl(name, launch, "CUDA")
    _library.impl(name, in_torch, "CPU")
    torch.library.register_fake(f"repro::{name}", empty_results, lib=_library)
