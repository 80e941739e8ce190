"""Printed and written benchmark tables."""

import csv
from dataclasses import replace

import pytest

from benchmarks import plot, tables
from benchmarks.linear_comparison import LinearComparison
from benchmarks.linear_loss import Cost, Setting
from benchmarks.machine import Machine
from benchmarks.measurement import Measurement
from benchmarks.rows import all_rows
from benchmarks.structures import Solved
from benchmarks.targets import Target, target_for

FOUND = Measurement(
    name="sparsemax",
    kind="mapping",
    shape="1280x50",
    threads=2,
    milliseconds=0.1234,
    fastest=0.1,
    baseline=0.1,
    baseline_fastest=0.09,
    ratio=1.234,
    rounds=300,
    rate=12.34e9,
    roofline=0.456,
    target=Target(1.5),
)
SOLVED = Solved(
    name="sparsemap_tree",
    shape="20",
    threads=2,
    milliseconds=0.2,
    fastest=0.19,
    processor=0.37,
    loop=12.0,
    ratio=60.4,
    iterations=41.3,
    structures=35.1,
    gap=8e-7,
    target=target_for("cpu", 2, "sparsemap_tree", "20"),
)
MACHINE = Machine("2020-02-20", "cpu (Model)", "2020-02-20-cpu", 2, "torch 0", "abc", 0.1)


def test_a_line_of_the_table():
    assert tables.cells(FOUND) == [
        "sparsemax", "1280x50", "2", "0.123", "1.23", "≤ 1.5", "yes", "12.3", "46%",
    ]  # fmt: skip
    assert tables.cells(replace(FOUND, ratio=1.6))[6] == "no"
    assert tables.cells(replace(FOUND, target=None))[5:7] == ["", ""]


def test_progress_is_printed_in_columns():
    first, second = tables.progress(tables.COLUMNS), tables.progress(tables.cells(FOUND))
    assert first.index("threads") + len("threads") == second.index(" 2 ") + 2
    assert second.startswith("sparsemax  ")


def test_the_page_has_a_table_for_each_kind():
    peer = replace(FOUND, name="peer_sparsemax", kind="peer", ratio=41.0)
    page = tables.markdown(MACHINE, [FOUND, peer], [], None, {2: 25e9})
    assert "| sparsemax | 1280x50 | 2 | 0.123 | 1.23 | ≤ 1.5 | yes | 12.3 | 46% |\n" in page
    assert page.index("## Mappings") < page.index("| sparsemax") < page.index("## Peers")
    assert "| peer_sparsemax " in page
    assert "## Losses" not in page
    assert "copy (threads): 25.0 GB/s (2)" in page


@pytest.mark.parametrize(("load", "warned"), [(0.1, False), (1.9, True)])
def test_a_busy_machine_is_reported(load, warned):
    page = tables.markdown(replace(MACHINE, load=load), [FOUND], [], None, {2: 25e9})
    assert ("warning: the machine was busy" in page) == warned
    assert f"load average at the start: {load:.2f}" in page


def test_the_linear_loss_is_judged():
    costs = {"matmul": Cost(1, 4, 500), "in a row": Cost(2, 5, 4000), "fused": Cost(1, 6, 200)}
    comparison = LinearComparison(Setting(tokens=256, vocabulary=1024, threads=2), costs)
    page = tables.markdown(MACHINE, [], [], comparison, {})
    assert "| fused | 1.00 | 6.00 | 200 |" in page
    assert "memory, fused to in a row: 0.050 (target ≤ 0.125: met)" in page
    assert "time, fused to in a row: 1.200 (target ≤ 1.1: not met)" in page
    assert "the scores of all tokens take 1 MB" in page


def test_times_of_sparsemap_are_judged(tmp_path):
    slow = replace(SOLVED, milliseconds=0.3)
    page = tables.markdown(MACHINE, [], [SOLVED, slow], None, {})
    assert "| sparsemap_tree | 20 | 2 | 0.200 | ≤ 0.22 | yes | 0.190 | 0.370 | 12.0 | 60 |" in page
    assert "| sparsemap_tree | 20 | 2 | 0.300 | ≤ 0.22 | no |" in page
    tables.write_csv(tmp_path / "structures.csv", [SOLVED])
    (row,) = csv.DictReader((tmp_path / "structures.csv").read_text(encoding="utf-8").splitlines())
    assert (float(row["ratio"]), row["target"], row["met"]) == (60.4, "≤ 0.22", "True")


def test_csv_holds_every_field_unrounded(tmp_path):
    path = tmp_path / "new" / "measurements.csv"
    tables.write_csv(path, [FOUND, replace(FOUND, target=None)])
    first, second = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    assert float(first["ratio"]) == FOUND.ratio
    assert float(first["rate"]) == FOUND.rate
    assert (first["target"], first["met"]) == ("≤ 1.5", "True")
    assert (second["target"], second["met"]) == ("", "")


def test_the_plot_is_a_picture(tmp_path):
    single = replace(FOUND, threads=1, target=None)
    plot.draw(tmp_path / "ratios.png", all_rows(), [FOUND, single])
    assert (tmp_path / "ratios.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("threads", [[2], [1, 2]], ids=str)
def test_nothing_is_written_beside_the_figure(threads):
    figure = plot.ratios(all_rows(), [replace(FOUND, threads=count) for count in threads])
    figure.canvas.draw()
    whole = figure.get_tightbbox().extents
    width, height = figure.get_size_inches()
    assert whole[0] >= 0
    assert whole[1] >= 0
    assert whole[2] <= width
    assert whole[3] <= height
