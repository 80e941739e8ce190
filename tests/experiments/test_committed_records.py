"""Commands of committed records, which their pages show as what repeats the run."""

from pathlib import Path

from repro.config.compose import compose_run
from repro.config.identity import flattened, settings, without_nuisance
from repro.results import Record
from repro.results.store import survey_records

RESULTS = Path(__file__).parents[2] / "results"


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
        recorded = without_nuisance(record.config)
        assert composed == flattened(recorded), record.run_id
