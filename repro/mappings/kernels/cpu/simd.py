"""SIMD vectors as values of compiled functions.

LLVM vectorizes loops over whole vectors only, and never where lanes are exchanged. Here vectors are
explicit: a :class:`Vector` has arithmetic and comparisons with vectors and numbers, a :class:`Mask`
selects lanes. A vector is as wide as the widest registers of the processor.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, overload, register_model

from repro.mappings.kernels.cpu.compile import INLINE


def _features() -> set[str]:
    """Instruction sets of the processor that code is compiled for."""
    features = config.CPU_FEATURES
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    return set(features.split(","))


def _register_bits(features: set[str]) -> int:
    """Width of the widest registers."""
    return next(
        (bits for name, bits in (("+avx512f", 512), ("+avx", 256)) if name in features), 128
    )


FEATURES = _features()
BITS = _register_bits(FEATURES)
"""Width of a vector in bits."""
_WORD, _HALF, _BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
_FLAGS = ("contract",)


class Vector(types.Type):
    """SIMD vector: as many numbers of one type as a register holds."""

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


def _constant(values: Sequence[int], element: ir.Type = _HALF) -> ir.Constant:
    return ir.Constant(ir.VectorType(element, len(values)), list(values))


def _spread(builder: Any, kind: ir.VectorType, value: Any) -> Any:
    """A number in all lanes."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_HALF, 0))
    return builder.shuffle_vector(first, nothing, _constant([0] * kind.count))


def _call(builder: Any, name: str, result: ir.Type, values: Sequence[Any]) -> Any:
    """Call an LLVM intrinsic."""
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def _suffix(kind: ir.VectorType) -> str:
    """The type's suffix in names of LLVM's intrinsics."""
    bits = {ir.FloatType(): "f32", ir.DoubleType(): "f64"}
    return f"v{kind.count}{bits.get(kind.element) or f'i{kind.element.width}'}"


# Arithmetic and comparisons


def _common(kinds: Sequence[types.Type]) -> Vector | None:
    """The vector type of operands that are vectors of one type or numbers."""
    vectors = {kind for kind in kinds if isinstance(kind, Vector)}
    others = [kind for kind in kinds if not isinstance(kind, Vector | types.Number)]
    return vectors.pop() if len(vectors) == 1 and not others else None


def _require_common(*kinds: types.Type) -> Vector:
    common = _common(kinds)
    if common is None:
        raise TypingError(f"no vector type is common to {kinds}")
    return common


def _operands(context: Any, builder: Any, kinds: Any, values: Any) -> list[Any]:
    """Vectors or numbers as vectors of their common type."""
    common = _require_common(*kinds)
    vector = context.get_value_type(common)
    return [
        value if kind == common
        else _spread(builder, vector, context.cast(builder, value, kind, common.real))
        for kind, value in zip(kinds, values, strict=True)
    ]  # fmt: skip


def _arithmetic(floating: str, whole: str) -> Callable[..., Any]:
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


def _register(function: Any, lower: Callable[..., Any], result: Callable[..., Any]) -> None:
    """Define an operator of Python for vectors."""

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
        _register(_function, _arithmetic(*_names), lambda kind: kind)
for _function, _symbol in _COMPARISONS.items():
    _register(_function, _comparison(_symbol), lambda kind: Mask(kind.lanes))


# Lane by lane


@intrinsic
def splat(typing_context: Any, value: Any) -> Any:
    """A number in all lanes."""
    result = Vector(value)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return _spread(builder, context.get_value_type(result), values[0])

    return result(value), generate


@intrinsic
def numbered(typing_context: Any, vector: Any) -> Any:
    """The numbers of the lanes, as a vector of the same type."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), [float(k) for k in range(vector.lanes)])

    return vector(vector), generate


@intrinsic
def maximum(typing_context: Any, one: Any, other: Any) -> Any:
    """The larger of two in every lane; the other where one of them is NaN."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        left, right = _operands(context, builder, sig.args, values)
        return builder.select(builder.fcmp_ordered(">", left, right), left, right)

    return _require_common(one, other)(one, other), generate


@intrinsic
def minimum(typing_context: Any, one: Any, other: Any) -> Any:
    """The smaller of two in every lane; the other where one of them is NaN."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        left, right = _operands(context, builder, sig.args, values)
        return builder.select(builder.fcmp_ordered("<", left, right), left, right)

    return _require_common(one, other)(one, other), generate


@intrinsic
def where(typing_context: Any, mask: Any, one: Any, other: Any) -> Any:
    """One where a mask holds, the other elsewhere."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.select(values[0], *_operands(context, builder, sig.args[1:], values[1:]))

    return _require_common(one, other)(mask, one, other), generate


