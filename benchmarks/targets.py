"""Targets of the benchmarks: ratios, and times of SparseMAP. No other file states them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """Upper bound, or lower bound if ``at_least``, on a ratio or on milliseconds."""

    limit: float
    at_least: bool = False

    def met(self, ratio: float) -> bool:
        """Return whether a ratio, or a time in milliseconds, satisfies the bound."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"


@dataclass(frozen=True)
class Goal:
    """Target of some rows at some shapes, or at all shapes if None."""

    rows: tuple[str, ...]
    target: Target
    shapes: tuple[str, ...] | None = None


CPU_THREADS = 2
"""Number of threads for which targets on the CPU hold."""
ATTENTION = ("1280x50", "1280x400")
_ANY_ALPHA = ("entmax_1.3", "entmax_2.5", "entmax_rows")
_LOSSES = ("cross_entropy_loss", "sparsemax_loss", "entmax_loss")

GOALS: dict[str, tuple[Goal, ...]] = {
    "cpu": (
        Goal(("sparsemax", "entmax"), Target(1.5), ("1280x50",)),
        Goal(("sparsemax", "entmax"), Target(1.2)),
        Goal(_ANY_ALPHA, Target(2.0)),
        Goal(("csoftmax", "csparsemax"), Target(2.0)),
        Goal(("fusedmax",), Target(3.0), ATTENTION),
        Goal(("oscarmax",), Target(5.0), ATTENTION),
        Goal(_LOSSES, Target(1.2)),
        Goal(("peer_sparsemax", "peer_entmax15"), Target(10.0, at_least=True)),
        Goal(("peer_sparsemax_bisect", "peer_entmax_bisect"), Target(100.0, at_least=True)),
        Goal(("linear_loss_memory",), Target(1 / 8)),
        Goal(("linear_loss_time",), Target(1.1)),
        Goal(("sparsemap_sequence",), Target(0.17), ("20x20",)),
        Goal(("sparsemap_sequence",), Target(8.0), ("50x50",)),
        Goal(("sparsemap_matching",), Target(0.26), ("20x20",)),
        Goal(("sparsemap_matching",), Target(1.1), ("30x30",)),
        Goal(("sparsemap_tree",), Target(0.22), ("20",)),
        Goal(("sparsemap_tree",), Target(1.7), ("40",)),
    ),
    "cuda": (
        Goal(("sparsemax", "entmax"), Target(1.2)),
        Goal(_ANY_ALPHA, Target(1.5)),
        Goal(("csoftmax", "csparsemax"), Target(1.5)),
        Goal(("fusedmax",), Target(4.0)),
        Goal(("oscarmax",), Target(6.0)),
        Goal(_LOSSES, Target(1.2)),
        Goal(("linear_loss_memory",), Target(1 / 8)),
        Goal(("linear_loss_time",), Target(1.1)),
    ),
}


def target_for(device: str, threads: int, row: str, shape: str) -> Target | None:
    """Return the target of the first goal that applies, or None.

    Args:
        device: ``cpu`` or ``cuda``.
        threads: number of threads of torch; ignored unless ``device`` is ``cpu``.
        row: name of the row.
        shape: shape as written in tables, for example ``1280x50``.
    """
    if device == "cpu" and threads != CPU_THREADS:
        return None
    for goal in GOALS[device]:
        if row in goal.rows and (goal.shapes is None or shape in goal.shapes):
            return goal.target
    return None
