"""Values of the committed page of the mappings, against slow references in double precision."""

import re
from pathlib import Path

import pytest
import torch
from links import data_of
from mapping_references import REFERENCES

from repro.report import mapping_page
from repro.report.mapping_page import _SLIDERS, REACH, SIZE, write_mapping_page

PAGE = Path(__file__).parents[2] / "results" / "mappings.html"


@pytest.mark.parametrize("place", range(len(_SLIDERS)))
def test_the_page_shows_what_references_compute(place):
    data = data_of(PAGE.read_text())
    name, argument, *_ = _SLIDERS[place]
    shown, reference = data["mappings"][place], REFERENCES[name]
    step = len(shown["values"]) // 4
    setting = {argument: shown["values"][step]}
    scores = torch.tensor([[t, 0.0] for t in data["t"]], dtype=torch.float64)
    curve = reference(scores, **setting)[:, 0]
    assert (curve - torch.tensor(shown["curves"][step])).abs().max() < 1e-3
    rows = [re.findall(r"([a-f])(\d+)", row) for row in shown["regions"][step]]
    every = {kind for plane in shown["regions"] for kind in re.findall("[a-f]", "".join(plane))}
    assert bool(every & {"e", "f"}) == (name in ("fusedmax", "oscarmax"))  # which fuse scores
    cells = ["".join(kind * int(count) for kind, count in row) for row in rows]
    corners, size = torch.tensor(data["corners"], dtype=torch.float64), len(cells)
    for shares in ((5, 9), (30, 33), (50, 20), (62, 60)):
        row, column = (share * size // 65 for share in shares)
        place = [(2 * column + 1) / size - 1, 1 - (2 * row + 1) / size]  # of a plane from -1 to 1
        three = REACH**2 * (corners @ torch.tensor(place, dtype=torch.float64))
        kept = int((reference(three[None], **setting) > 0).sum())
        assert kept == "abcdef".index(cells[row][column]) % 3 + 1


def test_the_page_leads_back_and_its_plane_has_no_visible_steps(tmp_path, monkeypatch):
    assert SIZE > 150  # cells of less than four pixels
    monkeypatch.setattr(mapping_page, "mapping_data", lambda: [])
    assert 'href="index.html"' in write_mapping_page(tmp_path).read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["report", "mappings"])
def test_a_page_of_other_code_is_written_again(tmp_path, monkeypatch, folder):
    monkeypatch.setattr(mapping_page, "mapping_data", lambda: [])
    page = write_mapping_page(tmp_path).read_text(encoding="utf-8")
    read = Path.read_bytes

    def changed(file: Path) -> bytes:
        return read(file) + b"#" * (file.suffix == ".py" and file.parent.name == folder)

    monkeypatch.setattr(Path, "read_bytes", changed)
    assert write_mapping_page(tmp_path).read_text(encoding="utf-8") != page
