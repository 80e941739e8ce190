"""The types of numbers side by side in a register, their arithmetic and their comparisons."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model


def _features() -> set[str]:
    """Of the processor that code is compiled for."""
    features = config.CPU_FEATURES
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    return set(features.split(","))


def _register_bits(features: set[str]) -> int:
    """Of its widest registers."""
    return next(
        (bits for name, bits in (("+avx512f", 512), ("+avx", 256)) if name in features), 128
    )


FEATURES = _features()
BITS = _register_bits(FEATURES)
"""Of a vector."""
WORD = ir.IntType(64)
HALF = ir.IntType(32)
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


def constant(values: Sequence[int], element: ir.Type = HALF) -> ir.Constant:
    """Numbers that are known now."""
    return ir.Constant(ir.VectorType(element, len(values)), list(values))


def spread(builder: Any, kind: ir.VectorType, value: Any) -> Any:
    """A number in all lanes."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(HALF, 0))
    return builder.shuffle_vector(first, nothing, constant([0] * kind.count))


def declared(builder: Any, name: str, result: ir.Type, kinds: Sequence[ir.Type]) -> Any:
    """A function that the compiler knows."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, kinds), name)


def common_kind(kinds: Sequence[types.Type]) -> Vector | None:
    """The type in which two operands meet: a vector and the same, or a number."""
    vectors = [kind for kind in kinds if isinstance(kind, Vector)]
    others = [kind for kind in kinds if not isinstance(kind, Vector | types.Number)]
    return vectors[0] if vectors and not others and len(set(vectors)) == 1 else None


def met(*kinds: types.Type) -> Vector:
    """The same, an error if there is none."""
    common = common_kind(kinds)
    if common is None:
        raise TypingError(f"no vector type is common to {kinds}")
    return common


def operands(context: Any, builder: Any, kinds: Any, values: Any) -> list[Any]:
    """Operands, vectors or numbers, as vectors of their common type."""
    common = met(*kinds)
    vector = context.get_value_type(common)
    return [
        value if kind == common
        else spread(builder, vector, context.cast(builder, value, kind, common.real))
        for kind, value in zip(kinds, values, strict=True)
    ]  # fmt: skip


def _arithmetic(floating: str, whole: str) -> Callable[..., Any]:
    """How an operator is written, for real numbers and for integers."""

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        left, right = operands(context, builder, sig.args, values)
        if isinstance(sig.return_type.real, types.Float):
            return getattr(builder, floating)(left, right, flags=_FLAGS)
        return getattr(builder, whole)(left, right)

    return lower


def _comparison(symbol: str) -> Callable[..., Any]:
    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.fcmp_ordered(symbol, *operands(context, builder, sig.args, values))

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
            common = common_kind(kinds) if len(kinds) == 2 else None
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
