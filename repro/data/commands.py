"""Commands ``repro data list``, ``fetch`` and ``verify``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.data.corpora import Corpus, declared_corpora
from repro.data.download import fetch, fetch_from_hub, receipt_path, verify
from repro.errors import DataError

SHOWN = 10
"""Maximum number of missing, and of corrupt, files of a corpus that are listed by name."""
HUB = "@hub"
"""Suffix of a corpus name that denotes its copy on the Hugging Face Hub: ``NAME@hub``."""


def run(action: str, corpus: str | None, data_dir: Path, as_json: bool = False) -> int:
    """Run one action and print its results.

    Args:
        action: ``"list"``, ``"fetch"`` or ``"verify"``.
        corpus: name of one corpus; ``None`` lists all, or verifies all that were fetched.
        data_dir: folder of the corpora.
        as_json: print :func:`described` instead; ``fetch`` ignores it.

    Returns:
        Exit status: 0, or 1 if a corpus is incomplete or there was nothing to verify.

    Raises:
        DataError: unknown corpus, no corpus named to fetch, or a failed download.
    """
    every = declared_corpora()
    if action == "fetch":
        return _fetch(every, corpus, data_dir)
    rows = described(action, corpus, data_dir)
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    elif action == "verify":
        _print_verified(every, rows, data_dir)
    else:
        for row in rows:
            _describe(every[row["name"].removesuffix(HUB)], row)
    return 0 if action == "list" or (rows and all(row["complete"] for row in rows)) else 1


def described(action: str, corpus: str | None, data_dir: Path) -> list[dict[str, Any]]:
    """Return what ``list`` or ``verify`` finds, as values for JSON, with a row for each corpus.

    Raises:
        DataError: unknown corpus.
    """
    every = declared_corpora()
    names = _chosen(every, corpus, data_dir) if action == "verify" or corpus else [*every]
    rows = []
    for name in names:
        one = every[name.removesuffix(HUB)]
        folder = _folder(one, data_dir)
        row: dict[str, Any] = {"name": name, "folder": str(folder)}
        if action == "list":
            row |= {"title": one.title, "tasks": one.tasks, "licence": one.licence}
            row |= {"found": folder.exists(), "how_to_get": one.how_to_get}
        else:
            found = verify(one, data_dir, name.endswith(HUB))
            row |= {**vars(found), "complete": found.complete}
        rows.append(row)
    return rows


def _chosen(every: Mapping[str, Corpus], corpus: str | None, data_dir: Path) -> list[str]:
    """Return one corpus, or all of which files are found: a partial fetch leaves no receipt."""
    if corpus is not None:
        if corpus not in (known := sorted([*every, *_on_hub(every)])):
            raise DataError(f"unknown corpus {corpus!r}; there are: {', '.join(known)}")
        return [corpus]
    names = []
    for name, one in every.items():
        paths = (download.path for download in one.downloads if download.path)
        if receipt_path(one, data_dir).is_file() or any((data_dir / p).is_file() for p in paths):
            names.append(name)
        if receipt_path(one, data_dir, hub=True).is_file():
            names.append(name + HUB)
    return names


def _on_hub(every: Mapping[str, Corpus]) -> list[str]:
    return sorted(name + HUB for name, one in every.items() if one.hub)


def _fetch(every: Mapping[str, Corpus], corpus: str | None, data_dir: Path) -> int:
    fetchable = sorted(name for name, one in every.items() if one.downloads) + _on_hub(every)
    if corpus is None:
        raise DataError(f"fetch needs a corpus; there are: {', '.join(fetchable)}")
    declared = every.get(corpus.removesuffix(HUB))
    if declared is None or corpus not in fetchable:
        if declared is not None and declared.obtain:
            raise DataError(f"{corpus} cannot be fetched: {declared.obtain}")
        raise DataError(f"unknown corpus {corpus!r}; there are: {', '.join(fetchable)}")

    def progress(done: int, total: int, name: str) -> None:
        if total < 50 or done % 50 == 0 or done == total:  # if many, every 50th
            print(f"  {done}/{total}  {name}", flush=True)

    download = fetch_from_hub if corpus.endswith(HUB) else fetch
    placed, present = download(declared, data_dir, progress)
    print(f"{corpus}: {placed} files downloaded, {present} already present")
    return 0


def _print_verified(
    every: Mapping[str, Corpus], rows: list[dict[str, Any]], data_dir: Path
) -> None:
    if not rows:
        print(f"nothing has been fetched into {data_dir}; repro data list shows what there is")
    for found in rows:
        name = found["name"]
        declared, hub = every[name.removesuffix(HUB)], name.endswith(HUB)
        checked = receipt_path(declared, data_dir).is_file() or any(
            d.path for d in declared.downloads
        )
        if not hub and (not declared.downloads or (found["complete"] and not checked)):
            print(f"{name}: {found['right']} of {len(declared.expected)} files are in {data_dir}")
            for path in declared.expected:
                print(f"  {'missing' if path in found['missing'] else 'found'}  {path}")
            if not found["complete"]:
                print(f"  to get it: {declared.how_to_get}")
            continue
        expected = found["right"] + len(found["missing"]) + len(found["corrupt"])
        print(f"{name}: {found['right']} of {expected} files are correct in {data_dir}")
        for state in ("missing", "corrupt"):
            absent = found[state]
            for path in absent[:SHOWN]:
                print(f"  {state}  {path}")
            if len(absent) > SHOWN:
                print(f"  {state}  … and {len(absent) - SHOWN} more")
        if not found["complete"]:
            print(f"  repair with: repro data fetch {name} data_dir={data_dir}")


def _folder(corpus: Corpus, data_dir: Path) -> Path:
    """Return the folder of a corpus, or that of its archives if only these have been fetched."""
    plain, archives = data_dir / corpus.folder, data_dir / corpus.archive_folder
    if plain.exists() or plain.is_relative_to(archives):
        return plain
    return archives if receipt_path(corpus, data_dir).is_file() else plain


def _describe(corpus: Corpus, row: Mapping[str, Any]) -> None:
    """Print the description of a corpus, whether it is present, and how to get it."""
    sizes = ", ".join(
        f"{split} {size:,}" if isinstance(size, int) else f"{split} {size[0]:,}–{size[-1]:,}"
        for split, size in corpus.sizes.items()
    )
    hosts = sorted({download.url.split("/")[2] for download in corpus.downloads})
    hosts += [f"huggingface.co/datasets/{corpus.hub.repository}"] if corpus.hub else []
    print(f"{corpus.name}  {corpus.title}")
    lines = {
        "tasks": ", ".join(corpus.tasks),
        "files": f"{'found' if row['found'] else 'missing'}: {row['folder']}",
        "sizes": sizes,
        "get it": corpus.how_to_get,
        "source": ", ".join(hosts),
        "licence": corpus.licence,
        "cite": corpus.citation,
    }
    for key, value in lines.items():
        if value:
            print(f"  {key:<8}  {value}")
