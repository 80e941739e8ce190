"""Lanes that change places: compressed, expanded, and squares that are turned."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from repro.mappings.kernels.cpu.lanes import align_of, place_of, suffix_of
from repro.mappings.kernels.cpu.vector_types import (
    BITS,
    FEATURES,
    Mask,
    Vector,
    constant,
    declared,
    spread,
)

_HALF = ir.IntType(32)
_WORD = ir.IntType(64)


def _compressing(mask: int, lanes: int) -> list[int]:
    """Where each lane comes from."""
    kept = [lane for lane in range(lanes) if mask >> lane & 1]
    return kept + [0] * (lanes - len(kept))


def _expanding(mask: int, lanes: int) -> list[int]:
    return [(mask & ((1 << lane) - 1)).bit_count() for lane in range(lanes)]


def _permuted(builder: Any, values: Any, kind: Vector, origins: Any) -> Any:
    """Lanes in an order that a table has for each mask, by AVX2's instruction.

    It moves halves of lanes in double precision.
    """
    (vector, mask), parts, lanes = values, 8 // kind.lanes, kind.lanes
    rows = [
        constant([parts * lane + part for lane in origins(bits, lanes) for part in range(parts)])
        for bits in range(2**lanes)
    ]
    table = ir.Constant(ir.ArrayType(rows[0].type, len(rows)), rows)
    name = f"repro.{origins.__name__}.{lanes}"
    held = builder.module.globals.get(name) or cgutils.global_constant(builder, name, table)
    bits = builder.zext(builder.bitcast(mask, ir.IntType(lanes)), _WORD)
    order = builder.load(builder.gep(held, [_WORD(0), bits]))
    eight = ir.VectorType(ir.FloatType(), 8)
    mover = declared(builder, "llvm.x86.avx2.permps", eight, [eight, order.type])
    moved = builder.call(mover, [builder.bitcast(vector, eight), order])
    return builder.bitcast(moved, vector.type)


_BY_TABLE = BITS == 256 and "+avx2" in FEATURES
"""Without instructions that compress and expand, the compiler would move lane by lane."""


@intrinsic
def compress(typing_context: Any, vector: Any, mask: Any) -> Any:
    """The lanes where a mask holds, next to each other; the others are anything."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        if _BY_TABLE:
            return _permuted(builder, values, vector, _compressing)
        kind = values[0].type
        name = f"llvm.experimental.vector.compress.{suffix_of(vector)}"
        compressor = declared(builder, name, kind, [kind, values[1].type, kind])
        return builder.call(compressor, [*values, ir.Constant(kind, ir.Undefined)])

    return vector(vector, mask), generate


@intrinsic
def expand(typing_context: Any, array: Any, index: Any, mask: Any) -> Any:
    """The entries from an index on, in the lanes where a mask holds; zero elsewhere.

    A whole vector may be read.
    """
    result = Vector(array.dtype)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind, place = context.get_value_type(result), place_of(context, builder, array, *values[:2])
        if _BY_TABLE:
            packed = builder.load(place, align=align_of(array))
            spread_out = _permuted(builder, (packed, values[2]), result, _expanding)
            return builder.select(values[2], spread_out, ir.Constant(kind, None))
        name = f"llvm.masked.expandload.{suffix_of(result)}"
        expander = declared(builder, name, kind, [place.type, values[2].type, kind])
        return builder.call(expander, [place, values[2], ir.Constant(kind, None)])

    return result(array, types.int64, Mask(result.lanes)), generate


@intrinsic
def store_positions(typing_context: Any, array: Any, index: Any, first: Any, mask: Any) -> Any:
    """Write the positions of the lanes where a mask holds, next to each other, into 32 bits each.

    The first lane has the first position. As many entries as there are lanes get overwritten.
    """
    whole, lanes = ir.VectorType(_HALF, mask.lanes), mask.lanes

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        data = context.make_array(array)(context, builder, values[0]).data
        place = builder.bitcast(builder.gep(data, [values[1]]), whole.as_pointer())
        start = spread(builder, whole, builder.trunc(values[2], _HALF))
        own = builder.add(start, constant(range(lanes)))
        if _BY_TABLE and lanes == Vector(types.float32).lanes:
            listed = _permuted(builder, (own, values[3]), Vector(types.float32), _compressing)
        else:
            name = f"llvm.experimental.vector.compress.v{lanes}i32"
            compressor = declared(builder, name, whole, [whole, values[3].type, whole])
            listed = builder.call(compressor, [own, values[3], ir.Constant(whole, None)])
        builder.store(listed, place, align=align_of(array))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, mask), generate


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Exchange blocks of half the size, then of a quarter, down to single lanes."""
    lanes, rows = len(rows), list(rows)
    size = lanes // 2
    while size:
        near = [k if not k & size else lanes + k - size for k in range(lanes)]
        far = [k + size if not k & size else lanes + k for k in range(lanes)]
        for i in (i for i in range(lanes) if not i & size):
            one, other = rows[i], rows[i + size]
            rows[i] = builder.shuffle_vector(one, other, constant(near))
            rows[i + size] = builder.shuffle_vector(one, other, constant(far))
        size //= 2
    return rows


@intrinsic
def transpose(
    typing_context: Any, source: Any, start: Any, stride: Any, target: Any, at: Any, step: Any
) -> Any:
    """Write a square of as many rows as a vector has lanes, with rows and columns exchanged.

    Rows begin at a start and every stride after it; what is written, at a place and every step.
    """
    lanes = Vector(source.dtype).lanes

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        origin, start, stride, room, at, step = values

        def place(kind: Any, array: Any, first: Any, apart: Any, k: int) -> Any:
            index = builder.add(first, builder.mul(apart, _WORD(k)))
            return place_of(context, builder, kind, array, index)

        rows = [
            builder.load(place(source, origin, start, stride, k), align=align_of(source))
            for k in range(lanes)
        ]
        for k, row in enumerate(_transposed(builder, rows)):
            builder.store(row, place(target, room, at, step, k), align=align_of(target))
        return context.get_dummy_value()

    whole = types.int64
    return types.void(source, whole, whole, target, whole, whole), generate
