"""Values of the committed page of the mappings, against slow references in double precision."""

import json
import re
from pathlib import Path

import pytest
import torch

from repro.mappings import MAPPINGS
from repro.report.mapping_page import _SLIDERS

PAGE = Path(__file__).parents[2] / "results" / "mappings.html"


@pytest.mark.parametrize("place", range(len(_SLIDERS)))
def test_the_page_shows_what_references_compute(place: int) -> None:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', PAGE.read_text())
    assert found is not None
    data = json.loads(found[1])
    name, argument, *_ = _SLIDERS[place]
    shown, reference = data["mappings"][place], MAPPINGS[name].reference
    step = len(shown["values"]) // 4
    setting = {argument: shown["values"][step]}
    scores = torch.tensor([[t, 0.0] for t in data["t"]], dtype=torch.float64)
    curve = reference(scores, **setting)[:, 0]
    assert (curve - torch.tensor(shown["curves"][step])).abs().max() < 1e-3
    rows = [re.findall(r"([a-f])(\d+)", row) for row in shown["regions"][step]]
    cells = ["".join(kind * int(count) for kind, count in row) for row in rows]
    size = len(cells)
    assert {len(row) for row in cells} == {size}
    (ax, ay), (bx, by), (cx, cy) = data["corners"]  # of the simplex, in halves of the plane
    for row, column in ((5, 9), (30, 33), (50, 20), (62, 60)):
        u, v = (2 * column + 1) / size - 1, 1 - (2 * row + 1) / size
        three = torch.tensor([[ax * u + ay * v, bx * u + by * v, cx * u + cy * v]]).double() * 4
        kept = int((reference(three, **setting) > 0).sum())
        assert kept == "abcdef".index(cells[row][column]) % 3 + 1
