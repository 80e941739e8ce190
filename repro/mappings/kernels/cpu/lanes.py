"""Vectors and memory: loads, stores, and lanes that change places."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

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


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """The address of a vector in an array."""
    data = context.make_array(kind)(context, builder, array).data
    vector = context.get_value_type(Vector(kind.dtype))
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _align(kind: Any) -> int:
    """Vectors lie anywhere in an array."""
    return int(kind.dtype.bitwidth) // 8


def _first(builder: Any, lanes: int, count: Any) -> Any:
    """The mask of the first lanes."""
    vector = ir.VectorType(_HALF, lanes)
    many = spread(builder, vector, builder.trunc(count, _HALF))
    return builder.icmp_signed("<", constant(range(lanes)), many)


def _suffix(vector: Vector) -> str:
    return f"v{vector.lanes}f{vector.real.bitwidth}"


@intrinsic
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """What begins at an index of an array with one axis."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.load(_place(context, builder, array, *values), align=_align(array))

    return Vector(array.dtype)(array, types.int64), generate


@intrinsic
def store(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write all lanes."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = _place(context, builder, array, *values[:2])
        builder.store(values[2], place, align=_align(array))
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), generate


def _narrow_place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """The address of as many numbers in single precision as a vector has in double."""
    data = context.make_array(kind)(context, builder, array).data
    narrow = ir.VectorType(ir.FloatType(), Vector(types.float64).lanes)
    return builder.bitcast(builder.gep(data, [index]), narrow.as_pointer())


@intrinsic
def load_wide(typing_context: Any, array: Any, index: Any) -> Any:
    """Numbers in single precision as a vector in double, which is half as many."""
    result = Vector(types.float64)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        narrow = builder.load(_narrow_place(context, builder, array, *values), align=_align(array))
        return builder.fpext(narrow, context.get_value_type(result))

    return result(array, types.int64), generate


@intrinsic
def store_narrow(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write them back."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = _narrow_place(context, builder, array, *values[:2])
        builder.store(builder.fptrunc(values[2], place.type.pointee), place, align=_align(array))
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), generate


@intrinsic
def load_first(typing_context: Any, array: Any, index: Any, count: Any, other: Any) -> Any:
    """The same where only the first so many entries exist; the other number in further lanes."""
    result = Vector(array.dtype)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind, place = context.get_value_type(result), _place(context, builder, array, *values[:2])
        mask = _first(builder, result.lanes, values[2])
        kinds = [place.type, _HALF, mask.type, kind]
        loader = declared(builder, f"llvm.masked.load.{_suffix(result)}.p0", kind, kinds)
        others = spread(builder, kind, values[3])
        return builder.call(loader, [place, _HALF(_align(array)), mask, others])

    return result(array, types.int64, types.int64, array.dtype), generate


@intrinsic
def store_first(typing_context: Any, array: Any, index: Any, count: Any, vector: Any) -> Any:
    """Write the first so many lanes."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place, mask = _place(context, builder, array, *values[:2]), values[2]
        mask = _first(builder, vector.lanes, mask)
        kinds = [values[3].type, place.type, _HALF, mask.type]
        name = f"llvm.masked.store.{_suffix(vector)}.p0"
        writer = declared(builder, name, ir.VoidType(), kinds)
        builder.call(writer, [values[3], place, _HALF(_align(array)), mask])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, vector), generate


@intrinsic
def bytes_equal(
    typing_context: Any, array: Any, index: Any, count: Any, like: Any, value: Any
) -> Any:
    """Where the first so many bytes, as many as another vector has lanes, have a value."""
    result = Mask(like.lanes)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        data = context.make_array(array)(context, builder, values[0]).data
        kind = ir.VectorType(ir.IntType(8), like.lanes)
        place = builder.bitcast(builder.gep(data, [values[1]]), kind.as_pointer())
        mask = _first(builder, like.lanes, values[2])
        kinds = [place.type, _HALF, mask.type, kind]
        loader = declared(builder, f"llvm.masked.load.v{like.lanes}i8.p0", kind, kinds)
        found = builder.call(loader, [place, _HALF(1), mask, ir.Constant(kind, None)])
        wanted = spread(builder, kind, builder.trunc(values[4], ir.IntType(8)))
        return builder.and_(mask, builder.icmp_signed("==", found, wanted))

    return result(array, types.int64, types.int64, like, types.int64), generate


@intrinsic
def store_bytes(
    typing_context: Any, array: Any, index: Any, count: Any, one: Any, other: Any
) -> Any:
    """Write, as a byte for each of the first so many lanes, how many of two masks hold."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        data = context.make_array(array)(context, builder, values[0]).data
        kind = ir.VectorType(ir.IntType(8), one.lanes)
        place = builder.bitcast(builder.gep(data, [values[1]]), kind.as_pointer())
        flags = builder.add(*(builder.zext(mask, kind) for mask in values[3:]))
        mask = _first(builder, one.lanes, values[2])
        kinds = [kind, place.type, _HALF, mask.type]
        name = f"llvm.masked.store.v{one.lanes}i8.p0"
        writer = declared(builder, name, ir.VoidType(), kinds)
        builder.call(writer, [flags, place, _HALF(1), mask])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, one, other), generate


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
        name = f"llvm.experimental.vector.compress.{_suffix(vector)}"
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
        kind, place = context.get_value_type(result), _place(context, builder, array, *values[:2])
        if _BY_TABLE:
            packed = builder.load(place, align=_align(array))
            spread_out = _permuted(builder, (packed, values[2]), result, _expanding)
            return builder.select(values[2], spread_out, ir.Constant(kind, None))
        name = f"llvm.masked.expandload.{_suffix(result)}"
        expander = declared(builder, name, kind, [place.type, values[2].type, kind])
        return builder.call(expander, [place, values[2], ir.Constant(kind, None)])

    return result(array, types.int64, Mask(result.lanes)), generate


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
            return _place(context, builder, kind, array, index)

        rows = [
            builder.load(place(source, origin, start, stride, k), align=_align(source))
            for k in range(lanes)
        ]
        for k, row in enumerate(_transposed(builder, rows)):
            builder.store(row, place(target, room, at, step, k), align=_align(target))
        return context.get_dummy_value()

    whole = types.int64
    return types.void(source, whole, whole, target, whole, whole), generate
