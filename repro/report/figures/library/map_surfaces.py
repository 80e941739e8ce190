"""One probability of three scores as a surface: Niculae & Blondel (2017), Figure 5."""

from typing import Any

import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from repro.mappings import (
    Fusedmax,
    Oscarmax,
    ProbabilityMap,
    Softmax,
    Sparsemax,
    SqPnormMax,
)
from repro.report.figures.canvas import INK, MUTED_INK, Canvas
from repro.report.figures.kinds import Figure, FigureRuns, Row
from repro.report.figures.library.values import as_numbers, even_grid
from repro.report.figures.styles import style_of

LAMBDA, NORM = 0.2, 1.5
REACH = 2.0
STEPS = 40
_NET = "#1b273338"
_MAPS: dict[str, tuple[str, ProbabilityMap]] = {
    "softmax": ("softmax", Softmax()),
    "sparsemax": ("sparsemax", Sparsemax()),
    "sq_pnorm_max": (f"sq-pnorm-max, p = {NORM}", SqPnormMax(NORM)),
    "fusedmax": (f"fusedmax, λ = {LAMBDA}", Fusedmax(LAMBDA)),
    "oscarmax": (f"oscarmax (exact), λ = {LAMBDA}", Oscarmax(LAMBDA)),
    "oscarmax_published": (
        f"oscarmax (as published), λ = {LAMBDA}",
        Oscarmax(LAMBDA, variant="paper"),
    ),
}
_PLACES = {
    "softmax": (0, 0),
    "sparsemax": (0, 2),
    "sq_pnorm_max": (0, 4),
    "fusedmax": (1, 0),
    "oscarmax": (1, 2),
    "oscarmax_published": (1, 4),
}


class MapSurfaces(Figure):
    """Draw three surfaces above three."""

    description = (
        "Six surfaces of the second probability over the first two scores. Softmax is smooth and "
        "never flat; sparsemax consists of planes; sq-pnorm-max rounds their edges; fusedmax and "
        "oscarmax, exact and as published, have plateaus and ridges where probabilities are "
        "equal."
    )

    def gather(self, runs: FigureRuns) -> dict[str, Any]:
        """``Π_Ω([t₁, t₂, 0])₂`` on a square grid; one row per ``t₂``."""
        grid = even_grid(-REACH, REACH, STEPS)
        second, first = torch.meshgrid(grid, grid, indexing="ij")
        scores = torch.stack((first, second, torch.zeros_like(first)), -1)
        surfaces = {
            name: [as_numbers(row) for row in mapping(scores)[..., 1]]
            for name, (_, mapping) in _MAPS.items()
        }
        return {"t": as_numbers(grid), "surfaces": surfaces}

    def draw(self, data: Row) -> Canvas:
        canvas = Canvas(9.6, 6.2)
        grid = canvas.add_gridspec(2, 6, left=0.03, right=0.99, bottom=0.04, top=0.95, hspace=0.16)
        first, second = np.meshgrid(data["t"], data["t"])
        for name, surface in data["surfaces"].items():
            row, column = _PLACES[name]
            axes = canvas.add_subplot(grid[row, column : column + 2], projection="3d")
            color = style_of(name.removesuffix("_published")).color
            # Shade by height; as pixels, for thousands of patches make a large file.
            # Make a colormap from a tint to a shade of one colour.
            middle = np.array(to_rgb(color))
            axes.plot_surface(
                first,
                second,
                np.array(surface),
                cmap=LinearSegmentedColormap.from_list(
                    "shades", [1 - 0.25 * (1 - middle), middle, 0.6 * middle]
                ),
                vmin=0,
                vmax=1,
                rstride=1,
                cstride=1,
                edgecolor=_NET,
                linewidth=0.3,
                rasterized=True,
            )
            axes.view_init(elev=34, azim=-108)
            axes.set_box_aspect((1, 1, 0.72), zoom=1.12)
            axes.set_title(_MAPS[name][0], fontsize=10, color=INK, y=1.0)
            axes.set_xlabel("t₁", fontsize=9, color=INK, labelpad=-7)
            axes.set_ylabel("t₂", fontsize=9, color=INK, labelpad=-7)
            axes.set_zlabel("p₂", fontsize=9, color=INK, labelpad=-8)
            axes.set_zlim(0, 1)
            axes.set_xticks([-1, 0, 1])
            axes.set_yticks([-1, 0, 1])
            axes.set_zticks([0, 0.5, 1])
            axes.tick_params(labelsize=7, labelcolor=INK, pad=-3)
            for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
                axis.set_pane_color((1, 1, 1, 0))
                axis.line.set_color(MUTED_INK)
            axes.grid(False)
        return canvas


FIGURES = {"map_surfaces": MapSurfaces()}
