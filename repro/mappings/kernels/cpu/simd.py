"""SIMD vectors as values of compiled functions.

LLVM vectorizes only simple loops, and none that permute lanes. Here vectors are explicit: a
:class:`Vector` supports arithmetic and comparisons with vectors and numbers, a :class:`Mask`
selects lanes. A vector is as wide as the widest registers of the processor.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Signature
from inspect import signature as signature_of
from typing import Any

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

_HOST = binding.get_host_cpu_features().flatten()
FEATURES = set((_HOST if config.CPU_FEATURES is None else config.CPU_FEATURES).split(","))
"""Instruction sets of the processor that code is compiled for."""
BITS = 512 if "+avx512f" in FEATURES else 256 if "+avx" in FEATURES else 128
"""Width of a vector in bits: that of the widest registers."""
_WORD, _HALF = ir.IntType(64), ir.IntType(32)
_ELEMENTS = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}
_REALS, _INTEGERS = {32: types.float32, 64: types.float64}, {32: types.int32, 64: types.int64}


class Vector(types.Type):
    """SIMD vector: as many numbers of one type as a register holds."""

    def __init__(self, real: types.Type) -> None:
        self.real, self.lanes = real, BITS // real.bitwidth
        self.llvm = ir.VectorType(_ELEMENTS.get(real) or ir.IntType(real.bitwidth), self.lanes)
        super().__init__(name=f"vector({real} x {self.lanes})")


class Mask(types.Type):
    """SIMD mask: a boolean for each lane."""

    def __init__(self, lanes: int) -> None:
        self.lanes, self.llvm = lanes, ir.VectorType(ir.IntType(1), lanes)
        super().__init__(name=f"mask({lanes})")


@register_model(Vector)
@register_model(Mask)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.llvm)


def _operation(typing: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that turns a writer of LLVM code into an operation of compiled functions.

    The decorated function takes a builder, the signature and the values, where an array is a
    pointer to its first element.

    Args:
        typing: takes the types of the arguments; returns the signature, to whose types they are
            converted, or None if there is no such operation.
    """

    def define(write: Callable[..., Any]) -> Any:
        @wraps(write)
        def typed(typing_context: Any, *kinds: Any) -> Any:
            def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
                given = [
                    context.make_array(kind)(context, builder, value).data
                    if isinstance(kind, types.Array)
                    else value
                    for kind, value in zip(sig.args, values, strict=True)
                ]
                result = write(builder, sig, *given)
                return context.get_dummy_value() if sig.return_type == types.void else result

            sig = typing(*kinds)
            return sig and (sig, generate)

        # numba reads the names of the arguments, of which the first is the typing context.
        parameters = list(signature_of(write).parameters.values())
        typed.__signature__ = Signature(parameters[1:])  # type: ignore[attr-defined]
        return intrinsic(typed)

    return define


def _constant(values: Iterable[int]) -> ir.Constant:
    values = list(values)
    return ir.Constant(ir.VectorType(_HALF, len(values)), values)


