from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from repro.data import commands, fetch
from repro.data.errors import DataError
from repro.data.fetch import FetchReport
from repro.data.files import git_blob_id, sha256_of
from repro.data.sources import CorpusSource

FILES = {"toy/all/a-dev": b"one\n", "toy/all/b-dev": "zwölf\n".encode(), "toy/c-test": b"three\n"}


class Server(ThreadingHTTPServer):
    """Serves a folder, remembers what was asked for and can cut an answer short."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.cut_short = False
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(SimpleHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.server.cut_short:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"one")
        else:
            super().do_GET()

    def translate_path(self, path: str) -> str:
        return str(self.server.folder / path.lstrip("/"))

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "web"
    for path, content in FILES.items():
        served = folder / path.removeprefix("toy/")
        served.parent.mkdir(parents=True, exist_ok=True)
        served.write_bytes(content)
    with Server(folder) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def source(server: Server) -> CorpusSource:
    return CorpusSource(
        name="toy",
        title="a toy",
        base_url=server.url,
        root="toy",
        licence="none",
        citation="nobody (2000)",
        size=sum(map(len, FILES.values())),
        files={path: sha256_of(content) for path, content in FILES.items()},
    )


def quiet(done: int, total: int, path: str) -> None:
    assert 1 <= done <= total == len(FILES)
    assert path in FILES


def placed(data_dir: Path) -> set[str]:
    return {str(p.relative_to(data_dir)) for p in data_dir.rglob("*") if p.is_file()}


def test_fetch_places_every_file_and_reports_progress(source: CorpusSource, tmp_path: Path) -> None:
    steps: list[tuple[int, int, str]] = []
    report = fetch.fetch(source, tmp_path / "data", lambda *step: steps.append(step))
    assert report == FetchReport(downloaded=3, present=0)
    assert steps == [(i, 3, path) for i, path in enumerate(FILES, start=1)]
    assert placed(tmp_path / "data") == set(FILES)
    for path, content in FILES.items():
        assert (tmp_path / "data" / path).read_bytes() == content


def test_right_files_are_skipped_and_wrong_ones_replaced(
    source: CorpusSource, server: Server, tmp_path: Path
) -> None:
    fetch.fetch(source, tmp_path / "data", quiet)
    (tmp_path / "data" / "toy/all/b-dev").write_bytes(b"changed")
    server.asked.clear()
    assert fetch.fetch(source, tmp_path / "data", quiet) == FetchReport(downloaded=1, present=2)
    assert server.asked == ["/all/b-dev"]
    assert fetch.verify(source, tmp_path / "data").complete


def test_files_may_lie_elsewhere_and_be_known_by_the_ids_of_git(
    source: CorpusSource, server: Server, tmp_path: Path
) -> None:
    """As the treebanks, whose test data have a tag of their own."""
    moved = {"toy/c-test": "tag/c-test"}
    (server.folder / "tag").mkdir()
    (server.folder / "c-test").rename(server.folder / "tag/c-test")
    known = {path: git_blob_id(content) for path, content in FILES.items()}
    tagged = replace(source, files=known, moved=moved, size=None)
    assert fetch.fetch(tagged, tmp_path / "data", quiet).downloaded == 3
    assert "/tag/c-test" in server.asked
    assert fetch.verify(tagged, tmp_path / "data").complete
    (tmp_path / "data/toy/c-test").write_bytes(b"changed")
    assert fetch.verify(tagged, tmp_path / "data").corrupt == ["toy/c-test"]
    (server.folder / "tag/c-test").write_bytes(b"forged")
    with pytest.raises(DataError, match=f"toy/c-test: wrong .*found {git_blob_id(b'forged')}"):
        fetch.fetch(tagged, tmp_path / "data", quiet)


def test_wrong_checksum_names_both_and_leaves_nothing(source: CorpusSource, tmp_path: Path) -> None:
    files = dict(source.files) | {"toy/all/b-dev": "0" * 64}
    found = sha256_of(FILES["toy/all/b-dev"])
    with pytest.raises(DataError, match=f"toy/all/b-dev: wrong .*expected {'0' * 64}.*{found}"):
        fetch.fetch(replace(source, files=files), tmp_path / "data", quiet)
    assert placed(tmp_path / "data") == {"toy/all/a-dev"}


def test_failed_download_goes_on_where_it_stopped(
    source: CorpusSource, server: Server, tmp_path: Path
) -> None:
    away = (server.folder / "all/b-dev").rename(server.folder / "away")
    with pytest.raises(DataError, match=r"toy/all/b-dev: cannot download http.*404"):
        fetch.fetch(source, tmp_path / "data", quiet)
    assert placed(tmp_path / "data") == {"toy/all/a-dev"}
    away.rename(server.folder / "all/b-dev")
    assert fetch.fetch(source, tmp_path / "data", quiet) == FetchReport(downloaded=2, present=1)


def test_truncated_answer_is_refused(source: CorpusSource, server: Server, tmp_path: Path) -> None:
    server.cut_short = True
    with pytest.raises(DataError, match=r"toy/all/a-dev: cannot download"):
        fetch.fetch(source, tmp_path / "data", quiet)
    assert placed(tmp_path / "data") == set()


def test_mirror_replaces_the_address(source: CorpusSource, server: Server, tmp_path: Path) -> None:
    unreachable = replace(source, base_url="https://example.invalid/toy")
    report = fetch.fetch(unreachable, tmp_path / "data", quiet, base_url=server.url + "/")
    assert report.downloaded == 3


def test_only_web_addresses_are_taken(source: CorpusSource, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="begins with https"):
        fetch.fetch(source, tmp_path, quiet, base_url=tmp_path.as_uri())


def test_paths_cannot_leave_the_data_folder(source: CorpusSource, tmp_path: Path) -> None:
    escaping = replace(source, files={"toy/../../evil": "0" * 64})
    with pytest.raises(DataError, match="not a plain path below toy/"):
        fetch.fetch(escaping, tmp_path / "data", quiet)
    with pytest.raises(DataError, match="not a plain path below toy/"):
        fetch.verify(escaping, tmp_path / "data")


def test_verify_tells_missing_from_corrupt(source: CorpusSource, tmp_path: Path) -> None:
    fetch.fetch(source, tmp_path, quiet)
    (tmp_path / "toy/all/a-dev").unlink()
    (tmp_path / "toy/c-test").write_bytes(b"")
    found = fetch.verify(source, tmp_path)
    assert (found.missing, found.corrupt) == (["toy/all/a-dev"], ["toy/c-test"])
    assert found.correct == 1
    assert not found.complete


def test_commands_fetch_verify_and_list(
    source: CorpusSource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(commands, "corpus_sources", lambda: {"toy": source})
    data_dir = tmp_path / "data"
    assert commands.run("verify", "toy", data_dir) == 1
    assert "missing  toy/all/a-dev" in capsys.readouterr().out
    assert commands.run("verify", None, data_dir) == 1
    assert capsys.readouterr().out.startswith(f"nothing has been fetched into {data_dir}")
    assert commands.run("fetch", "toy", data_dir) == 0
    assert "3 downloaded, 0 there already" in capsys.readouterr().out
    assert commands.run("verify", None, data_dir) == 0
    assert "3 of 3 files are right" in capsys.readouterr().out
    assert commands.run("list", None, data_dir) == 0
    assert "3 in " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("action", "corpus", "message"),
    [
        ("fetch", None, "fetch needs a corpus; there are: sigmorphon2018"),
        ("verify", "nothing", "unknown corpus 'nothing'; there are: iwslt2014, iwslt2017, "),
        ("delete", None, "unknown action 'delete'"),
    ],
)
def test_commands_refuse(tmp_path: Path, action: str, corpus: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        commands.run(action, corpus, tmp_path)
