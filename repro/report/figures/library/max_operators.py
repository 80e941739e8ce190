"""Smoothed maxima and their gradients, the mappings: Niculae & Blondel (2017), Figures 2 and 5."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from repro.report.figures.canvas import INK, MUTED_INK, Canvas, plain_axes
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.library import as_numbers
from repro.report.figures.styles import style_of

if TYPE_CHECKING:
    from repro.mappings import ProbabilityMap

LAMBDA, NORM = 0.2, 1.5
REACH = 4.0
STEPS = 320
ZOOM = (0.6, 1.3, 0.82, 1.01)
_TITLES = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "sq_pnorm_max": f"sq-pnorm-max, p = {NORM}",
    "fusedmax": f"fusedmax, λ = {LAMBDA}",
    "oscarmax": f"oscarmax (exact), λ = {LAMBDA}",
    "oscarmax_published": f"oscarmax (as published), λ = {LAMBDA}",
}


def _maps() -> "dict[str, ProbabilityMap]":
    """Return the mappings of both figures; only the second shows oscarmax."""
    from repro.mappings import Fusedmax, Oscarmax, Softmax, Sparsemax, SqPnormMax

    return {
        "softmax": Softmax(),
        "sparsemax": Sparsemax(),
        "sq_pnorm_max": SqPnormMax(NORM),
        "fusedmax": Fusedmax(LAMBDA),
        "oscarmax": Oscarmax(LAMBDA),
        "oscarmax_published": Oscarmax(LAMBDA, variant="paper"),
    }


class MaxOperators(Figure):
    """Regularized maxima on the left; their gradients, with a magnified corner, on the right."""

    description = (
        "Left: max(t, 0) and four smooth curves above it that meet it far from t = 0, softmax "
        "from above only in the limit. Right: their gradients, which rise from 0 to 1. Softmax "
        "reaches neither; fusedmax stays at one half around t = 0; sq-pnorm-max follows sparsemax "
        "with rounded corners, which an inset magnifies."
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Compute ``max_Ω([t, 0]) + Ω(e_1)`` and ``Π_Ω([t, 0])_1`` on a grid of ``t``.

        For large ``t`` the former equals ``t``, or approaches it.
        """
        import torch

        leads = torch.linspace(-REACH, REACH, STEPS + 1)
        scores = torch.stack((leads, torch.zeros_like(leads)), -1)
        certain = torch.tensor([1.0, 0.0])
        curves = {}
        for name, mapping in _maps().items():
            if name.startswith("oscarmax"):
                continue
            maximum = mapping.value(scores) + mapping.omega(certain)
            curves[name] = {
                "maximum": as_numbers(maximum),
                "probability": as_numbers(mapping(scores)[:, 0]),
            }
        return {"t": as_numbers(leads), "curves": curves}

    def draw(self, data: Row) -> Canvas:
        canvas = Canvas(8.2, 3.4)
        left, right = canvas.subplots(1, 2)
        plain_axes(left, "t", title="regularized maximum of [t, 0] + constant")
        plain_axes(right, "t", title="first probability of its gradient")
        hinge = [max(t, 0.0) for t in data["t"]]
        left.plot(data["t"], hinge, color=MUTED_INK, lw=1.0, label="max(t, 0)")
        inset = right.inset_axes((0.66, 0.13, 0.34, 0.42))
        _draw_curves(left, data, "maximum")
        _draw_curves(right, data, "probability")
        _draw_curves(inset, data, "probability")
        inset.set(xlim=ZOOM[:2], ylim=ZOOM[2:], xticks=[], yticks=[])
        inset.spines[:].set(color=MUTED_INK, linewidth=0.7)
        right.indicate_inset_zoom(inset, edgecolor=MUTED_INK, alpha=0.8, linewidth=0.7)
        left.set(xlim=(-REACH, REACH), ylim=(-0.1, 4))
        right.set(xlim=(-REACH, REACH), yticks=[0, 0.5, 1])
        left.legend(frameon=False, labelcolor=INK, fontsize=8, loc="upper left", handlelength=2.6)
        canvas.tight_layout(w_pad=2.5)
        return canvas


def _draw_curves(axes: Axes, values: Mapping[str, Any], key: str) -> None:
    for name, curve in values["curves"].items():
        line = {"color": style_of(name).color, "ls": style_of(name).dashes, "lw": 1.7}
        axes.plot(values["t"], curve[key], label=_TITLES[name], **line)


class MapSurfaces(Figure):
    """Surfaces of one probability over two scores, two rows of three."""

    description = (
        "Six surfaces of the second probability over the first two scores. Softmax is smooth and "
        "never flat; sparsemax consists of planes; sq-pnorm-max rounds their edges; fusedmax and "
        "oscarmax, exact and as published, have plateaus and ridges where probabilities are "
        "equal."
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """Compute ``Π_Ω([t₁, t₂, 0])₂`` on a square grid with one row per ``t₂``."""
        import torch

        grid = torch.linspace(-2.0, 2.0, 41)
        second, first = torch.meshgrid(grid, grid, indexing="ij")
        scores = torch.stack((first, second, torch.zeros_like(first)), -1)
        surfaces = {
            name: [as_numbers(row) for row in mapping(scores)[..., 1]]
            for name, mapping in _maps().items()
        }
        return {"t": as_numbers(grid), "surfaces": surfaces}

    def draw(self, data: Row) -> Canvas:
        canvas = Canvas(9.6, 6.2)
        grid = canvas.add_gridspec(2, 6, left=0.03, right=0.99, bottom=0.04, top=0.95, hspace=0.16)
        first, second = np.meshgrid(data["t"], data["t"])
        for number, (name, surface) in enumerate(data["surfaces"].items()):
            row, column = divmod(number, 3)
            place = grid[row, 2 * column : 2 * column + 2]
            axes = canvas.add_subplot(place, projection="3d")
            color = style_of(name.removesuffix("_published")).color
            # Colors go from a tint to a shade with height. The surface is rasterized, since
            # thousands of patches make a large file.
            middle = np.array(to_rgb(color))
            tints = [1 - 0.25 * (1 - middle), middle, 0.6 * middle]
            axes.plot_surface(
                first, second, np.array(surface), vmin=0, vmax=1, rstride=1, cstride=1,
                cmap=LinearSegmentedColormap.from_list("shades", tints), edgecolor="#1b273338",
                linewidth=0.3, rasterized=True,
            )  # fmt: skip
            axes.view_init(elev=34, azim=-108)
            axes.set_box_aspect((1, 1, 0.72), zoom=1.12)
            axes.set_title(_TITLES[name], fontsize=10, color=INK, y=1.0)
            axes.set_xlabel("t₁", fontsize=9, color=INK, labelpad=-7)
            axes.set_ylabel("t₂", fontsize=9, color=INK, labelpad=-7)
            axes.set_zlabel("p₂", fontsize=9, color=INK, labelpad=-8)
            axes.set(zlim=(0, 1), xticks=[-1, 0, 1], yticks=[-1, 0, 1], zticks=[0, 0.5, 1])
            axes.tick_params(labelsize=7, labelcolor=INK, pad=-3)
            for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
                axis.set_pane_color((1, 1, 1, 0))
                axis.line.set_color(MUTED_INK)
            axes.grid(False)
        return canvas


FIGURES = {"max_operators": MaxOperators(), "map_surfaces": MapSurfaces()}
