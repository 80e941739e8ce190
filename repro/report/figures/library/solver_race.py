"""Solvers of SparseMAP on one random tree problem: Niculae et al. (2018), Figure 2."""

import timeit
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes

from repro.report.figures.canvas import INK, Canvas, plain_axes
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.styles import DASHES

if TYPE_CHECKING:
    from repro.structures import Solution
    from repro.structures.conditional_gradient import Descent, Variant

NODES, SEED = 20, 0
ITERATIONS = 400
CHECKPOINTS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300)
"""Numbers of iterations that are timed, each by separate runs from the start."""
REPEATS = 5
ACTIVE_SET = "active set"
FLOOR = 1e-9
"""Lower limit of the drawn distances from the maximum, whose axis is logarithmic."""
_LOOKS = {
    ACTIVE_SET: (ACTIVE_SET, "#117733", DASHES[0]),
    "vanilla": ("vanilla CG", "#882255", DASHES[1]),
    "away": ("away-step CG", "#332288", DASHES[2]),
    "pairwise": ("pairwise CG", "#dd7a1e", DASHES[3]),
}
"""Label, color and dashes of each solver."""


class SolverRace(Figure):
    """Distance and number of trees against iterations (left) and time (right)."""

    description = (
        "Four panels with logarithmic axes. Above, how far the objective is from its maximum, "
        "against iterations and against time: the active set drops to zero after a few dozen "
        "iterations, pairwise and away-step conditional gradient need hundreds, and vanilla is "
        "still far away. Below, how many trees the solution mixes: fewest for the active set, and "
        "most for vanilla conditional gradient, which never drops any. Times are measured and "
        "differ between calls; all else is the same in every call."
    )

    measured = ("measured_seconds",)

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Compute distance from the maximum and number of trees by iteration; measure times."""
        import torch

        from repro.structures import Arborescence, ConvergenceWarning, sparsemap
        from repro.structures.conditional_gradient import VARIANTS, conditional_gradient

        # Scores from N(0, 1) of all arcs between the nodes, the root included.
        generator = torch.Generator().manual_seed(SEED)
        scores = torch.randn(1, NODES, NODES, generator=generator, dtype=torch.float64)
        tree = Arborescence()

        def active_set(count: int) -> "Solution":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                return sparsemap(tree, scores, max_iter=count, tol=0.0)

        # The solver returns no history: solve anew with each limit up to convergence.
        objectives, trees = [], []
        for count in range(1, int(active_set(ITERATIONS).iterations) + 1):
            found = active_set(count)
            u = found.marginals
            objectives.append(float((scores * u).sum() - u.square().sum() / 2))
            trees.append(int(found.counts))
        histories = {ACTIVE_SET: (objectives, trees)}
        solvers: dict[str, Callable[[int], object]] = {ACTIVE_SET: active_set}

        def descend(variant: "Variant", count: int) -> "Descent":
            return conditional_gradient(tree, scores[0], variant=variant, max_iter=count, tol=0.0)

        for variant in VARIANTS:
            run = descend(variant, ITERATIONS)
            histories[variant] = run.objective.tolist(), run.support.tolist()
            solvers[variant] = partial(descend, variant)
        best, measured = max(objectives), {}
        for name, solver in solvers.items():
            total = len(histories[name][1])
            counts = sorted({*(count for count in CHECKPOINTS if count < total), total})
            seconds: list[float] = []
            for count in counts:
                shortest = min(timeit.repeat(partial(solver, count), number=1, repeat=REPEATS))
                # More iterations cannot take less time, but measurements are noisy: enforce
                # monotonicity.
                seconds.append(max(float(f"{shortest:.3g}"), *seconds[-1:], 0.0))
            measured[name] = {"iterations": counts, "seconds": seconds}
        curves = {
            name: {"distance": [round(max(best - o, 0.0), 12) for o in found], "trees": list(count)}
            for name, (found, count) in histories.items()
        }
        return {"nodes": NODES, "solvers": curves, "measured_seconds": measured}

    def draw(self, data: Row) -> Canvas:
        canvas = Canvas(8.2, 5.6)
        grid = canvas.subplots(2, 2, sharex="col", sharey="row")
        for name, history in data["solvers"].items():
            counts = range(1, len(history["distance"]) + 1)
            times = data["measured_seconds"][name]
            places = [count - 1 for count in times["iterations"]]
            milliseconds = [1e3 * seconds for seconds in times["seconds"]]
            distances = [max(distance, FLOOR) for distance in history["distance"]]
            for row, heights in enumerate((distances, history["trees"])):
                _curve(grid[row][0], name, counts, heights)
                _curve(grid[row][1], name, milliseconds, [heights[place] for place in places])
        for row, title in enumerate(("distance from the maximum", "trees in the solution")):
            for axes in grid[row]:
                plain_axes(axes, title=title)
                axes.tick_params(labelbottom=True, labelleft=True)
                axes.set(xscale="log", yscale="log")
                axes.xaxis.set_major_formatter("{x:g}")
                axes.yaxis.set_major_formatter("{x:g}")
        for axes, label in zip(grid[1], ("iterations", "milliseconds (measured)"), strict=True):
            axes.set_xlabel(label, fontsize=9, color=INK)
        style = {"frameon": False, "labelcolor": INK, "fontsize": 8, "handlelength": 2.6}
        grid[0][0].legend(loc="lower left", **style)
        canvas.tight_layout(h_pad=1.2, w_pad=2.0)
        return canvas


def _curve(axes: Axes, name: str, x: Sequence[float], y: Sequence[float]) -> None:
    label, color, dashes = _LOOKS[name]
    axes.plot(x, y, color=color, ls=dashes, lw=1.6, label=label)
    axes.plot(x[-1], y[-1], color=color, marker="o", ms=4)


FIGURES = {"solver_race": SolverRace()}
