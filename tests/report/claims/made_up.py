"""Made-up measurements for tests of verdicts."""

from dataclasses import replace

from measured import MEASUREMENT

from repro.results import Measurement


def record(row: str, column: str, seed: int, value: float, metric: str) -> Measurement:
    """Return the measurement of a seed in a cell at demo scale."""
    return replace(
        MEASUREMENT, run_id=f"{row} {column} {seed}", row=row, column=column, seed=seed,
        scale="demo", metric=metric, value=value,
    )  # fmt: skip
