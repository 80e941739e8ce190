"""Best arborescence by the algorithm of Chu-Liu and Edmonds on dense graphs, O(n²).

Best incoming arcs are followed backwards. When they close a cycle, it is contracted to a node, and
an arc into the node scores its gain over the arc of the cycle that it replaces. If the root may
have one child only, scores are compared lexicographically: root arcs are below all others, so that
they are chosen only if no other arc enters a node, which happens once in a feasible problem.

Nodes are numbered: the root 0, words 1 to n, contracted cycles from n + 1. Arcs into a node, and
the words at which they end, are indexed by the original head of the arc.
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
"""Workspace of the algorithm.

``gains`` and ``ends``: scores and words of arcs into contracted nodes. ``best``, ``head``, ``end``:
score, head and word of the chosen arc of each node. ``parent``: the contraction that contains a
node. ``top``: the outermost node that contains a word. ``mark``: 0 unseen, 1 on the path,
2 connected to the root, 3 expanded. ``first``, ``last``: ends of the list of words in a node,
linked by ``next``, which is 0 after the last.
"""


@allocating
def forest(n: int) -> Forest:
    """Allocate the workspace for ``n`` words."""
    nodes = 2 * n + 1
    return Forest(
        np.empty((n, n + 1)), np.empty((n, n + 1), np.int32), np.empty(nodes),
        np.empty(nodes, np.int32), np.empty(nodes, np.int32), np.empty(nodes, np.int32),
        np.empty(n + 1, np.int32), np.empty(nodes, np.int8), np.empty(nodes, np.int32),
        np.empty(nodes, np.int32), np.empty(n + 1, np.int32),
    )  # fmt: skip


@oracle
def choose_arc(slots: Array, space: Forest, node: int, single: bool) -> bool:
    """Choose the best arc into a node; return False if there is none."""
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
    """Offer the arcs into a contracted node of a cycle as arcs into the cycle."""
    for u in range(arcs.shape[0]):
        gain = arcs[u] - lost
        better = gain > gains[u]
        gains[u] = gain if better else gains[u]
        ends[u] = below[u] if better else ends[u]


@oracle
def contract(slots: Array, space: Forest, path: Array, start: int, stop: int, node: int) -> None:
    """Contract the nodes ``path[start:stop]``, which form a cycle, to ``node``."""
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
    """Write the head of each word, expanding contracted cycles from the last one on.

    The arc into a cycle replaces the arc of the cycle that ends at the same word.
    """
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
    """Connect a word to the root by best arcs; return the number of nodes, or -1 if impossible."""
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
    """Write the heads of the best tree; return False if all trees are forbidden.

    Args:
        slots: ``(n, n + 1)`` scores of heads of words; those of loops are ``-inf``.
        space: workspace.
        path: workspace, ``(n,)``.
        single: whether the root has exactly one child.
        vertex: output, ``(n,)``.
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
