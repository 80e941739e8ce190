"""Rows shared among the threads of the OpenMP library that torch itself uses.

After an operator of torch these threads keep their processors busy for a while as they wait for
the next one, and threads of our own would have to take the processors from them. So work is given
to those that wait, by the library's own entry point, within microseconds. No Python runs there.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import torch
from llvmlite import binding, ir
from numba import typeof, types

_SHARES = 4
"""Ranges for each thread: what one of them has no time for is done by the others."""
_WORD = ir.IntType(64)
_KINDS = {
    types.float32: (ir.FloatType(), "f4x"),
    types.float64: (ir.DoubleType(), "d"),
    types.int64: (_WORD, "q"),
    types.boolean: (_WORD, "q"),
}
"""How arguments are passed, and how they lie in a word."""
_NEXT, _TOTAL, _COUNT, _ROWS, _ENTRY, _ARGUMENTS = range(6)
"""Words of a task: next row, sum of results, rows, rows of a range, whom to call, with what."""


class _Loop(NamedTuple):
    """What a thread calls with a task, the task's layout, and whom the task is for."""

    address: int
    layout: Struct
    entry: int


def _openmp() -> Callable[..., None] | None:
    """``GOMP_parallel`` of the library that torch uses; None where that is another kind."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        parallel: Any = ctypes.CDLL(str(path)).GOMP_parallel
    except (OSError, AttributeError):
        return None
    parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    parallel.restype = None
    found: Callable[..., None] = parallel
    return found


class _Library:
    """The library's entry point; gone in a fork, where its threads are lost."""

    def __init__(self) -> None:
        self.parallel = _openmp()

    def forget(self) -> None:
        """Do without it."""
        self.parallel = None


_library = _Library()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_library.forget)


def takes(entry: Callable[..., int]) -> bool:
    """Whether an entry can be called there: there are such threads, and it is compiled."""
    return _library.parallel is not None and hasattr(entry, "overloads")


def run(entry: Any, threads: int, count: int, unit: int, arguments: tuple[Any, ...]) -> int:
    """Call ``entry(*arguments, start, stop)`` for ranges that make up all rows.

    Args:
        entry: compiled by numba; see :func:`takes`.
        threads: of torch, so that its own operators find as many again.
        count: how many rows there are.
        unit: ranges begin at multiples of this.
        arguments: of the entry; numbers.

    Returns:
        The sum of what the calls return.
    """
    loop = _loop(entry, tuple(map(type, arguments)))
    rows = -(-count // (threads * _SHARES * unit)) * unit
    task = ctypes.create_string_buffer(loop.layout.size)
    loop.layout.pack_into(task, 0, 0, 0, count, rows, loop.entry, *arguments)
    assert _library.parallel is not None
    _library.parallel(loop.address, task, threads, 0)
    return int(loop.layout.unpack_from(task)[_TOTAL])


@cache
def _loop(entry: Any, python_types: tuple[type, ...]) -> _Loop:
    kinds = tuple(typeof(kind(0)) for kind in (*python_types, int, int))
    entry.compile(kinds)
    compiled = entry.overloads[kinds]
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
    layout = Struct("=5q" + "".join(_KINDS[kind][1] for kind in kinds[:-2]))
    return _Loop(_compiled(kinds[:-2]), layout, address)


_engines: list[Any] = []
"""Own the machine code."""


@cache
def _compiled(kinds: tuple[types.Type, ...]) -> int:
    """The address of ``void loop(int64 *task)`` for entries with such arguments."""
    module = binding.parse_assembly(str(_written(kinds)))
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address("loop"))


def _written(kinds: tuple[types.Type, ...]) -> ir.Module:
    """Takes the next range until there is none, and adds up what the calls return."""
    module, passed = ir.Module(), [_KINDS[kind][0] for kind in kinds]
    loop = ir.Function(module, ir.FunctionType(ir.VoidType(), [_WORD.as_pointer()]), "loop")
    first, again, call, done = (loop.append_basic_block() for _ in range(4))
    build = ir.IRBuilder(first)

    def word(place: int, kind: ir.Type = _WORD) -> Any:
        pointer = build.gep(loop.args[0], [_WORD(place)])
        return build.bitcast(pointer, kind.as_pointer())

    called = ir.FunctionType(_WORD, [*passed, _WORD, _WORD])
    count, rows = build.load(word(_COUNT)), build.load(word(_ROWS))
    entry = build.inttoptr(build.load(word(_ENTRY)), called.as_pointer())
    arguments = [build.load(word(_ARGUMENTS + k, each)) for k, each in enumerate(passed)]
    build.branch(again)
    build.position_at_end(again)
    start = build.atomic_rmw("add", word(_NEXT), rows, "seq_cst")
    build.cbranch(build.icmp_signed("<", start, count), call, done)
    build.position_at_end(call)
    end = build.add(start, rows)
    stop = build.select(build.icmp_signed("<", end, count), end, count)
    result = build.call(entry, [*arguments, start, stop])
    build.atomic_rmw("add", word(_TOTAL), result, "seq_cst")
    build.branch(again)
    build.position_at_end(done)
    build.ret_void()
    return module
