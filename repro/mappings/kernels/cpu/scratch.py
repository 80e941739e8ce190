"""Memory for a row's intermediate results, without counted references.

Numba counts the references to arrays that it allocated whenever it passes them on, which takes
longer than the work on a short row.
"""

from numba import carray

from repro.mappings.kernels.cpu._compile import pointer, small


@small
def borrowed(memory, row):
    """A row of an array, whose owner must use it once more when the row is not needed anymore."""
    size = memory.shape[1]
    address = memory.ctypes.data + row * size * memory.itemsize
    return carray(pointer(address, memory.dtype.type(0)), (size,))


@small
def borrowed_rows(memory, first, count):
    """Some rows of an array, in the same way."""
    size = memory.shape[1]
    address = memory.ctypes.data + first * size * memory.itemsize
    return carray(pointer(address, memory.dtype.type(0)), (count, size))


@small
def give_back(memory):
    """The last use of an array that was borrowed."""
    memory[0, 0] = memory.dtype.type(0)
