"""Solvers of SparseMAP on one random tree problem: Niculae et al. (2018), Figure 2."""

import warnings
from math import log10
from typing import TYPE_CHECKING, Any

from repro.report.figures.canvas import INK, Canvas, plain_axes
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.styles import DASHES

if TYPE_CHECKING:
    from repro.structures import Solution

NODES, SEED = 20, 0
ITERATIONS = 400
ACTIVE_SET = "active set"
EXPONENTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
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
    """Distance from the maximum (left) and number of trees (right) against iterations."""

    description = (
        "Two panels with logarithmic axes. On the left, how far the objective is from its maximum, "
        "against iterations: the active set drops to zero after a few dozen, pairwise and "
        "away-step conditional gradient need hundreds, and vanilla is still far away. On the "
        "right, how many trees the solution mixes: fewest for the active set, and most for vanilla "
        "conditional gradient, which never drops any."
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Compute distance from the maximum and number of trees by iteration."""
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
        for variant in VARIANTS:
            run = conditional_gradient(
                tree, scores[0], variant=variant, max_iter=ITERATIONS, tol=0.0
            )
            histories[variant] = run.objective.tolist(), run.support.tolist()
        best = max(objectives)
        curves = {
            name: {"distance": [round(max(best - o, 0.0), 12) for o in found], "trees": list(count)}
            for name, (found, count) in histories.items()
        }
        return {"nodes": NODES, "solvers": curves}

    def draw(self, data: Row) -> Canvas:
        canvas = Canvas(8.2, 3.1)
        panels = canvas.subplots(1, 2)
        for name, history in data["solvers"].items():
            label, color, dashes = _LOOKS[name]
            counts = range(1, len(history["distance"]) + 1)
            distances = [max(distance, FLOOR) for distance in history["distance"]]
            for axes, heights in zip(panels, (distances, history["trees"]), strict=True):
                axes.plot(counts, heights, color=color, ls=dashes, lw=1.6, label=label)
                axes.plot(counts[-1], heights[-1], color=color, marker="o", ms=4)
        for axes, title in zip(
            panels, ("distance from the maximum", "trees in the solution"), strict=True
        ):
            plain_axes(axes, "iterations", title=title)
            axes.set(xscale="log", yscale="log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_major_formatter("{x:g}")
        panels[0].yaxis.set_major_formatter(_power)
        panels[0].legend(
            loc="lower left", frameon=False, labelcolor=INK, fontsize=8, handlelength=2.6
        )
        canvas.tight_layout(w_pad=2.0)
        return canvas


def _power(value: float, _place: int) -> str:
    """Format a power of ten."""
    return "10" + str(round(log10(value))).translate(EXPONENTS)


FIGURES = {"solver_race": SolverRace()}