@intrinsic
def unordered(typing_context: Any, one: Any, other: Any) -> Any:
    """Whether one of two is NaN."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return builder.fcmp_unordered("uno", *values)

    return Mask(one.lanes)(one, other), generate


def _of_masks(combine: Callable[..., Any], meaning: str) -> Any:
    @intrinsic
    def combined(typing_context: Any, one: Any, other: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return combine(builder, *values)

        return one(one, other), generate

    combined.__doc__ = meaning
    return combined


either = _of_masks(lambda builder, a, b: builder.or_(a, b), "Whether one of two masks holds.")
both = _of_masks(lambda builder, a, b: builder.and_(a, b), "Whether two masks hold.")
excluding = _of_masks(
    lambda builder, a, b: builder.and_(a, builder.not_(b)),
    "Whether a mask holds and another does not.",
)


def _of_vector(
    result: Callable[[Vector], Vector], convert: Callable[..., Any], meaning: str
) -> Any:
    @intrinsic
    def converted(typing_context: Any, vector: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return convert(builder, values[0], context.get_value_type(sig.return_type))

        return result(vector)(vector), generate

    converted.__doc__ = meaning
    return converted


def _integers(kind: Vector) -> Vector:
    return Vector(types.int32 if kind.real.bitwidth == 32 else types.int64)


def _reals(kind: Vector) -> Vector:
    return Vector(types.float32 if kind.real.bitwidth == 32 else types.float64)


def _known(operation: str) -> Callable[..., Any]:
    return lambda builder, value, kind: _call(
        builder, f"llvm.{operation}.{_suffix(kind)}", kind, [value]
    )


bits_of = _of_vector(_integers, lambda b, v, kind: b.bitcast(v, kind), "The bits as integers.")
real_of = _of_vector(_reals, lambda b, v, kind: b.bitcast(v, kind), "Bits as real numbers.")
rounded = _of_vector(_reals, lambda b, v, kind: b.sitofp(v, kind), "Integers as real numbers.")
sqrt = _of_vector(lambda kind: kind, _known("sqrt"), "The square root of every lane.")
magnitude = _of_vector(lambda kind: kind, _known("fabs"), "The absolute value of every lane.")


@intrinsic
def count(typing_context: Any, mask: Any) -> Any:
    """In how many lanes a mask holds."""
    bits = ir.IntType(mask.lanes)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        packed = builder.bitcast(values[0], bits)
        return builder.zext(_call(builder, f"llvm.ctpop.i{mask.lanes}", bits, [packed]), _WORD)

    return types.int64(mask), generate


# Across lanes


def _folded(builder: Any, vector: Any, combine: Callable[..., Any]) -> Any:
    """All lanes combined, in halves."""
    lanes = vector.type.count
    size = lanes // 2
    while size:
        turned = _constant([(k + size) % lanes for k in range(lanes)])
        vector = combine(vector, builder.shuffle_vector(vector, vector, turned))
        size //= 2
    return builder.extract_element(vector, ir.Constant(_HALF, 0))


@intrinsic
def total(typing_context: Any, vector: Any) -> Any:
    """The sum of all lanes."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return _folded(builder, values[0], builder.fadd)

    return vector.real(vector), generate


@intrinsic
def highest(typing_context: Any, vector: Any) -> Any:
    """The largest of all lanes, none of which is NaN."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        def larger(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        return _folded(builder, values[0], larger)

    return vector.real(vector), generate


def _half(builder: Any, value: Any, part: int) -> Any:
    """The lower or the upper half of a vector of single precision, in double."""
    lanes = value.type.count // 2
    chosen = builder.shuffle_vector(
        value, value, _constant([part * lanes + k for k in range(lanes)])
    )
    return builder.fpext(chosen, ir.VectorType(ir.DoubleType(), lanes))


@intrinsic
def wide_total(typing_context: Any, vector: Any) -> Any:
    """The sum of all lanes in double precision."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        if vector.real == types.float64:
            return _folded(builder, values[0], builder.fadd)
        halves = [_half(builder, values[0], part) for part in range(2)]
        return _folded(builder, builder.fadd(*halves), builder.fadd)

    return types.float64(vector), generate


def _halves_of(part: int, meaning: str) -> Any:
    return _of_vector(
        lambda kind: Vector(types.float64), lambda b, v, kind: _half(b, v, part), meaning
    )


lower_half = _halves_of(0, "The lower half of a vector of single precision, in double.")
upper_half = _halves_of(1, "The upper half of a vector of single precision, in double.")


