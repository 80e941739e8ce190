"""Kernels for CUDA on a device, or in Triton's interpreter on tensors of the processor.

The interpreter is chosen before triton is imported, by ``TRITON_INTERPRET=1``, and the kernels for
the processor are switched off with it: files that need it run themselves in a process of their own.
"""

import os
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy
import pytest
import torch
from child import run_tests
from torch import Tensor

from repro.mappings.kernels import dispatch

pytest.importorskip("triton")

from triton.language import block_type, core
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, InterpreterOptions, ScanOps

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
on_a_device = pytest.mark.skipif(
    INTERPRETED or not torch.cuda.is_available(), reason="needs a CUDA device"
)
FAMILIES = {
    name: one.family for (device, name), one in dispatch.launchers.items() if device == "cuda"
}
"""The family of every operator that has a kernel for CUDA."""


def run_in_the_interpreter(file):
    """Run the tests of a file in a process whose kernels are interpreted."""
    tests = Path(__file__).parents[2]
    # Numpy, which computes what a kernel masks out as well, warns of it.
    options = ("-x", "-W", "ignore::RuntimeWarning")
    run_tests(*options, file, paths=(tests, tests / "mappings"), TRITON_INTERPRET="1")


def launched(name, *arguments):
    """Call the launcher of an operator; arguments and results are on the CPU."""
    family = import_module(f"repro.mappings.kernels.cuda.{FAMILIES[name]}")
    device = "cpu" if INTERPRETED else "cuda"
    given = [x.to(device) if isinstance(x, Tensor) else x for x in arguments]
    results = getattr(family, name)(*given)
    return results.cpu() if isinstance(results, Tensor) else tuple(x.cpu() for x in results)


KERNEL = pytest.param(
    launched,
    marks=[] if INTERPRETED else [pytest.mark.gpu, on_a_device],
    id="interpreter" if INTERPRETED else "cuda",
)
"""Value of the parameter ``kernel`` of tests that run on a device and in the interpreter."""

_patch, _patched = interpreter._patch_lang, set()
"""How triton puts its interpreted functions into a module, and the modules that have them."""


def _patch_once(function):
    """Patch triton's language as the module of a function sees it, and leave it patched.

    Triton does so in each call of a function, and undoes it after each kernel.
    """
    if function.__module__ not in _patched:
        _patched.add(function.__module__)
        _patch(function)
    return interpreter._LangPatchScope()


def _patch_attr(holder, name, member, builder, scope):
    """Let a function of the language be called from a kernel as from another such function."""
    whole = getattr(member, "__wrapped__", member)

    def call(*arguments, **named):
        named["_semantic"] = interpreter.interpreter_semantic
        return whole(*arguments, **named)

    scope.set_attr(holder, name, call)


def _scan(self, inputs):
    """Scan in a logarithmic number of steps on whole tiles; triton's takes one entry at a time.

    Partial results are combined in another order, as on a device.
    """
    tiles = [tensor.handle.data.copy() for tensor in inputs]
    length, step = tiles[0].shape[self.axis], 1
    while step < length:
        shifted = [numpy.roll(tile, step, self.axis) for tile in tiles]
        pairs = [*zip(shifted, inputs, strict=True), *zip(tiles, inputs, strict=True)]
        combined = self.combine_fn(*(self.to_tensor(tile, like.dtype) for tile, like in pairs))
        combined = combined if isinstance(combined, tuple) else (combined,)
        late = numpy.arange(length).reshape([-1 if k == self.axis else 1 for k in range(2)]) >= step
        tiles = [
            numpy.where(late, new.handle.data, old)
            for new, old in zip(combined, tiles, strict=True)
        ]
        step *= 2
    return [self.to_tensor(tile, like.dtype) for tile, like in zip(tiles, inputs, strict=True)]


_describe, _set_up = block_type.__init__, core.tensor.__init__
_numpy_type = interpreter._get_np_dtype
_blocks, _numpy_types = {}, {}
"""What triton makes anew in each operation, at a fifth of the cost of a kernel: types of tiles by
the type and shape of their entries, and types of numpy by name."""


def _block(cls, element_ty, shape):
    """Return the one type of all tiles of a shape."""
    lengths = [getattr(length, "value", length) for length in getattr(shape, "values", shape)]
    key = element_ty.name, *lengths
    if key not in _blocks:
        _blocks[key] = object.__new__(cls)
        _describe(_blocks[key], element_ty, shape)
    return _blocks[key]


def _tensor(self, handle, type):
    """Initialize a tensor with what those of one type have in common."""
    if not hasattr(type, "common"):
        _set_up(self, handle, type)
        type.common = {**vars(self)}
    vars(self).update(type.common, handle=handle)


def _type_of_numpy(kind):
    """Return the type in which numpy holds a scalar or a tile."""
    name = kind.scalar.name
    if name not in _numpy_types:
        _numpy_types[name] = _numpy_type(kind)
    return _numpy_types[name]


if INTERPRETED:
    dispatch._INSTALLED["cpu"] = False
    interpreter._patch_lang, interpreter._patch_attr = _patch_once, _patch_attr
    # The check of integers for overflow is computed, and nothing is made of it.
    interpreter.interpreter_builder.options = InterpreterOptions(sanitize_overflow=False)
    ScanOps.generic_scan = _scan
    block_type.__new__, block_type.__init__ = _block, lambda *_: None
    core.tensor.__init__ = _tensor
    interpreter._get_np_dtype = _type_of_numpy


@contextmanager
def traffic():
    """Count the bytes that interpreted kernels have ``read`` and ``written``."""
    moved = {"read": 0, "written": 0}
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def counted(pointers, mask):
        return int(mask.data.sum()) * pointers.get_element_ty().primitive_bitwidth // 8

    def loading(self, pointers, mask, *others):
        moved["read"] += counted(pointers, mask)
        return load(self, pointers, mask, *others)

    def storing(self, pointers, value, mask, *others):
        moved["written"] += counted(pointers, mask)
        return store(self, pointers, value, mask, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterpreterBuilder, "create_masked_load", loading)
        patch.setattr(InterpreterBuilder, "create_masked_store", storing)
        yield moved
