"""Updates of several models in turn; ratios are those of single updates."""

import pytest

from benchmarks.training import Runner, main, measure, table
from repro.config.compose import compose_run
from repro.runs.environment import prepare_device
from repro.runs.execute import build_task

TINY = [
    "hardware=cpu", "task.setting=medium", "model.embedding_size=6", "model.hidden_size=6",
    "model.layers=1",
]  # fmt: skip


@pytest.fixture
def runners(tmp_path) -> list[Runner]:
    rows = ["mapping=softmax", "mapping=sparsemax"]
    configs = [compose_run([*TINY, row, f"results_dir={tmp_path}"]) for row in rows]
    tasks = [build_task(config, prepare_device(config.hardware)) for config in configs]
    return [Runner(*each) for each in zip(rows, configs, tasks, strict=True)]


def test_models_learn_in_turn_on_the_same_batches(runners) -> None:
    times = iter([2.0, 1.0, 4.0, 4.0, 3.0, 1.0])

    def clock(work):
        work()
        return next(times)

    before = [p.detach().clone() for p in runners[0].task.model.parameters()]
    measure(runners, 2, 3, clock)
    assert [runner.seconds for runner in runners] == [[2.0, 4.0, 3.0], [1.0, 4.0, 1.0]]
    assert runners[0].symbols == runners[1].symbols
    assert runners[1].ratio_to(runners[0]) == 2.0  # the median of 2, 1 and 3
    assert runners[1].rate == sum(runners[1].symbols) / 6
    after = list(runners[0].task.model.parameters())
    assert any(not a.equal(b) for a, b in zip(before, after, strict=True))
    assert "| `mapping=sparsemax` |" in table(runners)
    assert "| 1000.0 | 2.000 |" in table(runners)


def test_the_command_prints_a_table(tmp_path, capsys) -> None:
    rows = ["--row", "mapping=softmax", "--row", "mapping=entmax mapping.alpha=1.5"]
    settings = [*TINY, f"results_dir={tmp_path}", "--before", "1", "--updates", "1"]
    assert main([*settings, *rows, "--processor-time"]) == 0
    printed = capsys.readouterr().out
    assert "threads: " in printed
    assert "`mapping=entmax mapping.alpha=1.5`" in printed


def test_a_wrong_setting_is_refused_before_anything_is_built(capsys) -> None:
    assert main(["--row", "mapping=nope"]) == 2
    assert "no mapping 'nope'" in capsys.readouterr().err
