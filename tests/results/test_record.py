import math
from collections.abc import Callable
from typing import Any

import pytest

from repro.results import FIELDS, Record, ResultsError, record_from_dict

Make = Callable[..., Record]


def test_round_trip_keeps_every_field(make_record: Make) -> None:
    record = make_record()
    row = record.to_dict()
    assert tuple(row) == FIELDS
    assert record_from_dict(row, "here") == record


def test_integers_become_floats(make_record: Make) -> None:
    record = make_record(value=94, wall_time=3)
    assert type(record.value) is float
    assert type(record.wall_time) is float


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_field_is_named(make_record: Make, name: str) -> None:
    row = make_record().to_dict()
    del row[name]
    with pytest.raises(ResultsError, match=rf"file\.jsonl:7: missing fields \['{name}'\]"):
        record_from_dict(row, "file.jsonl:7")


def test_an_unknown_field_is_named(make_record: Make) -> None:
    with pytest.raises(ResultsError, match=r"unknown fields \['bleu'\]"):
        record_from_dict({**make_record().to_dict(), "bleu": 1}, "here")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run_id", ""),
        ("run_id", 3),
        ("kind", "runs"),
        ("seed", "1"),
        ("seed", 1.0),
        ("seed", True),
        ("metric", ""),
        ("scale", None),
        ("value", "94"),
        ("value", None),
        ("value", True),
        ("value", math.nan),
        ("value", math.inf),
        ("wall_time", -1.0),
        ("wall_time", math.nan),
        ("command", ["repro"]),
    ],
)
def test_a_bad_value_is_refused_with_its_field(make_record: Make, name: str, value: Any) -> None:
    row = {**make_record().to_dict(), name: value}
    with pytest.raises(ResultsError, match=rf"^file:3: field '{name}' "):
        record_from_dict(row, "file:3")
