"""The page of the mappings: results for two and three scores by α, λ or p, computed beforehand."""

from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.data.files import write_if_changed
from repro.report.figures.library import as_numbers
from repro.report.render_html import MAPPINGS_PAGE, digest_of, html_page, sources_digest

if TYPE_CHECKING:
    from torch import Tensor

REACH, SIZE, LEADS, STEPS = 2.0, 155, 4.0, 80
"""Extent of the plane of three scores, its cells in a row; extent and steps of two scores."""
_SHIFT = 0.0037
"""Shift of the cells off the lines on which scores are equal."""
_AXES = ((0.5**0.5, -(0.5**0.5), 0.0), (-(6**-0.5), -(6**-0.5), 2 * 6**-0.5))
"""Orthonormal vectors that span the scores with mean zero; the third word is above."""
_SLIDERS = (
    ("entmax", "alpha", "α", 1.0, 4.0, 31),
    ("normmax", "alpha", "α", 1.25, 6.0, 20),
    ("sq_pnorm_max", "p", "p", 1.1, 2.0, 10),
    ("fusedmax", "lam", "λ", 0.0, 1.0, 21),
    ("oscarmax", "lam", "λ", 0.0, 1.0, 21),
)
"""Mapping, argument and its symbol, first and last value, number of values."""


def mapping_data() -> dict[str, Any]:
    """For every parameter value, map two scores, and find the support of three scores."""
    import torch

    from repro.mappings import MAPPINGS

    numbers = partial(as_numbers, digits=3)  # only drawn
    t = torch.linspace(-LEADS, LEADS, STEPS + 1)
    two = torch.stack((t, torch.zeros_like(t)), -1)
    places = REACH * ((2 * torch.arange(SIZE) + 1) / SIZE - 1) + _SHIFT
    up, right = torch.meshgrid(places.flip(0), places, indexing="ij")
    three = torch.stack((right, up), -1).double() @ torch.tensor(_AXES, dtype=torch.float64)
    mappings = []
    for name, argument, symbol, first, last, number in _SLIDERS:
        values = [round(value, 2) for value in torch.linspace(first, last, number).tolist()]
        function = [partial(MAPPINGS[name].function, **{argument: value}) for value in values]
        mappings.append({
            "title": name.replace("_", "-"),
            "symbol": symbol,
            "values": values,
            "curves": [numbers(each(two)[:, 0]) for each in function],
            "regions": [_encoded(each(three)) for each in function],
        })  # fmt: skip
    return {
        "t": numbers(t),
        "softmax": numbers(MAPPINGS["softmax"].function(two)[:, 0]),
        "sparsemax": numbers(MAPPINGS["sparsemax"].function(two)[:, 0]),
        "corners": [[axis[word] / REACH for axis in _AXES] for word in range(3)],
        "mappings": mappings,
    }


def _encoded(probs: "Tensor") -> list[str]:
    """Encode the rows of a plane by run lengths: ``a`` to ``c`` for one to three positive entries.

    ``e`` and ``f`` stand for two and three positive entries, some of them equal.
    """
    after = probs.roll(1, -1)
    # In single precision scores beside a line of equal scores tie, too.
    tied = ((probs - after).abs() < 1e-9 * after) & (probs > 0)
    kinds = (probs > 0).sum(-1) - 1 + 3 * tied.any(-1)
    return [
        "".join(f"{'abcdef'[kind]}{len([*group])}" for kind, group in groupby(row))
        for row in kinds.tolist()
    ]


def write_mapping_page(results_dir: Path) -> Path:
    """Write the page of the mappings unless the existing one is up to date."""
    path = results_dir / MAPPINGS_PAGE
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    mappings = sorted((Path(__file__).parents[1] / "mappings").rglob("*.py"))
    code = digest_of([Path(__file__), *mappings])
    if f'content="{code}{sources_digest("mappings")}"' not in page:
        write_if_changed(path, html_page("mappings", mapping_data(), code).encode())
    return path
