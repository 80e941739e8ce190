"""The page of the mappings: results for two and three scores by α, λ or p, computed beforehand."""

import hashlib
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.data.files import write_if_changed
from repro.report.render_html import MAPPINGS_PAGE, html_page, sources_digest

if TYPE_CHECKING:
    from torch import Tensor

REACH, SIZE, LEADS, STEPS = 2.0, 65, 4.0, 80
"""Extent of the plane of three scores, its cells in a row; extent and steps of two scores."""
_OFFSET = 0.0037
"""Shift of the cells off the lines on which scores are equal."""
_AXES = ((0.5**0.5, -(0.5**0.5), 0.0), (-(6**-0.5), -(6**-0.5), 2 * 6**-0.5))
"""Orthonormal vectors that span the scores with mean zero; the third word is above."""


def _settings() -> dict[str, tuple[str, str, float, list[float]]]:
    """Return argument, symbol, usual value and all values by name of a mapping."""
    shares = [round(0.05 * n, 2) for n in range(21)]
    return {
        "entmax": ("alpha", "α", 1.5, [round(1 + 0.1 * n, 1) for n in range(31)]),
        "normmax": ("alpha", "α", 2.0, [round(1.25 + 0.25 * n, 2) for n in range(20)]),
        "sq_pnorm_max": ("p", "p", 1.5, [round(1.1 + 0.1 * n, 1) for n in range(10)]),
        "fusedmax": ("lam", "λ", 0.1, shares),
        "oscarmax": ("lam", "λ", 0.1, shares),
    }


def mapping_data() -> dict[str, Any]:
    """Compute probabilities of two scores, and which of three scores keep any, for every value."""
    import torch

    from repro.mappings import MAPPINGS

    t = torch.linspace(-LEADS, LEADS, STEPS + 1)
    two = torch.stack((t, torch.zeros_like(t)), -1)
    places = REACH * ((2 * torch.arange(SIZE) + 1) / SIZE - 1) + _OFFSET
    rows, columns = torch.meshgrid(places.flip(0), places, indexing="ij")
    axes = torch.tensor(_AXES)
    three = columns[..., None] * axes[0] + rows[..., None] * axes[1]
    mappings = []
    for name, (argument, symbol, usual, values) in _settings().items():
        function = MAPPINGS[name].function
        steps = [
            {
                "curve": _numbers(function(two, **{argument: value})[:, 0]),
                "regions": _encoded(function(three, **{argument: value})),
            }
            for value in values
        ]
        title = name.replace("_", "-")
        one = {"name": name, "title": title, "symbol": symbol, "usual": usual, "values": values}
        mappings.append({**one, "steps": steps})
    corners = [[round(axis[word], 4) for axis in _AXES] for word in range(3)]
    known = ("softmax", "sparsemax")
    references = {name: _numbers(MAPPINGS[name].function(two)[:, 0]) for name in known}
    return {
        "t": _numbers(t), "references": references, "mappings": mappings, "size": SIZE,
        "reach": REACH, "corners": corners,
    }  # fmt: skip


def _numbers(values: "Tensor") -> list[float]:
    return [round(value, 3) + 0.0 for value in values.tolist()]


def _encoded(probs: "Tensor") -> list[str]:
    """Encode the rows of a plane by run lengths: ``a`` to ``c`` for one to three positive entries.

    ``e`` and ``f`` are two and three of which some are equal.
    """
    after = probs.roll(1, -1)
    tied = ((probs - after).abs() < 1e-6) & (probs > 0) & (after > 0)
    kinds = (probs > 0).sum(-1) - 1 + 3 * tied.any(-1)
    return [
        "".join(f"{'abcdef'[kind]}{len([*group])}" for kind, group in groupby(row))
        for row in kinds.tolist()
    ]


def write_mapping_page(results_dir: Path) -> Path:
    """Write the page of the mappings, unless it is there as this code writes it."""
    path = results_dir / MAPPINGS_PAGE
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    if f'content="{code}{sources_digest("mappings")}"' not in page:
        write_if_changed(path, html_page("mappings", mapping_data(), code).encode())
    return path
