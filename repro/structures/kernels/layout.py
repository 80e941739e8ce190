"""Layout of a structure: one value for each of its slots.

A slot is what must be decided once: the tag of an item, the head of a word, the partner of a row.
The scores of the values of a slot lie side by side in memory. Where Python's matrix of scores has
the values in its columns, and not in its rows, the layout is flipped.
"""

from repro.structures.kernels._compile import Array, inner
from repro.structures.kernels.codes import ARBORESCENCE, MATCHING, SINGLE_ROOT


@inner
def extent(code: int, sizes: Array) -> tuple[int, int, bool]:
    """Number of slots, number of their values, and whether the layout is flipped.

    ``sizes`` are the numbers of rows and columns that count in the matrix of scores.
    """
    rows, columns = sizes[0], sizes[1]
    if code in (ARBORESCENCE, SINGLE_ROOT):
        return columns - 1, rows, True
    if code == MATCHING and rows > columns:
        return columns, rows, True
    return rows, columns, False


@inner
def first_column(code: int) -> int:
    """The column of the first slot in a flipped layout: the root of a tree has no head."""
    return 1 if code in (ARBORESCENCE, SINGLE_ROOT) else 0


@inner
def position(code: int, flipped: bool, slot: int, value: int) -> tuple[int, int]:
    """Row and column of a part in the matrix of scores."""
    if flipped:
        return value, slot + first_column(code)
    return slot, value


@inner
def load(code: int, scores: Array, flipped: bool, slots: Array) -> bool:
    """Copy the scores of an instance, each slot lowered by its largest; False at NaN or +inf.

    A constant for all values of a slot changes no solution, since each structure has one of them.
    """
    for i in range(slots.shape[0]):
        top = -float("inf")
        for a in range(slots.shape[1]):
            row, column = position(code, flipped, i, a)
            value = float(scores[row, column])
            if not value < float("inf"):
                return False
            loop = flipped and row == column and first_column(code) == 1
            slots[i, a] = -float("inf") if loop else value
            top = max(top, slots[i, a])
        if top > -float("inf"):
            for a in range(slots.shape[1]):
                slots[i, a] -= top
    return True
