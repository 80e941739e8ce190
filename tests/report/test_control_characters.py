"""Control characters of records and run folders reach no terminal and no file of a report."""

import io
import re
from dataclasses import replace
from pathlib import Path

import measured
import numpy as np
import pandas as pd
import pytest

from repro.cli import main
from repro.config.compose import compose_run
from repro.config.experiment import load_experiment
from repro.config.identity import settings
from repro.config.planning import plan_runs
from repro.results import Record, publish, run_folder
from repro.results.sweeps import Sweep, write_sweep

EVIL = "\x00\x1b]0;x\x07\x9b31m\x7f\u202e\u2066\ry"
SHOWN = r"\x00\x1b]0;x\x07\x9b31m\x7f\u202e\u2066\ry"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
IN_JSON = re.compile(r"(?<!\\)\\(u00[01789]|u202|u206|[bfr])")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a table and a sweep, finished and failed run folders, every text with controls."""
    root = tmp_path_factory.mktemp("results")
    planned = list(plan_runs(load_experiment("peters2019/table1"), "demo"))[:6]
    for number, one in enumerate(planned):
        config = settings(compose_run(one.overrides))
        if number < 4:  # those that have settings of no schema fill no cells
            config["task"]["extra"] = [f"{EVIL}{number}"]
            config[f"{EVIL}{number % 2}"] = {EVIL: f"{EVIL}{number}"}
        metrics = {"test/accuracy": 50.0 + number, "dev/loss": 1.0, "dev/accuracy": 40.0}
        record = replace(
            measured.RECORD, run_id=f"{number}" * 12, config=config, seed=one.seed, corpus=EVIL,
            metrics=metrics, signatures=dict.fromkeys(metrics, f"a {EVIL}"), commit=EVIL,
            device=f"cpu {EVIL}", versions=f"python {EVIL}", finished=EVIL, fingerprint=EVIL,
            command=f"repro run {EVIL}",
        )  # fmt: skip
        publish(root, record)
        _write_folder(root, record)
    runs = {f"{number}" * 12: {f"mapping{EVIL}": f"{EVIL}{number}"} for number in range(4)}
    axes = {f"mapping{EVIL}": [f"{EVIL}{number}" for number in range(4)]}
    write_sweep(root, Sweep("evil", "demo", f"repro run -m {EVIL}", axes, runs))
    failed = run_folder(root, "demo", f"ffff{EVIL}".replace("\x00", ""))
    failed.mark_running()
    failed.write_config(f"seed: 1\n# {EVIL}\n")
    failed.write_environment({"command": EVIL, EVIL: {"a": EVIL}})
    failed.mark_failed(f"Traceback\nError: {EVIL}")
    return root


def _write_folder(root: Path, record: Record) -> None:
    folder = run_folder(root, "demo", record.run_id)
    folder.mark_running()
    folder.write_record(record)
    folder.write_config(f"seed: 1\n# {EVIL}\n")
    folder.write_environment({"command": EVIL, EVIL: {"a": EVIL}})
    for step in (1, 2, 3):
        folder.append_history({"step": step, "epoch": step, "seconds": 1.0, f"dev_{EVIL}": 0.5})
    folder.write_statistics({"test/accuracy": np.ones((4, 2))})
    folder.mark_done({EVIL: EVIL})


def clean(text: str, where: str) -> str:
    """Return a text, which must be without control characters."""
    found = CONTROL.search(text)
    assert found is None, f"{where}: {text[max(0, found.start() - 90) :][:99]!r}"
    return text


@pytest.mark.parametrize(
    "command",
    [
        "show", "show --json", "show 0000", "show 0000 --config", "show 0000 --config --json",
        "show ffff", "show ffff --config", "show ffff --json", "show abcd", "status", "runs",
        "runs --json", "results", "results --metric dev/loss", "results --pivot mapping",
        "results --format csv", "results --format json", "results --format latex",
        "compare 0000 1111", "compare 0000 1111 2222 3333 --json",
        "results --metric nothing", "predict ffff --text a", "report --sweep nothing",
    ],
)  # fmt: skip
def test_commands_print_none(results, command, capsys):
    main([*command.split(), f"results_dir={results}"])
    printed = capsys.readouterr()
    text = clean(printed.out + printed.err, command)
    assert not (command.endswith("json") and IN_JSON.search(text))
    if command in ("show", "show 0000", "show ffff --config", "results --format csv"):
        assert SHOWN.removeprefix(r"\x00")[:20] in text


def test_a_table_for_programs_has_none(results, capsysbinary):
    assert main(["results", "--format", "parquet", f"results_dir={results}"]) == 0
    frame = pd.read_parquet(io.BytesIO(capsysbinary.readouterr().out))
    for text in (*frame.columns, *frame.astype(str).to_numpy().ravel()):
        clean(str(text), "parquet")


def test_pages_tables_and_figures_have_none(results, capsys):
    page = results / "compare.html"
    assert main(["compare", "0000", "1111", "--html", str(page), f"results_dir={results}"]) == 0
    assert main(["report", "scale=demo", f"results_dir={results}"]) == 0
    assert main(["report", "scale=demo", "--sweep", "evil", f"results_dir={results}"]) == 0
    clean("".join(capsys.readouterr()), "report")
    written = {
        path.relative_to(results).as_posix(): path
        for path in results.rglob("*.*")
        if path.suffix in (".html", ".md", ".tex", ".csv", ".svg")
    }
    assert {"compare.html", "demo/report.html", "demo/report.md", "demo/runs.html"} <= {*written}
    assert {"demo/pages/000000000000.html", "demo/sweeps/evil.html"} <= {*written}
    assert {f"demo/tables/peters2019/table1.{kind}" for kind in ("md", "tex", "csv")} <= {*written}
    for name, path in written.items():
        text = clean(path.read_text("utf-8"), name)
        if path.suffix == ".html":
            for data in re.findall(r'<script type="application/json".*?</script>', text, re.S):
                assert not IN_JSON.search(data), name
    for name in ("compare.html", "demo/report.html", "demo/pages/000000000000.html"):
        assert "x1b]0;x" in written[name].read_text("utf-8")
