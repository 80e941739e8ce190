"""Vectors and memory: loads and stores, of a row's short end too."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from repro.mappings.kernels.cpu.vector_types import (
    Mask,
    Vector,
    constant,
    declared,
    spread,
)

_HALF = ir.IntType(32)
_WORD = ir.IntType(64)


def place_of(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """The address of a vector in an array."""
    data = context.make_array(kind)(context, builder, array).data
    vector = context.get_value_type(Vector(kind.dtype))
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def align_of(kind: Any) -> int:
    """Vectors lie anywhere in an array."""
    return int(kind.dtype.bitwidth) // 8


def _first(builder: Any, lanes: int, count: Any) -> Any:
    """The mask of the first lanes."""
    vector = ir.VectorType(_HALF, lanes)
    many = spread(builder, vector, builder.trunc(count, _HALF))
    return builder.icmp_signed("<", constant(range(lanes)), many)


def suffix_of(vector: Vector) -> str:
    """Of the names that the compiler has for operations on such vectors."""
    return f"v{vector.lanes}f{vector.real.bitwidth}"


@intrinsic
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """What begins at an index of an array with one axis."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.load(place_of(context, builder, array, *values), align=align_of(array))

    return Vector(array.dtype)(array, types.int64), generate


@intrinsic
def store(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write all lanes."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = place_of(context, builder, array, *values[:2])
        builder.store(values[2], place, align=align_of(array))
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
        narrow = builder.load(
            _narrow_place(context, builder, array, *values), align=align_of(array)
        )
        return builder.fpext(narrow, context.get_value_type(result))

    return result(array, types.int64), generate


@intrinsic
def store_narrow(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write them back."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = _narrow_place(context, builder, array, *values[:2])
        builder.store(builder.fptrunc(values[2], place.type.pointee), place, align=align_of(array))
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), generate


@intrinsic
def load_first(typing_context: Any, array: Any, index: Any, count: Any, other: Any) -> Any:
    """The same where only the first so many entries exist; the other number in further lanes."""
    result = Vector(array.dtype)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind, place = context.get_value_type(result), place_of(context, builder, array, *values[:2])
        mask = _first(builder, result.lanes, values[2])
        kinds = [place.type, _HALF, mask.type, kind]
        loader = declared(builder, f"llvm.masked.load.{suffix_of(result)}.p0", kind, kinds)
        others = spread(builder, kind, values[3])
        return builder.call(loader, [place, _HALF(align_of(array)), mask, others])

    return result(array, types.int64, types.int64, array.dtype), generate


@intrinsic
def store_first(typing_context: Any, array: Any, index: Any, count: Any, vector: Any) -> Any:
    """Write the first so many lanes."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place, mask = place_of(context, builder, array, *values[:2]), values[2]
        mask = _first(builder, vector.lanes, mask)
        kinds = [values[3].type, place.type, _HALF, mask.type]
        name = f"llvm.masked.store.{suffix_of(vector)}.p0"
        writer = declared(builder, name, ir.VoidType(), kinds)
        builder.call(writer, [values[3], place, _HALF(align_of(array)), mask])
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
        builder.call(writer, [numbers, place, _HALF(align_of(array)), mask])
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
        found = builder.call(loader, [place, _HALF(align_of(array)), here, none])
        first = spread(builder, whole, builder.trunc(values[1], _HALF))
        own = builder.add(first, constant(range(lanes)))
        return builder.and_(here, builder.icmp_signed("!=", found, own))

    return mask(array, types.int64, types.int64, mask), generate