@intrinsic
def join(typing_context: Any, low: Any, high: Any) -> Any:
    """Two halves in double precision as one vector in single precision."""
    result = Vector(types.float32)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        narrow = ir.VectorType(ir.FloatType(), low.lanes)
        parts = [builder.fptrunc(value, narrow) for value in values]
        return builder.shuffle_vector(*parts, _constant(range(result.lanes)))

    return result(low, high), generate


# Memory


def _place(context: Any, builder: Any, kind: Any, values: Any, lanes: int) -> Any:
    """The address of a vector of an array's elements, given array and index."""
    data = context.make_array(kind)(context, builder, values[0]).data
    vector = ir.VectorType(context.get_value_type(kind.dtype), lanes)
    return builder.bitcast(builder.gep(data, [values[1]]), vector.as_pointer())


def _align(kind: Any) -> int:
    """Vectors may begin at any element."""
    return int(kind.dtype.bitwidth) // 8


def _first(builder: Any, lanes: int, many: Any) -> Any:
    """The mask of the first ``many`` lanes."""
    vector = ir.VectorType(_HALF, lanes)
    limit = _spread(builder, vector, builder.trunc(many, _HALF))
    return builder.icmp_signed("<", _constant(range(lanes)), limit)


def _converted(builder: Any, value: Any, origin: Any, target: Any, kind: ir.VectorType) -> Any:
    """Numbers of one type as numbers of another."""
    if origin == target:
        return value
    if isinstance(target, types.Integer):
        return builder.fptosi(value, kind)
    if isinstance(origin, types.Integer):
        return (builder.sitofp if origin.signed else builder.uitofp)(value, kind)
    wider = target.bitwidth > origin.bitwidth
    return (builder.fpext if wider else builder.fptrunc)(value, kind)


@intrinsic
def load_as(typing_context: Any, like: Any, array: Any, index: Any) -> Any:
    """A vector in the type of one array, of the elements of another from an index on."""
    result = Vector(like.dtype)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = _place(context, builder, array, values[1:], result.lanes)
        found = builder.load(place, align=_align(array))
        return _converted(builder, found, array.dtype, like.dtype, context.get_value_type(result))

    return result(like, array, types.int64), generate


@intrinsic
def load_first_as(
    typing_context: Any, like: Any, array: Any, index: Any, many: Any, other: Any
) -> Any:
    """Like :func:`load_as` for the first ``many`` lanes; ``other`` in the remaining lanes.

    Only these elements are read.
    """
    result = Vector(like.dtype)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = _place(context, builder, array, values[1:3], result.lanes)
        kind = place.type.pointee
        others = _spread(builder, kind, values[4])
        mask = _first(builder, result.lanes, values[3])
        name = f"llvm.masked.load.{_suffix(kind)}.p0"
        found = _call(builder, name, kind, [place, _HALF(_align(array)), mask, others])
        return _converted(builder, found, array.dtype, like.dtype, context.get_value_type(result))

    return result(like, array, types.int64, types.int64, array.dtype), generate


@intrinsic
def store(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write all lanes."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = _place(context, builder, array, values[:2], vector.lanes)
        kind = place.type.pointee
        value = _converted(builder, values[2], vector.real, array.dtype, kind)
        builder.store(value, place, align=_align(array))
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), generate


