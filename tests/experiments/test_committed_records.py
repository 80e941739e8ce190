"""Commands of committed records, which their pages show as what repeats the run."""

from pathlib import Path

from repro.config.compose import compose_run
from repro.config.identity import flattened, settings
from repro.results import Record
from repro.results.store import survey_records

RESULTS = Path(__file__).parents[2] / "results"
REMOVED = {"loss.label_smoothing"}
"""Settings of earlier versions, all at values without an effect."""


def test_the_command_of_a_record_composes_its_settings():
    different: dict[str, Record] = {}
    for scale in ("small", "subset", "full"):
        records, refused = survey_records(RESULTS, scale)
        assert refused == []
        for record in records:
            words = [word for word in record.overrides if not word.startswith("seed=")]
            if words:
                different.setdefault(" ".join(words), record)
    assert len(different) > 50
    for record in different.values():
        composed = flattened(settings(compose_run(record.overrides)))
        recorded = {k: v for k, v in record.settings.items() if k not in REMOVED}
        assert composed == recorded, record.run_id
