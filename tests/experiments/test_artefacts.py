"""All tables and figures of the four papers have a target, and figures share runs with tables."""

import re
import shlex
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from repro.config.compose import compose_run
from repro.config.experiment import list_experiments, load_experiment
from repro.config.identity import run_id
from repro.config.paths import experiments_dirs
from repro.config.planning import plan_runs
from repro.data.sentence_search import sentence_digest

ARTEFACTS = {
    f"{paper}/{name}"
    for paper, names in {
        "malaviya2018": "table1 table2 figure1 figure2 appendix_b",
        "niculae2017": "table1 table2 table3 table4 table5 table6 table7 figure1 figure2 figure3 "
        "figure4 figure5 figure6 figure7 figure8 figure9 appendix_c3 section4_2",
        "niculae2018": "table1 table2 figure1 figure2 figure3 figure4 figure5 section5_2",
        "peters2019": "table1 table2 table3 figure1 figure2 figure3 figure4 figure5 figure6 "
        "section4_1 section4_2",
    }.items()
    for name in names.split()
}
SHARED = {
    "malaviya2018/appendix_b": "malaviya2018/table1",
    "niculae2017/appendix_c3": "niculae2017/table5",
    "niculae2017/figure1": "niculae2017/table2",
    "niculae2017/figure4": "niculae2017/table5",
    "niculae2017/figure7": "niculae2017/table6",
    "niculae2017/figure8": "niculae2017/table6",
    "niculae2017/figure9": "niculae2017/table6",
    "peters2019/figure2": "peters2019/figure4",
    "peters2019/figure5": "peters2019/table2",
    "niculae2017/section4_2": "niculae2017/table5",
    "niculae2018/section5_2": "niculae2018/table2",
    "peters2019/section4_1": "peters2019/table1",
    "peters2019/section4_2": "peters2019/figure6",
}
"""Artefacts, and others whose runs they show."""


@cache
def identity(overrides: tuple[str, ...]) -> str:
    return run_id(compose_run(overrides), "corpus")


@cache
def planned(name: str, scale: str) -> frozenset[tuple[str, ...]]:
    """Return the overrides of the runs of an artefact."""
    experiment = load_experiment(name)
    return frozenset(
        replace(run, seed=seed).overrides
        for run in plan_runs(experiment, scale)  # of tuned cells, those of the first seed
        for seed in experiment.seeds_at(scale, run.column)
    )


def identities(runs: frozenset[tuple[str, ...]]) -> set[str]:
    return {identity(overrides) for overrides in runs}


def test_every_table_figure_and_section_with_numbers_has_an_experiment():
    assert set(list_experiments()) >= ARTEFACTS
    kinds = [re.sub(r"\d.*$|_.*$", "", name.split("/")[1]) for name in ARTEFACTS]
    counts = {kind: kinds.count(kind) for kind in kinds}
    assert counts == {"table": 14, "figure": 22, "appendix": 2, "section": 4}


@pytest.mark.parametrize("name", sorted(ARTEFACTS))
def test_kinds_are_those_of_the_papers(name):
    experiment = load_experiment(name)
    is_table = name.split("/")[1].startswith(("table", "section"))
    assert experiment.kind == ("table" if is_table else "figure")
    assert set(experiment.scales) >= {"demo", "small", "full"}
    drawing = experiment.drawing
    words = [] if drawing is None else [drawing.published]
    printed = experiment.published.rows or experiment.published.other_rows
    assert printed or any(words)


@pytest.mark.parametrize(
    ("name", "scale"), [(name, scale) for name in SHARED for scale in load_experiment(name).scales]
)
def test_shared_artefacts_need_no_runs_of_their_own(name, scale):
    own, others = planned(name, scale), planned(SHARED[name], scale)
    left = own - others  # equal overrides give equal runs, so only others are composed
    assert not left or identities(left) <= identities(others)


def test_the_multiruns_of_the_sweep_are_its_runs():
    text = (experiments_dirs()[0] / "peters2019" / "figure4.yaml").read_text(encoding="utf-8")
    commands = re.findall(r"repro run -m (.*)", text)
    found = set()
    for command in commands:
        settings = [setting.split("=", 1) for setting in shlex.split(command)]
        choices = [[f"{key}={value}" for value in values.split(",")] for key, values in settings]
        found |= {identity(choice) for choice in product(*choices)}
    assert len(commands) == 2
    assert found == identities(planned("peters2019/figure4", "full"))


@pytest.mark.parametrize("name", sorted(ARTEFACTS))
def test_examples_that_a_figure_asks_for_are_stored_by_its_runs(name):
    experiment = load_experiment(name)
    wanted = experiment.drawing.prefer if experiment.drawing else []
    runs = [*plan_runs(experiment, "full")][:1] if wanted else []
    for run in runs:
        shown = compose_run(run.overrides).task.shown  # type: ignore[attr-defined]
        assert {*map(sentence_digest, wanted)} <= {*map(sentence_digest, shown)}
    assert bool(runs) == bool(wanted)
