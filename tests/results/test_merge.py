from collections.abc import Callable
from pathlib import Path

import pytest

from repro.checksums import DamagedFileError, sidecar
from repro.results import (
    FIELDS,
    Record,
    ResultsError,
    read_experiment_records,
    records_path,
    write_experiment_records,
)

Make = Callable[..., Record]
NAME = "peters2019/table1"


def some_records(make_record: Make) -> list[Record]:
    return [
        make_record(kind="ensemble", seed=None, column="high (ens.)", run_id="e"),
        make_record(seed=2, run_id="b", value=1 / 3),
        make_record(seed=1, run_id="a", value=0.1 + 0.2),
        make_record(seed=10, run_id="c", value=1e-17, metric="dev/loss"),
    ]


def test_round_trip_is_exact_and_ordered(tmp_path: Path, make_record: Make) -> None:
    path = write_experiment_records(tmp_path, "demo", NAME, some_records(make_record))
    assert path == tmp_path / "demo" / "records" / "peters2019" / "table1.csv"
    read = read_experiment_records(tmp_path, "demo", NAME)
    assert set(read) == set(some_records(make_record))
    assert [record.run_id for record in read] == ["a", "b", "c", "e"]


def test_the_order_of_the_records_does_not_change_the_file(
    tmp_path: Path, make_record: Make
) -> None:
    records = some_records(make_record)
    first = write_experiment_records(tmp_path, "demo", NAME, records).read_bytes()
    second = write_experiment_records(tmp_path, "demo", NAME, records[::-1]).read_bytes()
    assert first == second
    assert first.decode().splitlines()[0].split(",") == list(FIELDS)


@pytest.mark.parametrize("text", ["NA", "null", "", '"', "a,b", "x\ny", "x\ry", " α ", "1.5", "=1"])
def test_any_text_survives(tmp_path: Path, make_record: Make, text: str) -> None:
    records = [make_record(row=text, command=text, signature=text)]
    write_experiment_records(tmp_path, "demo", NAME, records)
    assert read_experiment_records(tmp_path, "demo", NAME) == records


def test_no_file_means_no_records_and_no_records_a_header(tmp_path: Path) -> None:
    assert read_experiment_records(tmp_path, "demo", NAME) == []
    path = write_experiment_records(tmp_path, "demo", NAME, [])
    assert path.read_text() == ",".join(FIELDS) + "\n"
    assert read_experiment_records(tmp_path, "demo", NAME) == []


@pytest.mark.parametrize("change", [{"scale": "full"}, {"experiment": "peters2019/figure1"}])
def test_a_record_from_elsewhere_is_refused(
    tmp_path: Path, make_record: Make, change: dict[str, str]
) -> None:
    with pytest.raises(ResultsError, match="belongs to"):
        write_experiment_records(tmp_path, "demo", NAME, [make_record(**change)])
    assert not records_path(tmp_path, "demo", NAME).exists()


def test_a_record_twice_is_refused(tmp_path: Path, make_record: Make) -> None:
    with pytest.raises(ResultsError, match="recorded twice"):
        write_experiment_records(tmp_path, "demo", NAME, [make_record(), make_record(value=1)])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("94.25", "many", "record 1: field 'value' is 'many'"),
        ("94.25", "nan", "record 1: field 'value' is nan"),
        (",1,demo", ",1.5,demo", "record 1: field 'seed' is '1.5'"),
        (",1,demo", ",one,demo", "record 1: field 'seed' is 'one'"),
        ("run_id,", "id,", "expected the columns run_id"),
        ("0123456789ab", '"', "not a CSV file"),
        (",demo,", ",full,", "belongs to"),
    ],
)
def test_a_damaged_file_is_refused(
    tmp_path: Path, make_record: Make, old: str, new: str, message: str
) -> None:
    path = write_experiment_records(tmp_path, "demo", NAME, [make_record()])
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(DamagedFileError, match=r"table1\.csv is damaged"):
        read_experiment_records(tmp_path, "demo", NAME)
    sidecar(path).unlink()  # as if it was written by hand
    with pytest.raises(ResultsError, match=message):
        read_experiment_records(tmp_path, "demo", NAME)
