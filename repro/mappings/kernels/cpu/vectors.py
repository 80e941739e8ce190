"""Numbers side by side in a register, as values of compiled functions.

Loops over entries are turned into vector instructions by the compiler, but only over whole vectors,
and never where lanes trade places. Here they are written: a :class:`Vector` has arithmetic and
comparisons with others and with plain numbers, a :class:`Mask` picks lanes.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model


def _register_bits() -> int:
    """Of the widest registers of the processor that code is compiled for."""
    features = config.CPU_FEATURES
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    for name, bits in (("+avx512f", 512), ("+avx", 256)):
        if name in features.split(","):
            return bits
    return 128


BITS = _register_bits()
"""Of a vector."""
_WORD = ir.IntType(64)
_HALF = ir.IntType(32)
_FLAGS = ("contract",)


class Vector(types.Type):
    """Numbers of one type."""

    def __init__(self, real: types.Type) -> None:
        self.real, self.lanes = real, BITS // real.bitwidth
        super().__init__(name=f"vector({real} x {self.lanes})")


class Mask(types.Type):
    """A truth value for each lane."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"mask({lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        element = manager.lookup(kind.real).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.lanes))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Mask) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.IntType(1), kind.lanes))


def constant(values: Sequence[int], element: ir.Type = _HALF) -> ir.Constant:
    """Numbers that are known now."""
    return ir.Constant(ir.VectorType(element, len(values)), list(values))


def spread(builder: Any, kind: ir.VectorType, value: Any) -> Any:
    """A number in all lanes."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_HALF, 0))
    return builder.shuffle_vector(first, nothing, constant([0] * kind.count))


# Arithmetic and comparisons


def _common(kinds: Sequence[types.Type]) -> Vector | None:
    """The type in which two operands meet: a vector and the same, or a number."""
    vectors = [kind for kind in kinds if isinstance(kind, Vector)]
    others = [kind for kind in kinds if not isinstance(kind, Vector | types.Number)]
    return vectors[0] if vectors and not others and len(set(vectors)) == 1 else None


def _met(*kinds: types.Type) -> Vector:
    """The same, an error if there is none."""
    common = _common(kinds)
    if common is None:
        raise TypingError(f"no vector type is common to {kinds}")
    return common


def _operands(context: Any, builder: Any, kinds: Any, values: Any) -> list[Any]:
    """Operands as vectors of their common type."""
    common = _met(*kinds)
    vector = context.get_value_type(common)
    return [
        value if kind == common
        else spread(builder, vector, context.cast(builder, value, kind, common.real))
        for kind, value in zip(kinds, values, strict=True)
    ]  # fmt: skip


def _arithmetic(floating: str, whole: str) -> Callable[..., Any]:
    """How an operator is written, for real numbers and for integers."""

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        left, right = _operands(context, builder, sig.args, values)
        if isinstance(sig.return_type.real, types.Float):
            return getattr(builder, floating)(left, right, flags=_FLAGS)
        return getattr(builder, whole)(left, right)

    return lower


def _comparison(symbol: str) -> Callable[..., Any]:
    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.fcmp_ordered(symbol, *_operands(context, builder, sig.args, values))

    return lower


def _same(kind: Vector) -> types.Type:
    return kind


def _lanes(kind: Vector) -> types.Type:
    return Mask(kind.lanes)


def _register(function: Any, lower: Callable[..., Any], result: Callable[..., Any]) -> None:
    """Have an operator of Python take vectors."""

    class Template(AbstractTemplate):
        key = function

        def generic(self, kinds: Any, keywords: Any) -> Any:
            common = _common(kinds) if len(kinds) == 2 else None
            return None if common is None else signature(result(common), *kinds)

    infer_global(function)(Template)
    for kinds in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
        lower_builtin(function, *kinds)(lower)


_ARITHMETIC = {
    (operator.add, operator.iadd): ("fadd", "add"),
    (operator.sub, operator.isub): ("fsub", "sub"),
    (operator.mul, operator.imul): ("fmul", "mul"),
    (operator.truediv, operator.itruediv): ("fdiv", "sdiv"),
    (operator.lshift,): ("shl", "shl"),
    (operator.rshift,): ("ashr", "ashr"),
}
_COMPARISONS = {
    operator.gt: ">", operator.lt: "<", operator.ge: ">=", operator.le: "<=", operator.eq: "==",
}  # fmt: skip
for _functions, _names in _ARITHMETIC.items():
    for _function in _functions:
        _register(_function, _arithmetic(*_names), _same)
for _function, _symbol in _COMPARISONS.items():
    _register(_function, _comparison(_symbol), _lanes)


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
        left, right = _operands(context, builder, sig.args, values)
        return builder.select(builder.fcmp_ordered(">", left, right), left, right)

    return _met(one, other)(one, other), generate


@intrinsic
def where(typing_context: Any, mask: Any, one: Any, other: Any) -> Any:
    """One where a mask holds, the other elsewhere."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.select(values[0], *_operands(context, builder, sig.args[1:], values[1:]))

    return _met(one, other)(mask, one, other), generate


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


def declared(builder: Any, name: str, result: ir.Type, kinds: Sequence[ir.Type]) -> Any:
    """A function that the compiler knows."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, kinds), name)


@intrinsic
def count(typing_context: Any, mask: Any) -> Any:
    """In how many lanes a mask holds."""
    bits = ir.IntType(mask.lanes)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        counter = declared(builder, f"llvm.ctpop.i{mask.lanes}", bits, [bits])
        return builder.zext(builder.call(counter, [builder.bitcast(values[0], bits)]), _WORD)

    return types.int64(mask), generate


def _integers(kind: Vector) -> Vector:
    return Vector(types.int32 if kind.real.bitwidth == 32 else types.int64)


def _reals(kind: Vector) -> Vector:
    return Vector(types.float32 if kind.real.bitwidth == 32 else types.float64)


@intrinsic
def bits_of(typing_context: Any, vector: Any) -> Any:
    """The same bits as integers."""
    result = _integers(vector)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.bitcast(values[0], context.get_value_type(result))

    return result(vector), generate


@intrinsic
def real_of(typing_context: Any, vector: Any) -> Any:
    """The same bits as real numbers."""
    result = _reals(vector)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.bitcast(values[0], context.get_value_type(result))

    return result(vector), generate


@intrinsic
def rounded(typing_context: Any, vector: Any) -> Any:
    """Integers as real numbers."""
    result = _reals(vector)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.sitofp(values[0], context.get_value_type(result))

    return result(vector), generate


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


@intrinsic
def total(typing_context: Any, vector: Any) -> Any:
    """The sum of all lanes, added up in halves."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        found, size, lanes = values[0], vector.lanes // 2, range(vector.lanes)
        while size:
            turned = constant([(k + size) % vector.lanes for k in lanes])
            found = builder.fadd(found, builder.shuffle_vector(found, found, turned))
            size //= 2
        return builder.extract_element(found, ir.Constant(_HALF, 0))

    return vector.real(vector), generate
