"""Numbers side by side in a register, as values of compiled functions.

Loops over entries are turned into vector instructions by the compiler, but only over whole vectors,
and never where lanes trade places. Here they are written: a :class:`Vector` has arithmetic and
comparisons with others and with plain numbers, a :class:`Mask` picks lanes.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from repro.mappings.kernels.cpu.vector_types import (
    HALF,
    WORD,
    Mask,
    Vector,
    constant,
    declared,
    met,
    operands,
    spread,
)


@intrinsic
def splat(typing_context: Any, value: Any) -> Any:
    """A number in all lanes."""
    result = Vector(value)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return spread(builder, context.get_value_type(result), values[0])

    return result(value), generate


@intrinsic
def numbered(typing_context: Any, vector: Any) -> Any:
    """The numbers of the lanes, as a vector of the same kind."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), [float(k) for k in range(vector.lanes)])

    return vector(vector), generate


@intrinsic
def maximum(typing_context: Any, one: Any, other: Any) -> Any:
    """The larger of two in every lane; the other where one of them is NaN."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        left, right = operands(context, builder, sig.args, values)
        return builder.select(builder.fcmp_ordered(">", left, right), left, right)

    return met(one, other)(one, other), generate


@intrinsic
def where(typing_context: Any, mask: Any, one: Any, other: Any) -> Any:
    """One where a mask holds, the other elsewhere."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.select(values[0], *operands(context, builder, sig.args[1:], values[1:]))

    return met(one, other)(mask, one, other), generate


@intrinsic
def unordered(typing_context: Any, one: Any, other: Any) -> Any:
    """Whether one of two is NaN."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.fcmp_unordered("uno", *values)

    return Mask(one.lanes)(one, other), generate


@intrinsic
def either(typing_context: Any, one: Any, other: Any) -> Any:
    """Whether one of two masks holds."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.or_(*values)

    return one(one, other), generate


@intrinsic
def both(typing_context: Any, one: Any, other: Any) -> Any:
    """Whether two masks hold."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.and_(*values)

    return one(one, other), generate


@intrinsic
def excluding(typing_context: Any, one: Any, other: Any) -> Any:
    """Whether a mask holds and another does not."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.and_(values[0], builder.not_(values[1]))

    return one(one, other), generate


@intrinsic
def count(typing_context: Any, mask: Any) -> Any:
    """In how many lanes a mask holds."""
    bits = ir.IntType(mask.lanes)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        counter = declared(builder, f"llvm.ctpop.i{mask.lanes}", bits, [bits])
        return builder.zext(builder.call(counter, [builder.bitcast(values[0], bits)]), WORD)

    return types.int64(mask), generate


def _integers(kind: Vector) -> Vector:
    return Vector(types.int32 if kind.real.bitwidth == 32 else types.int64)


def _reals(kind: Vector) -> Vector:
    return Vector(types.float32 if kind.real.bitwidth == 32 else types.float64)


def _recast(operation: str) -> Callable[..., Any]:
    """How a vector is made one of another type."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return getattr(builder, operation)(values[0], context.get_value_type(sig.return_type))

    return generate


@intrinsic
def bits_of(typing_context: Any, vector: Any) -> Any:
    """The same bits as integers."""
    return _integers(vector)(vector), _recast("bitcast")


@intrinsic
def real_of(typing_context: Any, vector: Any) -> Any:
    """The same bits as real numbers."""
    return _reals(vector)(vector), _recast("bitcast")


@intrinsic
def rounded(typing_context: Any, vector: Any) -> Any:
    """Integers as real numbers."""
    return _reals(vector)(vector), _recast("sitofp")


def _known(operation: str) -> Callable[..., Any]:
    """How an operation on a vector is written that the compiler knows by name."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        kind, vector = values[0].type, sig.return_type
        name = f"llvm.{operation}.v{vector.lanes}f{vector.real.bitwidth}"
        return builder.call(declared(builder, name, kind, [kind]), values)

    return generate


@intrinsic
def sqrt(typing_context: Any, vector: Any) -> Any:
    """The square root of every lane."""
    return vector(vector), _known("sqrt")


@intrinsic
def magnitude(typing_context: Any, vector: Any) -> Any:
    """Every lane without its sign."""
    return vector(vector), _known("fabs")


def _added_up(builder: Any, vector: Any) -> Any:
    """The sum of all lanes, added up in halves."""
    lanes = vector.type.count
    size = lanes // 2
    while size:
        turned = constant([(k + size) % lanes for k in range(lanes)])
        vector = builder.fadd(vector, builder.shuffle_vector(vector, vector, turned))
        size //= 2
    return builder.extract_element(vector, ir.Constant(HALF, 0))


@intrinsic
def total(typing_context: Any, vector: Any) -> Any:
    """The sum of all lanes."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return _added_up(builder, values[0])

    return vector.real(vector), generate


@intrinsic
def wide_total(typing_context: Any, vector: Any) -> Any:
    """The same of single precision, in double."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        half = vector.lanes // 2
        low, high = (
            builder.shuffle_vector(values[0], values[0], constant([start + k for k in range(half)]))
            for start in (0, half)
        )
        wide = ir.VectorType(ir.DoubleType(), half)
        return _added_up(builder, builder.fadd(builder.fpext(low, wide), builder.fpext(high, wide)))

    return types.float64(vector), generate
