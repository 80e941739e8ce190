"""Speeds of training, from updates of several models timed in turn; the file of an artefact."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from repro.atomic import atomic_write_json
from repro.errors import ResultsError
from repro.results.files import read_object
from repro.results.layout import speeds_path
from repro.results.record import from_dict


@dataclass
class Speeds:
    """Speeds behind the cells of an artefact."""

    machine: dict[str, str] = field(default_factory=dict)  # date, device, versions by column
    # Column to row to units (words, pairs) per second, or the ratio of the speeds in two epochs,
    # one value for each repetition. Values of different columns, or of different rows at another
    # repetition, are not pairs.
    columns: dict[str, dict[str, list[float]]] = field(default_factory=dict)


def read_speeds(path: Path) -> Speeds:
    """Read the output of :func:`write_speeds`; nothing was measured if there is no file.

    Raises:
        ResultsError: the file is damaged, or rows of a column have different numbers of values.
    """
    if not path.exists():
        return Speeds()
    found = from_dict(Speeds, read_object(path), str(path))
    for column, rows in found.columns.items():
        if len({len(values) for values in rows.values()}) > 1:
            raise ResultsError(f"{path}: rows of {column!r} have different numbers of repetitions")
    return found


def write_speeds(path: Path, machine: str, column: str, rows: dict[str, list[float]]) -> None:
    """Write the speeds of one column, in place of earlier ones of it.

    Raises:
        ResultsError: the file exists and is damaged.
    """
    found = read_speeds(path)
    found.machine[column], found.columns[column] = machine, rows
    atomic_write_json(path, asdict(found))


def speeds_of(results_dir: Path, scale: str, experiment_name: str) -> Speeds:
    """Read the speeds of an artefact at one scale."""
    return read_speeds(speeds_path(results_dir, scale, experiment_name))
