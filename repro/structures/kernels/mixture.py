"""Derivative of SparseMAP as a sparse linear map (Niculae et al. 2018, Proposition 1).

With the selected structures as columns of ``A``, the Jacobian is ``A D Aᵀ`` with the matrix ``D``
of the proposition. It is applied in three parts: to changes of the scores of structures (``Aᵀ``),
of their weights (``D``), and of the marginals of parts (``A``).
"""

import numpy as np

from repro.structures.kernels._compile import Array, on_disk
from repro.structures.kernels.gram import dot
from repro.structures.kernels.oracle import extent, position


@on_disk
def transfer(
    code: int, sizes: Array, offsets: Array, vertices: Array, parts: Array, values: Array,
    to_parts: bool,
) -> None:  # fmt: skip
    """Add to each part the values of the structures with it (``A``), or transposed (``Aᵀ``)."""
    several = parts.shape[0] > 1
    for b in range(sizes.shape[0]):
        own = parts[b if several else 0]
        n, _, flipped = extent(code, sizes[b])
        for s in range(offsets[b], offsets[b + 1]):
            for i in range(n):
                if vertices[s, i] >= 0:
                    row, column = position(code, flipped, i, vertices[s, i])
                    if to_parts:
                        own[row, column] += values[s]
                    else:
                        values[s] += own[row, column]


@on_disk
def respond(offsets: Array, inverse_starts: Array, inverses: Array, pulled: Array) -> Array:
    """Compute ``D p`` per instance, ``D = H⁻¹ - H⁻¹ 1 1ᵀ H⁻¹ / 1ᵀ H⁻¹ 1``."""
    weights, ones = np.empty_like(pulled), np.empty_like(pulled)
    for b in range(offsets.shape[0] - 1):
        first, size = offsets[b], offsets[b + 1] - offsets[b]
        inverse = inverses[inverse_starts[b] : inverse_starts[b + 1]].reshape((size, size))
        total = ones_total = 0.0
        for s in range(size):
            weights[first + s] = dot(inverse[s], pulled[first:], size)
            ones[first + s] = inverse[s].sum()
            total += weights[first + s]
            ones_total += ones[first + s]
        for s in range(first, first + size):
            weights[s] -= ones[s] * total / ones_total
    return weights
