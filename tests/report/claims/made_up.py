"""Made-up measurements for tests of verdicts."""

from repro.results import Measurement


def record(row: str, column: str, seed: int, value: float, metric: str) -> Measurement:
    """Return the measurement of a seed in a cell at demo scale."""
    return Measurement(
        run_id=f"{row} {column} {seed}",
        kind="run",
        row=row,
        column=column,
        seed=seed,
        scale="demo",
        metric=metric,
        value=value,
        signature="",
        corpus="made-up",
        fingerprint="",
        epoch=0,
        commit="",
        device="",
        versions="",
        wall_time=1.0,
        tuned=None,
    )