def _spread(builder: Any, kind: ir.VectorType, value: Any) -> Any:
    """Broadcast a number to all lanes."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_HALF, 0))
    return builder.shuffle_vector(first, nothing, _constant([0] * kind.count))


def _call(builder: Any, name: str, result: ir.Type, *values: Any) -> Any:
    """Call an LLVM intrinsic."""
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def _width(element: ir.Type) -> int:
    """Return the width of an element in bits."""
    return {ir.FloatType(): 32, ir.DoubleType(): 64}.get(element) or int(element.width)


def _suffix(kind: ir.VectorType) -> str:
    """Return the suffix of the type in names of LLVM intrinsics."""
    letter = "i" if isinstance(kind.element, ir.IntType) else "f"
    return f"v{kind.count}{letter}{_width(kind.element)}"


# Lane by lane


def _common(kinds: Sequence[types.Type]) -> Vector | None:
    """Return the vector type of operands that are vectors of one type or numbers, else None."""
    vectors = {kind for kind in kinds if isinstance(kind, Vector)}
    others = [kind for kind in kinds if not isinstance(kind, Vector | types.Number)]
    return vectors.pop() if len(vectors) == 1 and not others else None


def _operands(result: Callable[[Vector], types.Type] = lambda kind: kind) -> Callable[..., Any]:
    """Return the typing of an operation on vectors and numbers, given its result type."""

    def typing(*kinds: types.Type) -> Any:
        common = _common(kinds)
        if common is None:
            return None
        return result(common)(*(k if isinstance(k, Vector) else common.real for k in kinds))

    return typing


def _as_vectors(builder: Any, sig: Any, values: Sequence[Any]) -> list[Any]:
    """Convert operands to vectors of their common type."""
    kind = _common(sig.args).llvm  # type: ignore[union-attr]
    return [value if value.type == kind else _spread(builder, kind, value) for value in values]


def _define_operator(
    function: Any, typing: Callable[..., Any], write: Callable[..., Any], *kinds: Any
) -> None:
    """Define a Python operator for some kinds of operands."""

    class Template(AbstractTemplate):
        key = function

        def generic(self, operands: Any, keywords: Any) -> Any:
            return typing(*operands)

    infer_global(function)(Template)
    for each in kinds:
        lower_builtin(function, *each)(lambda _, builder, sig, values: write(builder, sig, *values))


def _arithmetic(floating: str, whole: str) -> Callable[..., Any]:
    def write(builder: Any, sig: Any, *values: Any) -> Any:
        left, right = _as_vectors(builder, sig, values)
        if isinstance(sig.return_type.real, types.Float):
            return getattr(builder, floating)(left, right, flags=("contract",))
        return getattr(builder, whole)(left, right)

    return write


def _comparison(symbol: str) -> Callable[..., Any]:
    return lambda builder, sig, *values: builder.fcmp_ordered(
        symbol, *_as_vectors(builder, sig, values)
    )


def _masks(*kinds: types.Type) -> Any:
    """Return the typing of an operation on masks."""
    return kinds[0](*kinds) if all(isinstance(kind, Mask) for kind in kinds) else None


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
_PAIRS = ((Vector, Vector), (Vector, types.Number), (types.Number, Vector))
for _functions, _names in _ARITHMETIC.items():
    for _function in _functions:
        _define_operator(_function, _operands(), _arithmetic(*_names), *_PAIRS)
for _function, _symbol in _COMPARISONS.items():
    _define_operator(
        _function, _operands(lambda kind: Mask(kind.lanes)), _comparison(_symbol), *_PAIRS
    )
for _function in (operator.and_, operator.iand):
    _define_operator(_function, _masks, lambda b, sig, *masks: b.and_(*masks), (Mask, Mask))
for _function in (operator.or_, operator.ior):
    _define_operator(_function, _masks, lambda b, sig, *masks: b.or_(*masks), (Mask, Mask))
_define_operator(operator.invert, _masks, lambda b, sig, mask: b.not_(mask), (Mask,))


@_operation(lambda value: Vector(value)(value))
def splat(builder, sig, value):
    """Return a vector with a number in all lanes."""
    return _spread(builder, sig.return_type.llvm, value)


@_operation(lambda vector: vector(vector))
def zeros_like(builder, sig, vector):
    """Return a vector of zeros of the same type."""
    return ir.Constant(vector.type, None)


@_operation(lambda vector: vector(vector))
def numbered(builder, sig, vector):
    """Return the lane numbers ``0, 1, ...`` as a vector of the same type."""
    return ir.Constant(vector.type, [float(k) for k in range(vector.type.count)])


def _select(builder, symbol, one, other):
    """Select ``one`` in the lanes where ``one symbol other`` holds, ``other`` elsewhere."""
    return builder.select(builder.fcmp_ordered(symbol, one, other), one, other)


@_operation(_operands())
def maximum(builder, sig, one, other):
    """Return the larger of two in every lane; ``other`` if either is NaN."""
    return _select(builder, ">", *_as_vectors(builder, sig, (one, other)))


@_operation(_operands())
def minimum(builder, sig, one, other):
    """Return the smaller of two in every lane; ``other`` if either is NaN."""
    return _select(builder, "<", *_as_vectors(builder, sig, (one, other)))


def _choice(mask: Mask, *kinds: types.Type) -> Any:
    """Return the typing of ``where``; for two numbers the mask determines the vector type."""
    common = _common(kinds) or Vector(_REALS[BITS // mask.lanes])
    return common(mask, *(kind if kind == common else common.real for kind in kinds))


@_operation(_choice)
def where(builder, sig, mask, one, other):
    """Return ``one`` in the lanes where the mask is true, ``other`` elsewhere."""
    kind = sig.return_type.llvm
    chosen = (v if v.type == kind else _spread(builder, kind, v) for v in (one, other))
    return builder.select(mask, *chosen)


@_operation(lambda one, other: Mask(one.lanes)(one, other))
def unordered(builder, sig, one, other):
    """Return in which lanes either operand is NaN."""
    return builder.fcmp_unordered("uno", one, other)


@_operation(lambda vector: Vector(_INTEGERS[vector.real.bitwidth])(vector))
def bits_of(builder, sig, vector):
    """Reinterpret the bits of real numbers as integers."""
    return builder.bitcast(vector, sig.return_type.llvm)


@_operation(lambda vector: Vector(_REALS[vector.real.bitwidth])(vector))
def real_of(builder, sig, vector):
    """Reinterpret integers as the bits of real numbers."""
    return builder.bitcast(vector, sig.return_type.llvm)


@_operation(lambda vector: Vector(_REALS[vector.real.bitwidth])(vector))
def rounded(builder, sig, vector):
    """Convert integers to real numbers."""
    return builder.sitofp(vector, sig.return_type.llvm)


@_operation(lambda vector: vector(vector))
def sqrt(builder, sig, vector):
    """Return the square root of every lane."""
    return _call(builder, f"llvm.sqrt.{_suffix(vector.type)}", vector.type, vector)


@_operation(lambda vector: vector(vector))
def magnitude(builder, sig, vector):
    """Return the absolute value of every lane."""
    return _call(builder, f"llvm.fabs.{_suffix(vector.type)}", vector.type, vector)


@_operation(lambda mask: types.int64(mask))
def count(builder, sig, mask):
    """Return the number of lanes where the mask is true."""
    bits = ir.IntType(mask.type.count)
    packed = builder.bitcast(mask, bits)
    return builder.zext(_call(builder, f"llvm.ctpop.i{bits.width}", bits, packed), _WORD)


# Across lanes


def _folded(builder: Any, vector: Any, combine: Callable[..., Any]) -> Any:
    """Reduce all lanes to one number, combining halves."""
    lanes = vector.type.count
    size = lanes // 2
    while size:
        turned = _constant((k + size) % lanes for k in range(lanes))
        vector = combine(vector, builder.shuffle_vector(vector, vector, turned))
        size //= 2
    return builder.extract_element(vector, ir.Constant(_HALF, 0))


@_operation(lambda vector: vector.real(vector))
def total(builder, sig, vector):
    """Return the sum of all lanes."""
    return _folded(builder, vector, builder.fadd)


@_operation(lambda vector: vector.real(vector))
def highest(builder, sig, vector):
    """Return the largest of all lanes, none of which may be NaN."""
    return _folded(builder, vector, lambda one, other: _select(builder, ">", one, other))


def _half(builder: Any, vector: Any, part: int) -> Any:
    """Return the lower or the upper half of a float32 vector, in double precision."""
    lanes = vector.type.count // 2
    chosen = _constant(part * lanes + k for k in range(lanes))
    narrow = builder.shuffle_vector(vector, vector, chosen)
    return builder.fpext(narrow, ir.VectorType(ir.DoubleType(), lanes))


@_operation(lambda vector: types.float64(vector))
def wide_total(builder, sig, vector):
    """Return the sum of all lanes in double precision."""
    if sig.args[0].real == types.float32:
        vector = builder.fadd(_half(builder, vector, 0), _half(builder, vector, 1))
    return _folded(builder, vector, builder.fadd)


@_operation(lambda vector: Vector(types.float64)(vector))
def lower_half(builder, sig, vector):
    """Return the lower half of a float32 vector, in double precision."""
    return _half(builder, vector, 0)


@_operation(lambda vector: Vector(types.float64)(vector))
def upper_half(builder, sig, vector):
    """Return the upper half of a float32 vector, in double precision."""
    return _half(builder, vector, 1)


@_operation(lambda low, high: Vector(types.float32)(low, high))
def join(builder, sig, low, high):
    """Join two halves in double precision into one float32 vector."""
    narrow = ir.VectorType(ir.FloatType(), low.type.count)
    parts = [builder.fptrunc(half, narrow) for half in (low, high)]
    return builder.shuffle_vector(*parts, _constant(range(2 * narrow.count)))


# Memory


def _address(builder: Any, array: Any, index: Any, lanes: int) -> tuple[Any, int]:
    """Return the address of a vector in an array, and its alignment, that of one element."""
    element = array.type.pointee
    vector = ir.VectorType(element, lanes).as_pointer()
    return builder.bitcast(builder.gep(array, [index]), vector), _width(element) // 8


def _first(builder: Any, lanes: int, many: Any) -> Any:
    """Return the mask of the first ``many`` lanes."""
    vector = ir.VectorType(_HALF, lanes)
    limit = _spread(builder, vector, builder.trunc(many, _HALF))
    return builder.icmp_signed("<", _constant(range(lanes)), limit)


def _converted(builder: Any, value: Any, origin: Any, target: Any) -> Any:
    """Convert a vector of numbers from one type to another."""
    if origin == target:
        return value
    kind = ir.VectorType(Vector(target).llvm.element, value.type.count)
    if isinstance(target, types.Integer):
        return builder.fptosi(value, kind)
    if isinstance(origin, types.Integer):
        return (builder.sitofp if origin.signed else builder.uitofp)(value, kind)
    return (builder.fpext if target.bitwidth > origin.bitwidth else builder.fptrunc)(value, kind)


def _load_first(builder: Any, sig: Any, array: Any, index: Any, many: Any, other: Any) -> Any:
    lanes = sig.return_type.lanes
    address, align = _address(builder, array, index, lanes)
    kind = address.type.pointee
    # Masked instructions are slow, and without AVX-512 those for bytes compile to loops.
    with builder.if_else(builder.icmp_signed(">=", many, _WORD(lanes)), likely=True) as ways:
        with ways[0]:
            whole, from_whole = builder.load(address, align=align), builder.block
        with ways[1]:
            name = f"llvm.masked.load.{_suffix(kind)}.p0"
            mask, others = _first(builder, lanes, many), _spread(builder, kind, other)
            part = _call(builder, name, kind, address, _HALF(align), mask, others)
            from_part = builder.block
    found = builder.phi(kind)
    found.add_incoming(whole, from_whole)
    found.add_incoming(part, from_part)
    return _converted(builder, found, sig.args[-4].dtype, sig.return_type.real)


@_operation(lambda array, index: Vector(array.dtype)(array, types.int64))
def load(builder, sig, array, index):
    """Load the vector that begins at an index of an array with one axis."""
    address, align = _address(builder, array, index, sig.return_type.lanes)
    return builder.load(address, align=align)


@_operation(
    lambda array, index, many, other: Vector(array.dtype)(
        array, types.int64, types.int64, array.dtype
    )
)
def load_first(builder, sig, array, index, many, other):
    """Load the first ``many`` lanes of a vector; ``other`` in the remaining lanes.

    Only these elements are read.
    """
    return _load_first(builder, sig, array, index, many, other)


@_operation(
    lambda like, array, index, many, other: Vector(like.dtype)(
        like, array, types.int64, types.int64, array.dtype
    )
)
def load_first_as(builder, sig, like, array, index, many, other):
    """Load the first ``many`` lanes, ``other`` in the rest, converted to the type of ``like``."""
    return _load_first(builder, sig, array, index, many, other)


@_operation(lambda array, index, vector: types.void(array, types.int64, vector))
def store(builder, sig, array, index, vector):
    """Write all lanes to an array from an index on, converted to its type."""
    address, align = _address(builder, array, index, vector.type.count)
    value = _converted(builder, vector, sig.args[-1].real, sig.args[0].dtype)
    builder.store(value, address, align=align)


@_operation(lambda array, index, many, vector: types.void(array, types.int64, types.int64, vector))
def store_first(builder, sig, array, index, many, vector):
    """Write the first ``many`` lanes to an array from an index on, converted to its type."""
    lanes = vector.type.count
    address, align = _address(builder, array, index, lanes)
    value = _converted(builder, vector, sig.args[-1].real, sig.args[0].dtype)
    with builder.if_else(builder.icmp_signed(">=", many, _WORD(lanes)), likely=True) as ways:
        with ways[0]:
            builder.store(value, address, align=align)
        with ways[1]:
            name, mask = f"llvm.masked.store.{_suffix(value.type)}.p0", _first(builder, lanes, many)
            _call(builder, name, ir.VoidType(), value, address, _HALF(align), mask)


# Permutations of lanes


def _compressing(mask: int, lanes: int) -> list[int]:
    """Return the source lane of each lane of a compressed vector."""
    kept = [lane for lane in range(lanes) if mask >> lane & 1]
    return kept + [0] * (lanes - len(kept))


def _expanding(mask: int, lanes: int) -> list[int]:
    """Return the source lane, in a compressed vector, of each lane of an expanded one."""
    return [(mask & ((1 << lane) - 1)).bit_count() for lane in range(lanes)]


_BY_TABLE = BITS == 256 and "+avx2" in FEATURES
"""Whether lanes are permuted by tables: without AVX-512, LLVM compresses lane by lane."""


def _permuted(builder: Any, vector: Any, mask: Any, origins: Callable[..., list[int]]) -> Any:
    """Permute lanes as a table says for each mask, by an instruction of AVX2.

    The instruction permutes units of 32 bits, two for each lane in double precision.
    """
    lanes = vector.type.count
    parts = 8 // lanes
    rows = [
        _constant(parts * lane + part for lane in origins(bits, lanes) for part in range(parts))
        for bits in range(2**lanes)
    ]
    table = ir.Constant(ir.ArrayType(rows[0].type, len(rows)), rows)
    name = f"repro.{origins.__name__}.{lanes}"
    held = builder.module.globals.get(name) or cgutils.global_constant(builder, name, table)
    bits = builder.zext(builder.bitcast(mask, ir.IntType(lanes)), _WORD)
    order = builder.load(builder.gep(held, [_WORD(0), bits]))
    eight = ir.VectorType(ir.FloatType(), 8)
    moved = _call(builder, "llvm.x86.avx2.permps", eight, builder.bitcast(vector, eight), order)
    return builder.bitcast(moved, vector.type)


def _compressed(builder: Any, vector: Any, mask: Any) -> Any:
    kind = vector.type
    if _BY_TABLE and kind.count * _width(kind.element) == BITS:
        return _permuted(builder, vector, mask, _compressing)
    name = f"llvm.experimental.vector.compress.{_suffix(kind)}"
    return _call(builder, name, kind, vector, mask, ir.Constant(kind, ir.Undefined))


@_operation(lambda vector, mask: vector(vector, mask))
def compress(builder, sig, vector, mask):
    """Move the lanes where the mask is true to the front; the remaining lanes are undefined."""
    return _compressed(builder, vector, mask)


@_operation(lambda array, index, mask: Vector(array.dtype)(array, types.int64, mask))
def expand(builder, sig, array, index, mask):
    """Load consecutive elements into the lanes where the mask is true; the others are zero.

    A whole vector may be read.
    """
    address, align = _address(builder, array, index, mask.type.count)
    kind = address.type.pointee
    zeros = ir.Constant(kind, None)
    if _BY_TABLE:
        packed = builder.load(address, align=align)
        return builder.select(mask, _permuted(builder, packed, mask, _expanding), zeros)
    return _call(builder, f"llvm.masked.expandload.{_suffix(kind)}", kind, address, mask, zeros)


@_operation(lambda array, index, first, mask: types.void(array, types.int64, types.int64, mask))
def store_positions(builder, sig, array, index, first, mask):
    """Write the positions of the lanes where the mask is true consecutively as 32-bit integers.

    Lane zero has position ``first``. A whole vector is overwritten.
    """
    lanes = mask.type.count
    address, align = _address(builder, array, index, lanes)
    start = _spread(builder, ir.VectorType(_HALF, lanes), builder.trunc(first, _HALF))
    positions = builder.add(start, _constant(range(lanes)))
    builder.store(_compressed(builder, positions, mask), address, align=align)


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose a square by exchanging blocks of half its size, then a quarter, down to lanes."""
    lanes, rows = len(rows), list(rows)
    size = lanes // 2
    while size:
        near = _constant(k if not k & size else lanes + k - size for k in range(lanes))
        far = _constant(k + size if not k & size else lanes + k for k in range(lanes))
        for i in (i for i in range(lanes) if not i & size):
            one, other = rows[i], rows[i + size]
            rows[i] = builder.shuffle_vector(one, other, near)
            rows[i + size] = builder.shuffle_vector(one, other, far)
        size //= 2
    return rows


def _six(source: Any, start: Any, stride: Any, target: Any, at: Any, step: Any) -> Any:
    whole = types.int64
    return types.void(source, whole, whole, target, whole, whole)


@_operation(_six)
def transpose(builder, sig, source, start, stride, target, at, step):
    """Write the transpose of a square whose size is the number of lanes of a vector.

    Rows begin at ``start`` and every ``stride`` after it; columns are written at ``at`` and every
    ``step`` after it.
    """
    lanes = Vector(sig.args[0].dtype).lanes

    def address(array: Any, first: Any, apart: Any, k: int) -> Any:
        return _address(builder, array, builder.add(first, builder.mul(apart, _WORD(k))), lanes)

    rows = []
    for k in range(lanes):
        place, align = address(source, start, stride, k)
        rows.append(builder.load(place, align=align))
    for k, row in enumerate(_transposed(builder, rows)):
        place, align = address(target, at, step, k)
        builder.store(row, place, align=align)
