"""Which entries of a row can have mass under fusedmax, by a bound of the threshold.

The levels ``y`` of fusedmax sum to ``Σ [y - t]_+ = max_S Σ_S (x_j - t) - λ |∂S|``, and a set has at
most twice as many ends as entries; so the threshold ``τ`` is at least that of sparsemax less
``2 λ``. An entry at or below ``τ - 2 λ`` has no mass, and what it is does not matter.
"""

from repro.mappings.kernels.cpu._compile import small

_STEPS = 2


@small
def narrowed(heights, places, count, lam):
    """Keep of lists what can have mass; return how many.

    Args:
        heights: scores less the largest; all that are above ``-1 - 4 λ``.
        places: their positions.
        count: how many.
        lam: ``λ``.
    """
    tau, kept = -1.0, 0
    for _ in range(_STEPS):
        # Newton's method for sparsemax from below stays below.
        mass = size = 0.0
        for k in range(count):
            above = heights[k] - tau
            mass += above if above > 0.0 else 0.0
            size += 1.0 if above > 0.0 else 0.0
        tau += (mass - 1.0) / size
    lowest = tau - 4.0 * lam - 1e-12
    for k in range(count):
        height = heights[k]
        heights[kept], places[kept] = height, places[k]
        kept += height > lowest
    return kept
