"""Recorded runs count as a planned one by their configuration."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from repro.config import planning
from repro.config.compose import compose_run
from repro.config.identity import flattened, settings
from repro.config.planning import Plans, differences, may_match, planned

PLAN = ["task=morphology", "mapping=entmax", "scale=demo", "mapping.alpha=1.5", "seed=2"]


def recorded(overrides: Sequence[str], **changes: Any) -> dict[str, Any]:
    found = flattened(settings(compose_run(overrides)))
    found |= {key.replace("__", "."): value for key, value in changes.items()}
    return {key: value for key, value in found.items() if value != "absent"}


def test_the_same_configuration_matches_however_it_was_typed() -> None:
    other = ["seed=2", "mapping.alpha=1.50", "hardware.threads=1"]
    run = recorded(other)
    assert may_match(PLAN, run)
    assert differences(planned(PLAN), run, other) == []


@pytest.mark.parametrize("other", ["seed=3", "mapping.alpha=2", "mapping=softmax"])
def test_another_stated_value_does_not(other: str) -> None:
    overrides = [*(item for item in PLAN if "alpha" not in item), other]
    assert differences(planned(PLAN), recorded(overrides), overrides) is None


def test_what_the_run_states_against_the_default_does_not_match_either() -> None:
    overrides = [*PLAN, "training.max_epochs=1"]
    run = recorded(overrides)
    assert may_match(PLAN, run)
    assert differences(planned(PLAN), run, overrides) is None


def test_a_default_that_has_changed_since_is_told() -> None:
    run = recorded(PLAN, precision="bf16", training__patience=17)
    assert differences(planned(PLAN), run, PLAN) == ["training.patience=17", "precision=bf16"]


def test_a_setting_that_did_not_exist_had_its_declared_default() -> None:
    run = recorded(PLAN, mapping__solver="absent")
    assert differences(planned(PLAN), run, PLAN) == []
    sorting = [*PLAN, "mapping.solver=sort"]
    assert differences(planned(sorting), run, PLAN) is None


def test_quick_refusals_are_right() -> None:
    run = recorded(PLAN)
    assert not may_match(["task=nmt"], run)
    assert not may_match(["mapping.alpha=2"], run)
    assert not may_match(["seed=1"], run)
    assert may_match(["data.generated=true", "unknown.key=3", "mapping=softmax"], run) is (
        run["data.generated"] is True
    )


def test_kept_plans_are_used_until_the_configuration_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plans.json"
    first = Plans(path)
    made = first[tuple(PLAN)]
    first.save()
    monkeypatch.setattr(planning, "planned", lambda overrides: pytest.fail("composed again"))
    kept = Plans(path)[tuple(PLAN)]
    assert kept.settings == made.settings == planned(PLAN).settings
    assert (kept.defaults, kept.names) == (made.defaults, made.names)

    extension = tmp_path / "extension"
    (extension / "conf").mkdir(parents=True)
    (extension / "conf" / "more.yaml").write_text("seed: 1\n")
    monkeypatch.setenv("REPRO_EXTENSIONS", str(extension))
    with pytest.raises(pytest.fail.Exception, match="composed again"):
        Plans(path)[tuple(PLAN)]


@pytest.mark.parametrize("content", ["", "[]", '{"of": 1}', "\x00"])
def test_damaged_plans_are_made_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "plans.json"
    path.write_text(content)
    plans = Plans(path)
    assert plans[tuple(PLAN)].settings == planned(PLAN).settings
    plans.save()
    assert list(Plans(path)._known) == [planning.json.dumps(PLAN)]


def test_another_corpus_is_another_run_and_no_changed_default() -> None:
    plan = ["task=summarization", "scale=demo", "seed=1"]
    run = recorded(plan)
    assert differences(planned(plan), run, plan) == []
    assert differences(planned(plan), run | {"data.corpus": "other"}, plan) is None
