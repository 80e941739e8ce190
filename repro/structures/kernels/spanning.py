"""The best arborescence: Chu-Liu and Edmonds' algorithm on dense graphs, O(n²).

A path of best incoming arcs is followed backwards. Where it closes, the cycle becomes one node,
whose arcs count the gain over the arc of the cycle that they replace. A word with one root arc
only is obtained lexicographically: root arcs count less than all others, so that they are taken
where nothing else enters a node, which in a feasible problem happens once.

Nodes are numbered: the root 0, words 1 to n, contracted cycles from n + 1. The arcs into a node
are kept by the original head of the arc, as are the words at which they end.
"""

from collections import namedtuple

import numpy as np

from repro.structures.kernels._compile import Array, allocating, oracle
from repro.structures.kernels.viterbi import argmax

Forest = namedtuple(
    "Forest",
    (
        "gains", "ends", "best", "head", "end", "parent", "top", "mark", "first", "last", "next",
    ),
)  # fmt: skip
"""Space of the algorithm.

``gains`` and ``ends``: arcs into contracted nodes. ``best``, ``head``, ``end``: the chosen arc of
each node. ``parent``: the contraction that a node is in. ``top``: the outermost node that a word
is in. ``mark``: 0 unseen, 1 on the path, 2 connected to the root. ``first``, ``last``: of the
words in a node, which are linked by ``next``; 0 is behind the last.
"""


@allocating
def forest(n: int) -> Forest:
    """Space for ``n`` words."""
    nodes = 2 * n + 1
    return Forest(
        np.empty((n, n + 1)), np.empty((n, n + 1), np.int32), np.empty(nodes),
        np.empty(nodes, np.int32), np.empty(nodes, np.int32), np.empty(nodes, np.int32),
        np.empty(n + 1, np.int32), np.empty(nodes, np.int8), np.empty(nodes, np.int32),
        np.empty(nodes, np.int32), np.empty(n + 1, np.int32),
    )  # fmt: skip


@oracle
def choose_arc(slots: Array, space: Forest, node: int, single: bool) -> bool:
    """Choose the best arc into a node; False where there is none."""
    n = slots.shape[0]
    inner_node = node > n
    arcs = space.gains[node - n - 1] if inner_node else slots[node - 1]
    head = argmax(arcs, 1)
    if arcs[0] > arcs[head] and (not single or arcs[head] == -float("inf")):
        head = 0
    space.best[node] = arcs[head]
    space.head[node] = head
    space.end[node] = space.ends[node - n - 1, head] if inner_node else node
    return arcs[head] > -float("inf")


@oracle
def enter_word(arcs: Array, lost: float, word: int, gains: Array, ends: Array) -> None:
    """Offer the arcs into a word of a cycle as arcs into the cycle."""
    for u in range(arcs.shape[0]):
        gain = arcs[u] - lost
        better = gain > gains[u]
        gains[u] = gain if better else gains[u]
        ends[u] = word if better else ends[u]


@oracle
def enter_cycle(arcs: Array, lost: float, below: Array, gains: Array, ends: Array) -> None:
    """Redirect the arcs that enter a node which is a cycle itself to words below it."""
    for u in range(arcs.shape[0]):
        gain = arcs[u] - lost
        better = gain > gains[u]
        gains[u] = gain if better else gains[u]
        ends[u] = below[u] if better else ends[u]


@oracle
def contract(slots: Array, space: Forest, path: Array, start: int, stop: int, node: int) -> None:
    """Make one node of the path's nodes from ``start`` to ``stop``."""
    n = slots.shape[0]
    gains, ends = space.gains[node - n - 1], space.ends[node - n - 1]
    for u in range(n + 1):
        gains[u], ends[u] = -float("inf"), -1
    for k in range(start, stop):
        part = path[k]
        space.parent[part] = node
        if k == start:
            space.first[node] = space.first[part]
        else:
            space.next[space.last[node]] = space.first[part]
        space.last[node] = space.last[part]
        if part <= n:
            enter_word(slots[part - 1], space.best[part], part, gains, ends)
        else:
            arcs, below = space.gains[part - n - 1], space.ends[part - n - 1]
            enter_cycle(arcs, space.best[part], below, gains, ends)
    word = space.first[node]
    while word > 0:
        space.top[word] = node
        gains[word] = -float("inf")
        word = space.next[word]


@oracle
def expand(space: Forest, nodes: int, vertex: Array) -> None:
    """Write the head of each word: outer arcs come before those that they replace."""
    for node in range(nodes - 1, 0, -1):
        if space.mark[node] == 3:
            continue
        end = space.end[node]
        vertex[end - 1] = space.head[node]
        while end != node:
            space.mark[end] = 3
            end = space.parent[end]


@oracle
def connect(slots: Array, space: Forest, start: int, nodes: int, path: Array, single: bool) -> int:
    """Follow the best arcs from a word to the root; the number of nodes, or -1 without a way."""
    path[0], count = start, 1
    space.mark[start] = 1
    while True:
        node = path[count - 1]
        if not choose_arc(slots, space, node, single):
            return -1
        head = space.head[node]
        node = space.top[head]
        if space.mark[node] == 2:
            break
        if space.mark[node] == 0:
            path[count] = node
            count += 1
        else:
            first = count - 1
            while path[first] != node:
                first -= 1
            contract(slots, space, path, first, count, nodes)
            path[first], count = nodes, first + 1
            nodes += 1
        space.mark[path[count - 1]] = 1
    for k in range(count):
        space.mark[path[k]] = 2
    return nodes


@oracle
def arborescence(slots: Array, space: Forest, path: Array, single: bool, vertex: Array) -> bool:
    """Write the heads of the best tree; False where there is none.

    Args:
        slots: ``(n, n + 1)`` scores of heads of words; those of loops are ``-inf``.
        space: working space.
        path: space for ``(n,)``.
        single: whether one word only hangs on the root.
        vertex: ``(n,)`` result.
    """
    n, nodes = slots.shape[0], slots.shape[0] + 1
    space.mark[:] = 0
    space.mark[0] = 2
    space.parent[:] = -1
    for word in range(n + 1):
        space.top[word] = space.first[word] = space.last[word] = word
        space.next[word] = 0
    for word in range(1, n + 1):
        if space.mark[space.top[word]] == 0:
            nodes = connect(slots, space, word, nodes, path, single)
            if nodes < 0:
                return False
    expand(space, nodes, vertex)
    roots = 0
    for i in range(n):
        roots += vertex[i] == 0
    return not single or roots <= 1
