"""What ``repro data list``, ``fetch`` and ``verify`` do."""

from collections.abc import Mapping
from pathlib import Path

from repro.data.archives import ArchivedCorpus, fetch_archives, verify_receipt
from repro.data.errors import DataError
from repro.data.fetch import FetchReport, Verification, fetch, verify
from repro.data.published import archived_corpora
from repro.data.receipts import read_receipt
from repro.data.sources import CorpusSource, corpus_sources
from repro.data.translation_hub import HUB_CORPORA, HubCorpus, fetch_from_hub

SHOWN = 10

Fetchable = CorpusSource | ArchivedCorpus | HubCorpus


def fetchable() -> Mapping[str, Fetchable]:
    """Everything that ``repro data fetch`` takes, by name."""
    return {**corpus_sources(), **archived_corpora(), **HUB_CORPORA}


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
    if action not in ("list", "fetch", "verify"):
        raise DataError(f"unknown action {action!r}: choose list, fetch or verify")
    if action == "fetch":
        if corpus is None:
            raise DataError(f"fetch needs a corpus; there are: {', '.join(fetchable())}")
        return _fetch(_chosen(corpus), data_dir)
    sources = list(fetchable().values()) if corpus is None else [_chosen(corpus)]
    if action == "list":
        return max(_list(source, data_dir) for source in sources)
    fetched = [source for source in sources if corpus or _begun(source, data_dir)]
    if not fetched:
        print(f"nothing has been fetched into {data_dir}; repro data list shows what there is")
    return max((_verify(source, data_dir) for source in fetched), default=1)


def _chosen(name: str) -> Fetchable:
    """One corpus by name.

    Raises:
        DataError: no corpus of that name; names those there are.
    """
    if name not in fetchable():
        raise DataError(f"unknown corpus {name!r}; there are: {', '.join(sorted(fetchable()))}")
    return fetchable()[name]


def _begun(source: Fetchable, data_dir: Path) -> bool:
    """Whether a fetch has left anything of a corpus."""
    if isinstance(source, CorpusSource):
        return any((data_dir / path).is_file() for path in source.files)
    return _there(source, data_dir)


def _there(source: ArchivedCorpus | HubCorpus, data_dir: Path) -> bool:
    return (data_dir / source.receipt).is_file()


def _list(source: Fetchable, data_dir: Path) -> int:
    if isinstance(source, CorpusSource):
        return _list_files(source, data_dir)
    state = "fetched" if _there(source, data_dir) else "not fetched"
    if isinstance(source, HubCorpus):
        print(f"{source.name}  {' and '.join(source.languages)}, from the Hugging Face Hub")
        print(f"  files     {state} in {data_dir}")
        print(f"  source    {source.repository}, {source.revision}")
        return 0
    print(f"{source.name}  {source.title}")
    print(f"  files     {state} in {data_dir}")
    for archive in source.archives:
        print(f"  source    {archive.url}")
    print(f"  licence   {source.licence}")
    print(f"  cite      {source.citation}")
    return 0


def _list_files(source: CorpusSource, data_dir: Path) -> int:
    present = sum((data_dir / path).is_file() for path in source.files)
    print(f"{source.name}  {source.title}")
    size = "" if source.size is None else f" ({source.size / 1e6:.1f} MB)"
    print(f"  files     {len(source.files)}{size}, {present} in {data_dir}")
    print(f"  source    {source.base_url}")
    print(f"  licence   {source.licence}")
    print(f"  cite      {source.citation}")
    return 0


def _fetch(source: Fetchable, data_dir: Path) -> int:
    report = _fetched(source, data_dir)
    print(f"{source.name}: {report.downloaded} downloaded, {report.present} there already")
    return 0


def _fetched(source: Fetchable, data_dir: Path) -> FetchReport:
    match source:
        case CorpusSource():
            return fetch(source, data_dir, _print_some)
        case ArchivedCorpus():
            return fetch_archives(source, data_dir, _print_progress)
        case HubCorpus():
            return fetch_from_hub(source, data_dir, _print_progress)


def _verify(source: Fetchable, data_dir: Path) -> int:
    found = _verification(source, data_dir)
    expected = found.correct + len(found.missing) + len(found.corrupt)
    print(f"{source.name}: {found.correct} of {expected} files are right in {data_dir}")
    _print_paths("missing", found.missing)
    _print_paths("corrupt", found.corrupt)
    if not found.complete:
        print(f"  repair with: repro data fetch {source.name} data_dir={data_dir}")
    return 0 if found.complete else 1


def _verification(source: Fetchable, data_dir: Path) -> Verification:
    if isinstance(source, CorpusSource):
        return verify(source, data_dir)
    receipt = read_receipt(data_dir / source.receipt)
    return (
        Verification([source.receipt], [], 0)
        if receipt is None
        else verify_receipt(receipt, data_dir)
    )


def _print_paths(state: str, paths: list[str]) -> None:
    for path in paths[:SHOWN]:
        print(f"  {state}  {path}")
    if len(paths) > SHOWN:
        print(f"  {state}  … and {len(paths) - SHOWN} more")


def _print_some(done: int, total: int, path: str) -> None:
    if done % 50 == 0 or done == total:
        _print_progress(done, total, path)


def _print_progress(done: int, total: int, path: str) -> None:
    print(f"  {done}/{total}  {path}", flush=True)
