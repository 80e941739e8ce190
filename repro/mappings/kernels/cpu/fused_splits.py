"""Total variation of many runs of entries, each row of a tile in a lane of its own.

If the levels ``y`` of a run are not all the same, then some are above the mean ``m`` of its heights
``v``, and the set ``{y > m}`` is that of the largest ``Σ_S (v_j - m) - λ |∂S|``. Where it ends, the
run is split: as the upper side of a split is known, the heights beside it are moved by ``λ``
towards each other, and the parts are runs that do not see each other. A run is split until the
best set is empty, or all of it.

The difference between the best sets with the last entry and those without is
``e_k = v_k - m + clip(e_{k-1}, -λ, λ)``; from the end, it says for each entry where it belongs.
"""

from repro.mappings.kernels.cpu._compile import lean
from repro.mappings.kernels.cpu.lanes import load, store
from repro.mappings.kernels.cpu.tiles import width_of
from repro.mappings.kernels.cpu.vectors import both, count, either, excluding, maximum, where

_ROUNDS = 24
"""So many splits, one inside the other, are enough but for rows that were made for it."""


@lean
def _means(heights, links, columns, zero, means, sizes):
    """Write the mean of the run of each entry."""
    width, mass, size = width_of(heights), zero, zero
    for k in range(0, columns * width, width):
        linked = load(links, k) > 0.0
        mass = where(linked, mass, zero) + load(heights, k)
        size = where(linked, size, zero) + 1.0
        store(means, k, mass)
        store(sizes, k, size)
    mean, after = zero, zero > zero
    for k in range((columns - 1) * width, -1, -width):
        mean = where(after, mean, load(means, k) / load(sizes, k))
        store(means, k, mean)
        after = load(links, k) > 0.0


@lean
def _differences(heights, links, columns, zero, lam, means, differences):
    """Write ``e``."""
    width, found = width_of(heights), zero
    for k in range(0, columns * width, width):
        found = maximum(where(found < lam, found, zero + lam), -lam)
        found = where(load(links, k) > 0.0, found, zero)
        found = found + (load(heights, k) - load(means, k))
        store(differences, k, found)


@lean
def _cut(heights, links, columns, zero, lam, differences):
    """Split runs; return where one was split."""
    width = width_of(heights)
    after = upper = any_cut = zero > zero
    for k in range((columns - 1) * width, -1, -width):
        bound = where(after, where(upper, zero - lam, zero + lam), zero)
        here = load(differences, k) > bound
        split = both(after, either(excluding(here, upper), excluding(upper, here)))
        move = where(split, where(here, zero + lam, zero - lam), zero)
        store(heights, k, load(heights, k) - move)
        store(heights, k + width, load(heights, k + width) + move)
        store(links, k + width, where(split, zero, load(links, k + width)))
        after, upper, any_cut = load(links, k) > 0.0, here, either(any_cut, split)
    return any_cut


@lean
def split(heights, links, columns, lam, zero, means, spare):
    """Write the levels of linked heights, and keep the links of those that are tied.

    Args:
        heights: of the rows of a tile; get moved.
        links: positive where an entry is in the same run as the one before.
        columns: how many.
        lam: ``λ``.
        zero: zeros in all lanes.
        means: room for the levels.
        spare: more room.

    Returns:
        Which lanes are not done.
    """
    open_lanes = zero > zero
    for _ in range(_ROUNDS):
        _means(heights, links, columns, zero, means, spare)
        _differences(heights, links, columns, zero, lam, means, spare)
        open_lanes = _cut(heights, links, columns, zero, lam, spare)
        if count(open_lanes) == 0:
            break
    return open_lanes
