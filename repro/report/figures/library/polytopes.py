"""Simplex of three choices and polytope of nine trees: Niculae et al. (2018), Figure 1."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch

from repro.report.figures.canvas import INK, MUTED_INK, PAPER, SHADE, Canvas
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.library import CORNERS, DIGITS, as_numbers
from repro.report.figures.styles import Style, style_of

if TYPE_CHECKING:
    from torch import Tensor

CHOICES = (1.0, 0.7, -0.2)
"""Scores of the choices in the left panel."""
ARCS = (
    (0.0, 1.4, 0.1, -0.2),
    (0.0, 0.0, 1.4, 0.9),
    (0.0, -0.2, 0.0, 1.2),
    (0.0, -0.2, -0.2, 0.0),
)
"""Scores of arcs in the right panel: row = head, column = modifier, 0 = the root."""
VIEW = (
    (
        (0.0, 0.54, -0.24, -0.3),
        (0.0, 0.0, 0.25, 0.52),
        (0.0, -0.42, 0.0, -0.22),
        (0.0, -0.11, -0.01, 0.0),
    ),
    (
        (0.0, 0.03, -0.1, 0.07),
        (0.0, 0.0, 0.44, -0.4),
        (0.0, -0.47, 0.0, 0.33),
        (0.0, 0.44, -0.34, 0.0),
    ),
)
"""Linear projection to the plane, by arc, chosen so that most trees are at corners."""
_LOOKS = {
    "argmax": ("argmax", 0.0, -0.07, "center"),
    "sparsemax": ("sparsemax", 0.0, -0.07, "center"),
    "softmax": ("softmax", 0.0, 0.07, "center"),
    "MAP": ("argmax", -0.08, -0.04, "right"),
    "SparseMAP": ("sparsemax", 0.07, 0.05, "left"),
    "marginal": ("softmax", -0.08, 0.0, "right"),
}
"""Mapping whose style each point has, offset of its label, and the label's horizontal alignment."""


def _place(parts: "Tensor") -> "Tensor":
    """Project points ``(B, n+1, n+1)`` of the polytope to the plane, shape ``(B, 2)``."""
    import torch

    return parts.flatten(1) @ torch.tensor(VIEW, dtype=torch.float64).flatten(1).mT


