"""What ``repro data list``, ``fetch`` and ``verify`` do."""

from pathlib import Path

from repro.data.errors import DataError
from repro.data.fetch import fetch, verify
from repro.data.sources import CorpusSource, corpus_source, corpus_sources

SHOWN = 10


def run(action: str, corpus: str | None, data_dir: Path) -> int:
    """Run one action and print what it did.

    Args:
        action: ``"list"``, ``"fetch"`` or ``"verify"``.
        corpus: name of one corpus; ``None`` lists or verifies all of them.
        data_dir: folder that holds, or is to hold, the corpora.

    Returns:
        Exit status: 0, or 1 where a corpus is incomplete.

    Raises:
        DataError: unknown action or corpus, no corpus to fetch, or a failed download.
    """
    if action not in ("list", "fetch", "verify"):
        raise DataError(f"unknown action {action!r}: choose list, fetch or verify")
    if action == "fetch":
        if corpus is None:
            raise DataError(f"fetch needs a corpus; there are: {', '.join(corpus_sources())}")
        return _fetch(corpus_source(corpus), data_dir)
    sources = corpus_sources().values() if corpus is None else [corpus_source(corpus)]
    show = _list if action == "list" else _verify
    return max(show(source, data_dir) for source in sources)


def _list(source: CorpusSource, data_dir: Path) -> int:
    present = sum((data_dir / path).is_file() for path in source.files)
    print(f"{source.name}  {source.title}")
    size = "" if source.size is None else f" ({source.size / 1e6:.1f} MB)"
    print(f"  files     {len(source.files)}{size}, {present} in {data_dir}")
    print(f"  source    {source.base_url}")
    print(f"  licence   {source.licence}")
    print(f"  cite      {source.citation}")
    return 0


def _fetch(source: CorpusSource, data_dir: Path) -> int:
    report = fetch(source, data_dir, _print_progress)
    print(f"{source.name}: {report.downloaded} downloaded, {report.present} there already")
    return 0


def _verify(source: CorpusSource, data_dir: Path) -> int:
    found = verify(source, data_dir)
    print(f"{source.name}: {found.correct} of {len(source.files)} files are right in {data_dir}")
    _print_paths("missing", found.missing)
    _print_paths("corrupt", found.corrupt)
    if not found.complete:
        print(f"  repair with: repro data fetch {source.name} data_dir={data_dir}")
    return 0 if found.complete else 1


def _print_paths(state: str, paths: list[str]) -> None:
    for path in paths[:SHOWN]:
        print(f"  {state}  {path}")
    if len(paths) > SHOWN:
        print(f"  {state}  … and {len(paths) - SHOWN} more")


def _print_progress(done: int, total: int, path: str) -> None:
    if done % 50 == 0 or done == total:
        print(f"  {done}/{total}  {path}", flush=True)
