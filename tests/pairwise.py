"""Few combinations of parameters in which every two values of two parameters occur together."""

from itertools import combinations, product


def pairwise(*axes):
    """Choose combinations one by one, each with the most pairs that have not occurred yet."""

    def pairs(row):
        return set(combinations(enumerate(row), 2))

    rows, chosen = list(product(*axes)), []
    missing = set().union(*map(pairs, rows))
    while missing:
        chosen.append(max(rows, key=lambda row: len(pairs(row) & missing)))
        missing -= pairs(chosen[-1])
    return chosen
