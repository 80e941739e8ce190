"""Vectors in compiled functions against NumPy, also with shorter registers."""

import os

import numpy as np
import pytest
from child import run_tests

pytest.importorskip("numba")

from numba import njit

from repro.mappings.kernels.cpu import simd
from repro.mappings.kernels.cpu.simd import load, store

REALS = (np.float32, np.float64)
GUARD = -7.0


def width_of(real):
    return simd.BITS // 8 // np.dtype(real).itemsize


def sample(real, seed=0):
    return np.random.default_rng(seed).standard_normal(width_of(real)).astype(real)


def compiled(function):
    """Write the result of a function of one or two loaded vectors."""
    inner = njit(function)

    @njit
    def run(first, second, out):
        store(out, 0, inner(load(first, 0), load(second, 0)))

    def call(first, second):
        out = np.full_like(first, GUARD)
        run(first, second, out)
        return out

    return call


BINARY = {
    "arithmetic": (lambda a, b: (a + b) * a - b / a, lambda a, b: (a + b) * a - b / a),
    "numbers": (lambda a, b: 2.0 * a - b * 3.0 + 1.0, lambda a, b: 2.0 * a - b * 3.0 + 1.0),
    "less": (lambda a, b: simd.where(a < b, a, 0.0), lambda a, b: np.where(a < b, a, 0)),
    "at least": (lambda a, b: simd.where(a >= b, a, b), lambda a, b: np.where(a >= b, a, b)),
    "maximum": (lambda a, b: simd.maximum(a, b), np.maximum),
    "roots": (
        lambda a, b: simd.sqrt(simd.magnitude(a)) + b,
        lambda a, b: np.sqrt(np.abs(a)) + b,
    ),
    "masks": (
        lambda a, b: simd.where(
            ((a > 0.0) | (b > 0.0)) & (a < b), a, simd.where((a < 0.0) & ~(b < 0.0), b, 1.0)
        ),
        lambda a, b: np.where(
            ((a > 0) | (b > 0)) & (a < b), a, np.where((a < 0) & ~(b < 0), b, 1)
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("name", BINARY)
def test_lane_by_lane(name, real):
    ours, numpys = BINARY[name]
    first, second = sample(real, 1), sample(real, 2)
    expected = numpys(first, second)
    np.testing.assert_allclose(compiled(ours)(first, second), expected, rtol=1e-6)


@pytest.mark.parametrize("real", REALS)
def test_nan_is_never_the_larger(real):
    first, second = sample(real), sample(real, 1)
    first[0] = np.nan
    assert compiled(lambda a, b: simd.maximum(a, b))(first, second)[0] == second[0]


@njit
def reduced(array):
    vector = load(array, 0)
    return simd.total(vector), simd.count(vector > 0.0)


@pytest.mark.parametrize("real", REALS)
def test_sums_and_counts(real):
    array = sample(real)
    total, count = reduced(array)
    assert total == pytest.approx(array.sum(), rel=1e-5)
    assert count == (array > 0).sum()


@pytest.mark.parametrize("real", REALS)
def test_lanes_are_numbered(real):
    found = compiled(lambda a, b: simd.numbered(a) + b)(sample(real), np.ones_like(sample(real)))
    assert (found == np.arange(1, width_of(real) + 1)).all()


@njit
def unordered(first, second):
    return simd.count(simd.unordered(load(first, 0), load(second, 0)))


@pytest.mark.parametrize("real", REALS)
def test_nan_of_either_is_found(real):
    first, second = sample(real), sample(real)
    assert unordered(first, second) == 0
    first[0] = second[-1] = np.nan
    assert unordered(first, second) == 2


@njit
def some(array, count, out):
    vector = simd.load_first(array, 0, count, array.dtype.type(9.0))
    store(out, 0, vector)
    simd.store_first(array, 0, count, vector + 1.0)


@pytest.mark.parametrize("real", REALS)
def test_what_lies_beyond_is_neither_read_nor_written(real):
    width = width_of(real)
    for count in range(-1, width + 1):
        array, out = sample(real), np.empty(width, real)
        before, kept = array.copy(), max(count, 0)
        some(array, count, out)
        assert (out[:kept] == before[:kept]).all()
        assert (out[kept:] == 9).all()
        assert (array[:kept] == before[:kept] + real(1)).all()
        assert (array[kept:] == before[kept:]).all()


@njit
def packed(array, squeezed, back):
    vector = load(array, 0)
    store(squeezed, 0, simd.compress(vector, vector > 0.0))
    store(back, 0, simd.expand(squeezed, 0, vector > 0.0))


@pytest.mark.parametrize("real", REALS)
def test_compressed_lanes_keep_their_order_and_find_back(real):
    for seed in range(20):
        array = sample(real, seed)
        squeezed, back = np.zeros_like(array), np.full_like(array, GUARD)
        packed(array, squeezed, back)
        kept = array[array > 0]
        assert (squeezed[: len(kept)] == kept).all()
        assert (back == np.where(array > 0, array, 0)).all()


@njit
def positions(array, first, out):
    simd.store_positions(out, 1, first, load(array, 0) > 0.0)


@pytest.mark.parametrize("real", REALS)
def test_positions_are_listed(real):
    width = width_of(real)
    for seed in range(20):
        array, out = sample(real, seed), np.full(width + 2, GUARD, np.int32)
        positions(array, 100, out)
        kept = 100 + np.flatnonzero(array > 0)
        assert (out[1 : 1 + len(kept)] == kept).all()
        assert out[0] == out[-1] == GUARD


@njit
def as_integers(array, count, out):
    simd.store_first(out, 1, count, load(array, 0))


@njit
def as_reals(numbers, count, out):
    store(out, 0, simd.load_first_as(out, numbers, 1, count, np.int32(9)))


@pytest.mark.parametrize("real", REALS)
def test_whole_numbers_are_written_and_read_as_integers(real):
    width = width_of(real)
    array, back = np.arange(1, width + 1, dtype=real), np.empty(width, real)
    array[0] = 5000
    for count in range(width + 1):
        out = np.full(width + 2, GUARD, np.int32)
        as_integers(array, count, out)
        assert (out[1 : 1 + count] == array[:count]).all()
        assert (out[1 + count :] == GUARD).all()
        assert out[0] == GUARD
        as_reals(out, count, back)
        assert (back[:count] == array[:count]).all()
        assert (back[count:] == 9).all()


@njit
def turned(source, stride, target, step):
    simd.transpose(source, 1, stride, target, 2, step)


@pytest.mark.parametrize("real", REALS)
def test_transposed_squares(real):
    width = width_of(real)
    stride, step = width + 3, width + 1
    source = np.arange(stride * width + 1, dtype=real)
    target = np.full(step * width + 2, GUARD, real)
    turned(source, stride, target, step)
    square = source[1:].reshape(width, stride)[:, :width]
    assert (target[2:].reshape(width, step)[:, :width] == square.T).all()
    assert (target[2:].reshape(width, step)[:, width:] == GUARD).all()


@njit
def doubled(array, like, out):
    store(out, 1, simd.load_first_as(like, array, 0, like.shape[0], 9.0) * 2.0)


@njit
def halves(array, out):
    vector = load(array, 0)
    store(out, 0, simd.join(simd.lower_half(vector), simd.upper_half(vector)))
    return simd.wide_total(vector), simd.highest(vector)


def test_single_precision_in_vectors_of_double():
    width = width_of(np.float64)
    array, out = sample(np.float32), np.full(width + 2, GUARD, np.float32)
    doubled(array, np.empty(width), out)
    assert (out[1:-1] == 2 * array[:width]).all()
    assert out[0] == out[-1] == GUARD
    back = np.empty_like(array)
    total, highest = halves(array, back)
    assert (back == array).all()
    assert total == pytest.approx(array.astype(float).sum(), rel=1e-14)
    assert highest == array.max()


AVX2 = "+avx,+avx2,+fma,+bmi,+bmi2,+popcnt"
PROCESSORS = {128: ("generic", ""), 256: ("haswell", AVX2)}
"""Whose registers are shorter."""


@pytest.mark.skipif("REGISTERS" in os.environ, reason="runs the tests above")
@pytest.mark.parametrize("bits", PROCESSORS)
def test_on_a_processor_with_shorter_registers(bits, tmp_path):
    if bits >= simd.BITS or (bits == 256 and "+avx2" not in simd.FEATURES):
        pytest.skip("the registers of this CPU are no longer")
    name, features = PROCESSORS[bits]
    run_tests(
        __file__, REGISTERS=str(bits), NUMBA_CACHE_DIR=str(tmp_path),
        NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES=features,
    )  # fmt: skip


@pytest.mark.skipif("REGISTERS" not in os.environ, reason="asks about the runs of the test above")
def test_registers_are_as_long_as_asked_for():
    assert int(os.environ["REGISTERS"]) == simd.BITS
