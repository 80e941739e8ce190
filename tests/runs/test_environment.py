import logging
import os
import re

import pytest
from executed import executed

from repro.config.compose import compose_run
from repro.config.paths import conf_dir
from repro.runs.device import warn_of_precision
from repro.runs.environment import source_commit
from repro.runs.execute import execute
from repro.runs.job import locate


@pytest.mark.parametrize(
    ("precision", "amx", "warned"), [("bf16", False, 1), ("bf16", True, 0), ("fp32", False, 0)]
)
def test_bfloat16_on_a_processor_without_it_is_warned_of_once(
    precision, amx, warned, caplog, monkeypatch
):
    flags = "avx2 amx_tile" if amx else "avx2"
    monkeypatch.setattr("repro.runs.environment.cpuinfo", lambda field: flags)
    runs = [compose_run([f"precision={precision}", "hardware=cpu"])] * 3
    with caplog.at_level(logging.WARNING):
        warn_of_precision(runs)
    assert len(caplog.records) == warned


def test_the_commit_of_a_run_includes_the_code_and_settings_of_extensions(
    tiny, tmp_path, monkeypatch, caplog
):
    monkeypatch.delenv("REPRO_EXTENSIONS", raising=False)
    own = source_commit()
    one, moved, two = (tmp_path / name for name in ("one", "moved", "two"))
    model, choice = one / "repro" / "models" / "own_model.py", one / "conf" / "scale" / "own.yaml"
    for path in (model, choice, two / "experiments" / "own" / "figure1.yaml"):
        path.parent.mkdir(parents=True)

    def commit(*folders):  # type: ignore[no-untyped-def]
        monkeypatch.setenv("REPRO_EXTENSIONS", os.pathsep.join(map(str, folders)))
        return source_commit()

    assert commit(two) == commit(conf_dir().parent) == own
    found = [own]
    for path, text in ((model, "A = 1"), (model, "A = 2"), (choice, "a: 1"), (choice, "a: 2")):
        path.write_text(text)
        found.append(commit(one))
        assert re.fullmatch(re.escape(own) + " with extensions [0-9a-f]{12}", found[-1])
    assert len({*found}) == len(found)
    (one / "README.md").write_text("changes no number")
    choice.unlink()  # no scale of the package
    assert commit(one) == found[2]
    assert executed(compose_run(tiny)).read_record().commit == found[2]
    warned = [one for one in caplog.messages if "extensions" in one]
    assert warned == []
    model.write_text("A = 3")
    for _ in range(2):
        assert execute(locate(compose_run(tiny))).status == "skipped"
    (warned,) = (one for one in caplog.messages if "extensions" in one)
    assert found[2].rpartition(" ")[2] in warned
    model.write_text("A = 2")
    one.rename(moved)
    assert commit(two, moved) == commit(moved, two) == found[2]
    model = moved / model.relative_to(one)
    model.rename(model.with_stem("other_model"))
    assert commit(moved) not in found
