"""What was fetched: checksums of the files, kept beside them, by which they are verified later.

For a corpus whose publisher states no checksum, the first fetch decides what later ones must give.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from repro.atomic import atomic_write_json
from repro.checksums import sha256_of_file
from repro.data.errors import DataError
from repro.data.sources import is_plain_path


@dataclass(frozen=True)
class Receipt:
    """What a fetch left.

    Attributes:
        origins: address to what identifies its content: SHA-256, or a commit.
        files: path below the data folder to SHA-256.
    """

    origins: dict[str, str]
    files: dict[str, str]


def receipt_of(origins: dict[str, str], data_dir: Path, paths: Iterable[Path]) -> Receipt:
    """A receipt of files that lie below ``data_dir``."""
    files = {path.relative_to(data_dir).as_posix(): sha256_of_file(path) for path in sorted(paths)}
    return Receipt(origins, files)


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Write a receipt."""
    atomic_write_json(path, {"origins": receipt.origins, "files": receipt.files})


def read_receipt(path: Path) -> Receipt | None:
    """Read what :func:`write_receipt` wrote; ``None`` where there is none.

    Raises:
        DataError: the file is no receipt, or names a path that leaves the data folder.
    """
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        receipt = Receipt(_texts(content["origins"]), _texts(content["files"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        wanted = "expected the origins and files of a fetch; delete it and fetch again"
        raise DataError(f"{path}: {wanted} ({error})") from None
    unsafe = [name for name in receipt.files if not is_plain_path(name)]
    if unsafe:
        raise DataError(f"{path}: {unsafe[0]!r} is not a plain relative path")
    return receipt


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError("expected texts by name")
    return value