@intrinsic
def store_first(typing_context: Any, array: Any, index: Any, many: Any, vector: Any) -> Any:
    """Write the first ``many`` lanes."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = _place(context, builder, array, values[:2], vector.lanes)
        kind = place.type.pointee
        value = _converted(builder, values[3], vector.real, array.dtype, kind)
        mask = _first(builder, vector.lanes, values[2])
        name = f"llvm.masked.store.{_suffix(kind)}.p0"
        _call(builder, name, ir.VoidType(), [value, place, _HALF(_align(array)), mask])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, vector), generate


def load(array, index):
    """Load the vector that begins at an index of an array with one axis."""
    raise NotImplementedError("callable from kernels only")


def load_first(array, index, many, other):
    """Load the first ``many`` lanes of a vector; ``other`` in the remaining lanes."""
    raise NotImplementedError("callable from kernels only")


@overload(load, jit_options=INLINE)
def _load(array, index):
    return lambda array, index: load_as(array, array, index)


@overload(load_first, jit_options=INLINE)
def _load_first(array, index, many, other):
    return lambda array, index, many, other: load_first_as(array, array, index, many, other)


# Exchanges of lanes


def _compressing(mask: int, lanes: int) -> list[int]:
    """The lane that each lane of a compressed vector comes from."""
    kept = [lane for lane in range(lanes) if mask >> lane & 1]
    return kept + [0] * (lanes - len(kept))


def _expanding(mask: int, lanes: int) -> list[int]:
    return [(mask & ((1 << lane) - 1)).bit_count() for lane in range(lanes)]


def _permuted(builder: Any, vector: Any, mask: Any, origins: Callable[..., list[int]]) -> Any:
    """Lanes in the order that a table has for each mask, by an instruction of AVX2.

    It moves 32 bits: halves of lanes in double precision.
    """
    lanes = vector.type.count
    parts = 8 // lanes
    rows = [
        _constant([parts * lane + part for lane in origins(bits, lanes) for part in range(parts)])
        for bits in range(2**lanes)
    ]
    table = ir.Constant(ir.ArrayType(rows[0].type, len(rows)), rows)
    name = f"repro.{origins.__name__}.{lanes}"
    held = builder.module.globals.get(name) or cgutils.global_constant(builder, name, table)
    bits = builder.zext(builder.bitcast(mask, ir.IntType(lanes)), _WORD)
    order = builder.load(builder.gep(held, [_WORD(0), bits]))
    eight = ir.VectorType(ir.FloatType(), 8)
    moved = _call(builder, "llvm.x86.avx2.permps", eight, [builder.bitcast(vector, eight), order])
    return builder.bitcast(moved, vector.type)


_BY_TABLE = BITS == 256 and "+avx2" in FEATURES
"""Without instructions that compress and expand, LLVM would move lane by lane."""
_ELEMENT_BITS = {"float": 32, "i32": 32, "double": 64}


def _compressed(builder: Any, vector: Any, mask: Any) -> Any:
    kind = vector.type
    if _BY_TABLE and kind.count * _ELEMENT_BITS[str(kind.element)] == BITS:
        return _permuted(builder, vector, mask, _compressing)
    name = f"llvm.experimental.vector.compress.{_suffix(kind)}"
    return _call(builder, name, kind, [vector, mask, ir.Constant(kind, ir.Undefined)])


@intrinsic
def compress(typing_context: Any, vector: Any, mask: Any) -> Any:
    """The lanes where a mask holds, next to each other; the others are undefined."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return _compressed(builder, *values)

    return vector(vector, mask), generate


@intrinsic
def expand(typing_context: Any, array: Any, index: Any, mask: Any) -> Any:
    """The elements from an index on, in the lanes where a mask holds; zero elsewhere.

    A whole vector may be read.
    """
    result = Vector(array.dtype)

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = _place(context, builder, array, values[:2], result.lanes)
        kind = place.type.pointee
        zeros = ir.Constant(kind, None)
        if _BY_TABLE:
            packed = builder.load(place, align=_align(array))
            return builder.select(
                values[2], _permuted(builder, packed, values[2], _expanding), zeros
            )
        name = f"llvm.masked.expandload.{_suffix(kind)}"
        return _call(builder, name, kind, [place, values[2], zeros])

    return result(array, types.int64, Mask(result.lanes)), generate


@intrinsic
def store_positions(typing_context: Any, array: Any, index: Any, first: Any, mask: Any) -> Any:
    """Write the positions of the lanes where a mask holds, next to each other, as 32-bit integers.

    Lane zero has position ``first``. A whole vector is overwritten.
    """
    whole, lanes = ir.VectorType(_HALF, mask.lanes), mask.lanes

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        place = _place(context, builder, array, values[:2], lanes)
        start = _spread(builder, whole, builder.trunc(values[2], _HALF))
        own = builder.add(start, _constant(range(lanes)))
        builder.store(_compressed(builder, own, values[3]), place, align=_align(array))
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
            rows[i] = builder.shuffle_vector(one, other, _constant(near))
            rows[i + size] = builder.shuffle_vector(one, other, _constant(far))
        size //= 2
    return rows


@intrinsic
def transpose(
    typing_context: Any, source: Any, start: Any, stride: Any, target: Any, at: Any, step: Any
) -> Any:
    """Write the transpose of a square of as many rows as a vector has lanes.

    Rows begin at ``start`` and every ``stride`` after it; columns are written at ``at`` and every
    ``step`` after it.
    """
    lanes = Vector(source.dtype).lanes

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        origin, start, stride, room, at, step = values

        def place(kind: Any, array: Any, first: Any, apart: Any, k: int) -> Any:
            index = builder.add(first, builder.mul(apart, _WORD(k)))
            return _place(context, builder, kind, (array, index), lanes)

        rows = [
            builder.load(place(source, origin, start, stride, k), align=_align(source))
            for k in range(lanes)
        ]
        for k, row in enumerate(_transposed(builder, rows)):
            builder.store(row, place(target, room, at, step, k), align=_align(target))
        return context.get_dummy_value()

    whole = types.int64
    return types.void(source, whole, whole, target, whole, whole), generate
