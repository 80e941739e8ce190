"""Vectors and memory: loads, stores, and lanes that change places."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from repro.mappings.kernels.cpu.vectors import Mask, Vector, constant, declared, spread

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
def store_first_whole(typing_context: Any, array: Any, index: Any, count: Any, vector: Any) -> Any:
    """Write the first so many lanes, which hold whole numbers, as integers of 32 bits."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        data = context.make_array(array)(context, builder, values[0]).data
        whole, lanes = ir.VectorType(_HALF, vector.lanes), vector.lanes
        place = builder.bitcast(builder.gep(data, [values[1]]), whole.as_pointer())
        mask, numbers = _first(builder, lanes, values[2]), builder.fptosi(values[3], whole)
        kinds = [whole, place.type, _HALF, mask.type]
        name = f"llvm.masked.store.v{lanes}i32.p0"
        writer = declared(builder, name, ir.VoidType(), kinds)
        builder.call(writer, [numbers, place, _HALF(_align(array)), mask])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, vector), generate


@intrinsic
def elsewhere(typing_context: Any, array: Any, index: Any, count: Any, mask: Any) -> Any:
    """Where a mask holds, and what is there in an array of 32 bits is not its own position.

    Only the first so many lanes exist.
    """
    whole, lanes = ir.VectorType(_HALF, mask.lanes), mask.lanes

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        data = context.make_array(array)(context, builder, values[0]).data
        place = builder.bitcast(builder.gep(data, [values[1]]), whole.as_pointer())
        here = builder.and_(values[3], _first(builder, lanes, values[2]))
        kinds = [place.type, _HALF, here.type, whole]
        loader = declared(builder, f"llvm.masked.load.v{lanes}i32.p0", whole, kinds)
        none = ir.Constant(whole, None)
        found = builder.call(loader, [place, _HALF(_align(array)), here, none])
        first = spread(builder, whole, builder.trunc(values[1], _HALF))
        own = builder.add(first, constant(range(lanes)))
        return builder.and_(here, builder.icmp_signed("!=", found, own))

    return mask(array, types.int64, types.int64, mask), generate


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
        own, nothing = builder.add(start, constant(range(lanes))), ir.Constant(whole, None)
        name = f"llvm.experimental.vector.compress.v{lanes}i32"
        compressor = declared(builder, name, whole, [whole, values[3].type, whole])
        listed = builder.call(compressor, [own, values[3], nothing])
        builder.store(listed, place, align=_align(array))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, mask), generate


@intrinsic
def compress(typing_context: Any, vector: Any, mask: Any) -> Any:
    """The lanes where a mask holds, next to each other; the others are anything."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind = values[0].type
        name = f"llvm.experimental.vector.compress.{_suffix(vector)}"
        compressor = declared(builder, name, kind, [kind, values[1].type, kind])
        return builder.call(compressor, [*values, ir.Constant(kind, ir.Undefined)])

    return vector(vector, mask), generate


@intrinsic
def expand(typing_context: Any, array: Any, index: Any, mask: Any) -> Any:
    """The entries from an index on, in the lanes where a mask holds; zero elsewhere."""
    result = Vector(array.dtype)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind, place = context.get_value_type(result), _place(context, builder, array, *values[:2])
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
