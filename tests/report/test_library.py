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
from repro.report.figures.library import DIGITS, polytopes, solver_race
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


CORNER = 2 * ROUNDED
"""Tolerance of a value and the corner that it is compared with, which are both rounded."""
CONDITIONAL = ("vanilla", "away", "pairwise")


def test_choices_by_hand():
    """Scores (1, .7, -.2): the threshold of sparsemax is (1.7 - 1) / 2 = .35."""
    shares = VALUES["polytopes"]["choices"]["shares"]
    assert shares["argmax"] == [1, 0, 0]
    np.testing.assert_allclose(shares["sparsemax"], [0.65, 0.35, 0], atol=CORNER)
    weights = np.exp([1.0, 0.7, -0.2])
    np.testing.assert_allclose(shares["softmax"], weights / weights.sum(), atol=CORNER)
    corners = np.array(VALUES["polytopes"]["choices"]["corners"])
    for name, share in shares.items():
        np.testing.assert_allclose(
            VALUES["polytopes"]["choices"]["solutions"][name], share @ corners, atol=CORNER
        )


def test_trees_by_hand():
    """There are 3² rooted trees of three words.

    Two trees differ in the head of the third word, with scores 1.2 and .9. All others are left
    out, so that its marginals are the sparsemax of these: .65 and .35.
    """
    trees = VALUES["polytopes"]["trees"]
    assert len({tuple(heads) for heads in trees["heads"]}) == 9
    assert all(heads.count(0) == 1 for heads in trees["heads"])
    mixed = {tuple(tree["heads"]): tree["weight"] for tree in trees["mixed"]}
    assert mixed == {(0, 1, 2): 0.65, (0, 1, 1): 0.35}
    at = {tuple(h): np.array(c) for h, c in zip(trees["heads"], trees["corners"], strict=True)}
    solutions = trees["solutions"]
    np.testing.assert_allclose(solutions["MAP"], at[0, 1, 2], atol=1e-9)
    between = 0.65 * at[0, 1, 2] + 0.35 * at[0, 1, 1]
    np.testing.assert_allclose(solutions["SparseMAP"], between, atol=CORNER)


def test_marginals_by_enumeration():
    trees = VALUES["polytopes"]["trees"]
    scores = [
        sum(polytopes.ARCS[head][word] for word, head in enumerate(heads, start=1))
        for heads in trees["heads"]
    ]
    weights = np.exp(scores)
    expected = weights / weights.sum() @ np.array(trees["corners"])
    np.testing.assert_allclose(trees["solutions"]["marginal"], expected, atol=CORNER)


def test_the_active_set_is_exact_and_sparse():
    """Figure 2: it converges much faster, and to a much sparser solution."""
    solvers = VALUES["solver_race"]["solvers"]
    active = solvers["active set"]
    assert active["distance"][-1] == 0
    assert len(active["distance"]) < 100
    for name in CONDITIONAL:
        other = solvers[name]
        assert len(other["distance"]) == solver_race.ITERATIONS
        assert other["distance"][len(active["distance"])] > 1e-3
        assert other["trees"][-1] > 3 * active["trees"][-1]
    assert min(solvers[name]["distance"][-1] for name in CONDITIONAL) > 0


def test_all_solvers_start_from_the_best_tree_and_never_get_worse():
    starts = {history["distance"][0] for history in VALUES["solver_race"]["solvers"].values()}
    assert len(starts) == 1
    for history in VALUES["solver_race"]["solvers"].values():
        assert history["trees"][0] == 1
        assert (np.diff(history["distance"]) <= 1e-11).all()
        assert (np.diff(history["trees"]) <= 1).all()


def test_vanilla_is_slowest():
    last = {name: VALUES["solver_race"]["solvers"][name]["distance"][-1] for name in CONDITIONAL}
    assert last["pairwise"] < last["away"] < last["vanilla"]


def test_every_solver_is_drawn_in_every_panel():
    figure = LIBRARY["solver_race"].draw(VALUES["solver_race"])
    for axes in figure.axes:
        labels = {line.get_label() for line in axes.lines}
        assert {"active set", "vanilla CG", "away-step CG", "pairwise CG"} <= labels
        assert axes.get_xscale() == axes.get_yscale() == "log"
    distance = figure.axes[0]
    assert min(min(line.get_ydata()) for line in distance.lines) == solver_race.FLOOR
    labels = [distance.yaxis.get_major_formatter()(value, 0) for value in (1.0, 0.01, 1e-8)]
    assert labels == ["10⁰", "10⁻²", "10⁻⁸"]


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
        ("polytopes", {"argmax", "sparsemax", "softmax", "MAP", "SparseMAP", "marginal"}),
    ],
)
def test_every_curve_and_solution_is_named(name, labels):
    first, *others = LIBRARY[name].draw(VALUES[name]).axes
    legend = first.get_legend()
    texts = [text for axes in (first, *others) for text in axes.texts]
    found = {text.get_text() for text in (legend.get_texts() if legend else texts)}
    assert labels <= found
    assert legend or labels == found


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
