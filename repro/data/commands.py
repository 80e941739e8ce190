"""Commands ``repro data list``, ``fetch`` and ``verify``."""

from collections.abc import Mapping
from pathlib import Path

from repro.data.corpora import Corpus, declared_corpora
from repro.data.download import fetch, fetch_from_hub, receipt_path, verify
from repro.data.errors import DataError

SHOWN = 10
HUB = "@hub"


def run(action: str, corpus: str | None, data_dir: Path) -> int:
    """Run one action and print what it did.

    Args:
        action: ``"list"``, ``"fetch"`` or ``"verify"``.
        corpus: name of one corpus; ``None`` lists all, or verifies all that were fetched.
        data_dir: folder that holds, or is to hold, the corpora.

    Returns:
        Exit status: 0, or 1 where a corpus is incomplete, or nothing was there to verify.

    Raises:
        DataError: unknown action or corpus, no corpus to fetch, or a failed download.
    """
    every = declared_corpora()
    if action not in ("list", "fetch", "verify"):
        raise DataError(f"unknown action {action!r}: choose list, fetch or verify")
    if action == "fetch":
        if corpus is None:
            raise DataError(f"fetch needs a corpus; there are: {', '.join(_fetchable(every))}")
        return _fetch(corpus, every, data_dir)
    if corpus is not None and corpus not in {*every, *_fetchable(every)}:
        raise DataError(f"unknown corpus {corpus!r}; there are: {', '.join(sorted(every))}")
    if action == "list":
        for one in every.values() if corpus is None else [every[corpus.removesuffix(HUB)]]:
            _list(one, data_dir)
        return 0
    names = _begun(every, data_dir) if corpus is None else [corpus]
    if not names:
        print(f"nothing has been fetched into {data_dir}; repro data list shows what there is")
    return max((_verify(name, every, data_dir) for name in names), default=1)


def _fetchable(every: Mapping[str, Corpus]) -> list[str]:
    """Names that ``repro data fetch`` takes."""
    hubs = (f"{name}{HUB}" for name, corpus in every.items() if corpus.hub)
    return [*sorted(name for name, corpus in every.items() if corpus.downloads), *sorted(hubs)]


def _begun(every: Mapping[str, Corpus], data_dir: Path) -> list[str]:
    """Names of what has been fetched, at least in part."""
    found = []
    for name, corpus in every.items():
        paths = (download.path for download in corpus.downloads if download.path)
        if receipt_path(corpus, data_dir).is_file() or any((data_dir / p).is_file() for p in paths):
            found.append(name)
        if receipt_path(corpus, data_dir, hub=True).is_file():
            found.append(name + HUB)
    return found


def _list(corpus: Corpus, data_dir: Path) -> None:
    """Print what a corpus is, whether it is there, and how to get it."""
    there = "found" if (data_dir / corpus.folder).exists() else "missing"
    sizes = ", ".join(f"{split} {_size(size)}" for split, size in corpus.sizes.items())
    hosts = sorted({download.url.split("/")[2] for download in corpus.downloads})
    hosts += [f"huggingface.co/datasets/{corpus.hub.repository}"] if corpus.hub else []
    print(f"{corpus.name}  {corpus.title}")
    rows = {
        "tasks": ", ".join(corpus.tasks),
        "files": f"{there}: {data_dir / corpus.folder}",
        "sizes": sizes,
        "get it": corpus.how_to_get,
        "source": ", ".join(hosts),
        "licence": corpus.licence,
        "cite": corpus.citation,
    }
    for key, value in rows.items():
        if value:
            print(f"  {key:<8}  {value}")


def _size(size: int | range) -> str:
    return f"{size:,}" if isinstance(size, int) else f"{size.start:,}–{size.stop - 1:,}"


def _fetch(name: str, every: Mapping[str, Corpus], data_dir: Path) -> int:
    corpus = every.get(name.removesuffix(HUB))
    if name not in _fetchable(every):
        if corpus is not None and corpus.obtain:
            raise DataError(f"{name} cannot be fetched: {corpus.obtain}")
        raise DataError(f"unknown corpus {name!r}; there are: {', '.join(_fetchable(every))}")
    assert corpus is not None
    download = fetch_from_hub if name.endswith(HUB) else fetch
    placed, present = download(corpus, data_dir, _progress)
    print(f"{name}: {placed} downloaded, {present} there already")
    return 0


def _verify(name: str, every: Mapping[str, Corpus], data_dir: Path) -> int:
    found = verify(every[name.removesuffix(HUB)], data_dir, name.endswith(HUB))
    expected = found.correct + len(found.missing) + len(found.corrupt)
    print(f"{name}: {found.correct} of {expected} files are right in {data_dir}")
    for state, paths in (("missing", found.missing), ("corrupt", found.corrupt)):
        for path in paths[:SHOWN]:
            print(f"  {state}  {path}")
        if len(paths) > SHOWN:
            print(f"  {state}  … and {len(paths) - SHOWN} more")
    if not found.complete:
        print(f"  repair with: repro data fetch {name} data_dir={data_dir}")
    return 0 if found.complete else 1


def _progress(done: int, total: int, name: str) -> None:
    """Print each download, or every 50th of many."""
    if total < 50 or done % 50 == 0 or done == total:
        print(f"  {done}/{total}  {name}", flush=True)