class Polytopes(Figure):
    """Triangle of choices on the left, projection of the tree polytope on the right."""

    description = (
        "Left: a triangle whose corners are three choices. Argmax is at a corner, sparsemax on an "
        "edge and softmax inside. Right: a polygon, the shadow of the polytope of dependency "
        "trees of three words; at its corners the nine trees with one root. MAP inference is at a "
        "corner, SparseMAP on the line between the two trees that it mixes, and marginal "
        "inference inside, a mixture of all nine."
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Compute the positions of corners and solutions, and the trees that SparseMAP mixes."""
        import torch

        from repro.mappings import softmax, sparsemax
        from repro.structures import Arborescence, sparsemap

        triangle = torch.tensor(CORNERS)
        scores = torch.tensor(CHOICES)
        shares = {
            "argmax": torch.eye(len(CHOICES))[scores.argmax()],
            "sparsemax": sparsemax(scores),
            "softmax": softmax(scores),
        }
        choices = {
            "corners": [as_numbers(corner) for corner in triangle],
            "solutions": {name: as_numbers(p @ triangle) for name, p in shares.items()},
            "shares": {name: as_numbers(p) for name, p in shares.items()},
        }
        structure, arcs = Arborescence(single_root=True), torch.tensor([ARCS], dtype=torch.float64)
        # Enumerate all heads, -1 for the root itself. Only the scores of a tree with one root, zero
        # on its arcs and -inf elsewhere, have a log-partition of zero.
        words, found = arcs.size(-1) - 1, []
        for heads in product(range(words + 1), repeat=words):
            vertex = torch.tensor([[-1, *heads]])
            alone = structure.indicator(vertex, arcs).log()
            if structure.log_partition(alone)[0] == 0:
                found.append(vertex)
        vertices = torch.cat(found)
        corners = _place(structure.indicator(vertices, arcs.expand(len(vertices), -1, -1)))
        mixture = sparsemap(structure, arcs)
        solutions = {
            "MAP": structure.indicator(structure.map(arcs), arcs),
            "SparseMAP": mixture.marginals,
            "marginal": structure.marginals(arcs)[0],
        }
        mixed = zip(mixture.structures[0].tolist(), mixture.weights[0].tolist(), strict=True)
        trees = {
            "heads": vertices[:, 1:].tolist(),
            "corners": [as_numbers(corner) for corner in corners],
            "solutions": {name: as_numbers(_place(u)[0]) for name, u in solutions.items()},
            "mixed": [
                {"heads": tree[1:], "weight": round(weight, DIGITS)} for tree, weight in mixed
            ],
        }
        return {"choices": choices, "trees": trees}

    def draw(self, data: Row) -> Canvas:
        canvas = Canvas(9.2, 4.6)
        left, right = canvas.subplots(1, 2, width_ratios=(2, 3))
        _draw_region(left, data["choices"]["corners"])
        _draw_solutions(left, data["choices"]["solutions"])
        trees = data["trees"]
        outer = _draw_region(right, trees["corners"])
        for k, (corner, heads) in enumerate(zip(trees["corners"], trees["heads"], strict=True)):
            # A small drawing of the tree, words as dots with arcs above them: outside the hull for
            # a corner of the hull, else below the point.
            x, y = corner
            away = 1 + 0.24 / (x**2 + y**2) ** 0.5
            x, y = (away * x, away * y) if k in outer else (x, y - 0.2)
            places = [
                (x + 0.1 * (word - len(heads) / 2 + 0.5), y - 0.05) for word in range(len(heads))
            ]
            right.plot(*zip(*places, strict=True), color=INK, marker="o", ms=2.2, ls="none")
            for place, head in zip(places, heads, strict=True):
                start = places[head - 1] if head else (place[0], place[1] + 0.15)
                bend = 0.0 if not head else (-0.7 if start[0] < place[0] else 0.7)
                right.add_patch(
                    FancyArrowPatch(
                        start, place, arrowstyle="-|>", mutation_scale=4, lw=0.7, color=INK,
                        connectionstyle=f"arc3,rad={bend}", shrinkA=0.5, shrinkB=1.2,
                    )
                )  # fmt: skip
        _draw_solutions(right, trees["solutions"])
        left.set_title("three choices", fontsize=10, color=INK)
        right.set_title("dependency trees of three words", fontsize=10, color=INK)
        for axes in (left, right):
            axes.set_aspect("equal")
            axes.margins(0.08)
            axes.axis("off")
        canvas.tight_layout(w_pad=1.0)
        return canvas


def _draw_region(axes: Axes, corners: Sequence[Sequence[float]]) -> set[int]:
    """Draw points and their convex hull; return the indices of the corners of the hull."""
    from scipy.spatial import ConvexHull

    outer = ConvexHull(corners).vertices.tolist()
    outline = zip(*(corners[k] for k in outer), strict=True)
    axes.fill(*outline, facecolor=SHADE, edgecolor=MUTED_INK, lw=0.9)
    axes.plot(*zip(*corners, strict=True), color=MUTED_INK, marker="o", ms=3.5, ls="none")
    return set(outer)


def _draw_solutions(axes: Axes, solutions: Mapping[str, Sequence[float]]) -> None:
    for name, (x, y) in solutions.items():
        mapping, right, up, side = _LOOKS[name]
        style = Style("#b3123f", "D", "-") if mapping == "argmax" else style_of(mapping)
        color = style.color
        axes.plot(x, y, color=color, marker=style.marker, ms=8, mec=PAPER, mew=0.8, zorder=4)
        axes.text(x + right, y + up, name, color=color, fontsize=9, ha=side, va="center")


FIGURES = {"polytopes": Polytopes()}
