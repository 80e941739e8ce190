"""Figures of the library: their values by closed forms and by hand, and their way to the report."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from measured import made_up_table

from repro.config.experiment import Drawing, Experiment
from repro.mappings import oscarmax
from repro.report import Origin, build_report, document, export_figure_data
from repro.report.figures import figure_kinds
from repro.report.figures.kinds import NO_RUNS
from repro.report.figures.library import DIGITS
from repro.results import Archive, figure_path

LIBRARY = {
    name: kind for name, kind in figure_kinds().items() if ".library." in type(kind).__module__
}
ORIGIN = Origin("python 3.11; torch 2.13", "c0ffee")
ROUNDED = 10.0**-DIGITS


class Values(dict[str, Any]):
    """Values that each drawing shows, computed when a test first asks for them."""

    def __missing__(self, name: str) -> Any:
        self[name] = LIBRARY[name].gather(NO_RUNS)
        return self[name]


VALUES = Values()


@pytest.fixture
def computed() -> Experiment:
    return made_up_table(
        artefact="figure8",
        kind="figure",
        drawing=Drawing("entmax_curves", caption="A caption.", published="Five curves."),
        notes=["A note."],
    )


def test_entmax_curves_saturate_where_the_paper_says():
    """Peters et al. (2019), Figure 3: at ``±1 / (α - 1)``, and only there."""
    leads = np.array(VALUES["entmax_curves"]["t"])
    curves = {c["alpha"]: np.array(c["probability"]) for c in VALUES["entmax_curves"]["curves"]}
    assert list(curves) == [1.0, 1.25, 1.5, 2.0, 4.0]
    np.testing.assert_allclose(curves[1.0], 1 / (1 + np.exp(-leads)), atol=ROUNDED)
    np.testing.assert_allclose(curves[2.0], ((leads + 1) / 2).clip(0, 1), atol=ROUNDED)
    for alpha in (1.25, 1.5, 2.0, 4.0):
        margin = 1 / (alpha - 1)
        assert (curves[alpha][leads >= margin] == 1).all()
        assert (curves[alpha][leads <= -margin] == 0).all()
        # Nearer to the margin, α = 1.25 gives less than the last decimal that is kept.
        inside = curves[alpha][np.abs(leads) < margin - 0.2]
        assert ((inside > 0) & (inside < 1)).all()


def test_the_mapping_is_the_slope_of_the_maximum():
    leads = np.array(VALUES["max_operators"]["t"])
    step = leads[1] - leads[0]
    for name, curve in VALUES["max_operators"]["curves"].items():
        maximum, probability = np.array(curve["maximum"]), np.array(curve["probability"])
        slope = (maximum[2:] - maximum[:-2]) / (2 * step)
        np.testing.assert_allclose(slope, probability[1:-1], atol=step, err_msg=name)
        assert (maximum >= leads.clip(0) - ROUNDED).all(), name


def test_smoothed_maxima_meet_the_maximum_exactly_where_the_choice_is_certain():
    leads = np.array(VALUES["max_operators"]["t"])
    for name, curve in VALUES["max_operators"]["curves"].items():
        above = np.array(curve["maximum"]) - leads.clip(0)
        certain = np.isin(np.array(curve["probability"]), (0.0, 1.0))
        assert certain.any() == (name != "softmax")
        np.testing.assert_allclose(above[certain], 0, atol=2 * ROUNDED)
    middle = VALUES["max_operators"]["curves"]["softmax"]["maximum"][len(leads) // 2]
    assert middle == pytest.approx(math.log(2), abs=ROUNDED)


def test_published_oscarmax_is_drawn_beside_the_exact_one():
    values = VALUES["map_surfaces"]
    exact, published = (values["surfaces"][f"oscarmax{name}"] for name in ("", "_published"))
    row, column = 3, 30
    scores = torch.tensor([values["t"][column], values["t"][row], 0.0], dtype=torch.float64)
    wanted = oscarmax(scores, 0.2, variant="paper")[1]
    assert published[row][column] == pytest.approx(float(wanted), abs=2 * ROUNDED)
    assert published != exact


def test_surfaces_hold_the_second_probability():
    values = VALUES["map_surfaces"]
    grid = values["t"]
    row, column = grid.index(0.7), grid.index(-0.4)
    assert values["surfaces"]["softmax"][row][column] == pytest.approx(
        math.exp(0.7) / (math.exp(0.7) + math.exp(-0.4) + 1), abs=ROUNDED
    )
    # Scores (-.4, .7, 0): the threshold of sparsemax is (.7 + 0 - 1) / 2 = -.15.
    assert values["surfaces"]["sparsemax"][row][column] == pytest.approx(0.85, abs=ROUNDED)
    # A plateau: two fused probabilities share everything, on more than a line of the grid.
    for name in ("fusedmax", "oscarmax"):
        heights = np.array(values["surfaces"][name])
        assert (heights == 0.5).sum() > 10, name
    smooth = np.array(values["surfaces"]["softmax"])
    assert ((smooth > 0) & (smooth < 1)).all()


def test_rounds_by_hand():
    """Malaviya et al. (2018), Figure 1, scores (1.2, .8, -.2), (.7, .9, .1), (-.2, .2, .9)."""
    columns = VALUES["bounded_rounds"]["columns"]
    expected = {
        "sparsemax": [[0.7, 0.3, 0.0], [0.4, 0.6, 0.0], [0.0, 0.15, 0.85]],
        "csparsemax": [[0.7, 0.3, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]],
    }
    for name, rounds in expected.items():
        np.testing.assert_allclose(columns[name]["attention"], rounds, atol=ROUNDED)
    for name in ("csoftmax", "csparsemax"):
        attention, bounds = (np.array(columns[name][key]) for key in ("attention", "bounds"))
        assert (attention <= bounds + ROUNDED).all()
        np.testing.assert_allclose(bounds[1:], 1 - attention.cumsum(0)[:-1], atol=3 * ROUNDED)
        np.testing.assert_allclose(columns[name]["cumulative"], 1, atol=ROUNDED)
    assert (np.array(columns["csoftmax"]["attention"]) > 0).all()
    np.testing.assert_allclose(
        columns["softmax"]["cumulative"],
        np.array(columns["softmax"]["attention"]).sum(0),
        atol=3 * ROUNDED,
    )


@pytest.mark.parametrize("name", LIBRARY)
def test_values_survive_json_and_are_the_same_again(name):
    text = json.dumps(VALUES[name], allow_nan=False)
    assert json.loads(text) == VALUES[name]
    assert LIBRARY[name].gather(NO_RUNS) == VALUES[name]


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("entmax_curves", {"α = 1 (softmax)", "α = 1.25", "α = 1.5", "α = 2 (sparsemax)", "α = 4"}),
        ("max_operators", {"softmax", "sparsemax", "sq-pnorm-max, p = 1.5", "fusedmax, λ = 0.2"}),
    ],
)
def test_every_curve_is_named(name, labels):
    axes = LIBRARY[name].draw(VALUES[name]).axes[0]
    legend = axes.get_legend()
    assert labels <= {text.get_text() for text in legend.get_texts()}


def test_triangles_show_bounds_below_one_only():
    figure = LIBRARY["bounded_rounds"].draw(VALUES["bounded_rounds"])
    dashed = [sum(line.is_dashed() for line in axes.lines) for axes in figure.axes[:12]]
    assert dashed == [0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 3, 2]


def test_data_are_the_same_at_every_scale(tmp_path, computed):
    texts = [
        export_figure_data(Archive(tmp_path, scale), computed, origin=ORIGIN).read_bytes()
        for scale in ("demo", "full")
    ]
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["origin"]["commit"] == "c0ffee"


@pytest.mark.parametrize("scale", ["demo", "full"])
def test_the_report_says_that_it_is_computed(tmp_path, computed, scale, know):
    know(computed)
    before = build_report(Archive(tmp_path, scale)).read_text(encoding="utf-8")
    assert "paper2020/figure8" in before
    assert "Not run at this scale" in before
    export_figure_data(Archive(tmp_path, scale), computed, origin=ORIGIN)
    page = build_report(Archive(tmp_path, scale)).read_text(encoding="utf-8")
    markdown = (tmp_path / scale / "report.md").read_text(encoding="utf-8")
    for text in (page, markdown):
        for part in (
            "computed by the library alone",
            "c0ffee",
            "torch 2.13",
            "A caption.",
            "A note",
        ):
            assert part in text
        assert "not comparable" not in text
        assert "Measured" not in text
    assert page.count("<svg") == 1
    assert figure_path(tmp_path, scale, computed.name, "png").exists()


def test_a_figure_is_folded_below_its_reason_at_the_scale_that_gives_one(tmp_path, computed, know):
    computed.scales["demo"].folded = "the model has learned nothing"
    know(computed)
    for scale in ("demo", "full"):
        export_figure_data(Archive(tmp_path, scale), computed, origin=ORIGIN)
        page = build_report(Archive(tmp_path, scale)).read_text(encoding="utf-8")
        for text in (page, (tmp_path / scale / "report.md").read_text(encoding="utf-8")):
            summary = text.find("the model has learned nothing</summary>")
            assert (summary >= 0) == (scale == "demo")
            assert summary < text.index("A caption.")


def test_measured_neighbors_keep_their_banner(
    tmp_path, computed, experiment, records, filled, know
):
    know(computed, experiment)
    export_figure_data(Archive(tmp_path, "demo"), computed, origin=ORIGIN)
    found = document.build_document(filled(tmp_path, "demo", {experiment.name: records}))
    assert found.banner
    banners = {section.experiment.name: section.banner for section in found.sections}
    assert banners[computed.name] == ""
    assert "not comparable" in banners[experiment.name]


def test_distances_are_labeled_as_powers_of_ten():
    distance, _ = LIBRARY["solver_race"].draw(VALUES["solver_race"]).axes
    labels = [distance.yaxis.get_major_formatter()(value, 0) for value in (1.0, 0.01, 1e-8)]
    assert labels == ["10⁰", "10⁻²", "10⁻⁸"]
