"""What a table says about the differences from its baseline."""

from repro.evaluation.metrics import metric_of
from repro.report.cell import LEVEL, SIGN, number_text
from repro.report.grid import Grid, GridColumn, block_rows
from repro.report.table import Table
from repro.results import Comparison

_TITLES = ("examples", "runs", "difference", "p, bootstrap", "p, randomisation")
_P_DIGITS = 4


def significance_grid(table: Table) -> Grid | None:
    """Difference and p-values of every cell that was compared; None without any."""
    if not table.comparisons:
        return None
    rows = [(one.row, one.column, *_texts(one)) for one in table.comparisons]
    columns = [GridColumn("row", "label"), GridColumn("column", "label")]
    columns += [GridColumn(title, "measured") for title in _TITLES]
    title = f"differences from {table.experiment.baseline}, paired tests"
    return Grid(title, tuple(columns), block_rows(rows))


def significance_note(table: Table) -> str:
    """What the sign means and how it was found; blank if nothing was compared."""
    if not table.comparisons:
        return ""
    signatures = " · ".join(dict.fromkeys(one.signature for one in table.comparisons))
    return (
        f"{SIGN} differs from {table.experiment.baseline}: p < {LEVEL} by paired bootstrap and by "
        f"approximate randomisation over the examples ({signatures}). The tests take the trained "
        "runs as given, and nothing is corrected for the number of cells."
    )


def _texts(one: Comparison) -> tuple[str, ...]:
    digits = metric_of(one.metric).digits
    difference = f"{one.difference:+.{digits}f}".replace("-", "−")
    p_values = (number_text(p, _P_DIGITS) for p in (one.p_bootstrap, one.p_randomisation))
    return (str(one.examples), str(len(one.runs.split())), difference, *p_values)
