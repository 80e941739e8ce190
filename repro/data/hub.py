"""Parquet files of the Hugging Face Hub; no code of a repository is ever run."""

from collections.abc import Iterable, Mapping

from repro.data.errors import DataError


def parquet_rows(pattern: str, *, streaming: bool = False) -> Iterable[Mapping[str, object]]:
    """Rows of Parquet files.

    Args:
        pattern: of files, below a folder or ``hf://datasets/<repository>@<revision>/``.
        streaming: read them as they are asked for instead of making a copy on disk.

    Raises:
        DataError: no such files, or none that can be read.
    """
    from datasets import load_dataset  # slow to import, and only the Hub needs it

    try:
        rows: Iterable[Mapping[str, object]] = load_dataset(
            "parquet", data_files={"rows": pattern}, split="rows", streaming=streaming
        )
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {pattern}: {error}") from error
    return rows
