"""Plans of runs are compared with recorded settings, and cached."""

from pathlib import Path

import pytest

from repro.config import planning
from repro.config.planning import Plans, may_match, planned

PLAN = ["task=morphology", "mapping=entmax", "scale=demo", "mapping.alpha=1.5", "seed=2"]


def test_quick_refusals_are_right() -> None:
    run = planned(PLAN)
    assert may_match(["seed=2", "mapping.alpha=1.50", "hardware.threads=1"], run)
    assert not may_match(["task=nmt"], run)
    assert not may_match(["mapping.alpha=2"], run)
    assert not may_match(["seed=1"], run)
    assert not may_match(["mapping=softmax"], run)
    assert not may_match(["loss=cross_entropy"], run)
    assert may_match(["mapping=entmax", "loss=entmax", "mapping=of_an_extension"], run)
    assert may_match(["data.generated=true", "unknown.key=3"], run) is run["data.generated"]


def test_kept_plans_are_used_until_the_configuration_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plans.json"
    first = Plans(path)
    made = first[tuple(PLAN)]
    first.save()
    monkeypatch.setattr(planning, "planned", lambda overrides: pytest.fail("composed again"))
    kept = Plans(path)[tuple(PLAN)]
    assert kept == made == planned(PLAN)

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
    assert plans[tuple(PLAN)] == planned(PLAN)
    plans.save()
    assert list(Plans(path)._known) == [planning.json.dumps(PLAN)]
