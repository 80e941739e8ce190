"""Lookup of the corpus that a configuration names."""

from pathlib import Path

from repro.config.schema import RunConfig
from repro.data.errors import DataError


def own_folder(config: RunConfig) -> Path | None:
    """Return ``data.folder``, relative to ``data_dir``; ``None`` for a published corpus.

    Raises:
        DataError: there is no such folder, or a generated corpus is asked for as well.
    """
    data = config.data
    if data.folder is None:
        return None
    if data.generated:
        raise DataError(
            f"data.folder={data.folder} and data.generated=true name two corpora; set "
            "data.generated=false, or choose another scale than demo"
        )
    folder = (config.data_path / data.folder).resolve()
    if not folder.is_dir():
        raise DataError(f"data.folder={data.folder}: {folder} is no folder")
    return folder


def check_name(config: RunConfig, published: str, demo: str) -> None:
    """Refuse ``data.corpus`` where it names another corpus than the one that is read.

    Raises:
        DataError: names the corpus that the task reads.
    """
    expected = demo if config.data.generated else published
    if config.data.folder is None and config.data.corpus != expected:
        raise DataError(
            f"data.corpus={config.data.corpus}: task={config.task.name} reads {expected}; for "
            "files of your own set data.folder"
        )
