"""Downloads from a local server, archives, receipts, and everything that must not be unpacked."""

import errno
import gzip
import hashlib
import io
import os
import random
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from repro.data import commands, download
from repro.data.corpora import Corpus, Download, declared_corpora
from repro.data.corpora.treebanks import TreebankFiles
from repro.data.download import (
    fetch,
    git_blob_id,
    is_plain_path,
    read_receipt,
    receipt_path,
    unpack,
    verify,
    write_receipt,
)
from repro.data.files import sha256_of
from repro.errors import DataError

FILES = {"toy/all/a-dev": b"one\n", "toy/all/b-dev": "zwölf\n".encode(), "toy/c-test": b"three\n"}


class Server(ThreadingHTTPServer):
    """Serves a folder, remembers what was asked for and can cut an answer short."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.cut_short = False
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=folder))

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


TOY = Corpus(
    name="toy", title="a toy", tasks=("nmt",), licence="none", citation="none", folder="toy",
)  # fmt: skip


@pytest.fixture
def source(server: Server) -> Corpus:
    """A corpus of single files with known checksums."""
    downloads = tuple(
        Download(f"{server.url}/{path.removeprefix('toy/')}", f"sha256:{sha256_of(content)}", path)
        for path, content in FILES.items()
    )
    return replace(TOY, downloads=downloads)


def quiet(done: int, total: int, name: str) -> None:
    assert 1 <= done <= total


def placed(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_fetch_places_every_file_and_reports_progress(source, tmp_path):
    steps: list[tuple[int, int, str]] = []
    assert fetch(source, tmp_path / "data", lambda *step: steps.append(step)) == (3, 0)
    assert steps == [(i, 3, path) for i, path in enumerate(FILES, start=1)]
    assert placed(tmp_path / "data") == set(FILES)
    for path, content in FILES.items():
        assert (tmp_path / "data" / path).read_bytes() == content


def test_right_files_are_skipped_and_wrong_ones_replaced(source, server, tmp_path):
    fetch(source, tmp_path / "data", quiet)
    (tmp_path / "data" / "toy/all/b-dev").write_bytes(b"changed")
    server.asked.clear()
    assert fetch(source, tmp_path / "data", quiet) == (1, 2)
    assert server.asked == ["/all/b-dev"]
    assert verify(source, tmp_path / "data").complete


def test_files_may_be_known_by_the_ids_of_git(source, server, tmp_path):
    known = tuple(
        replace(one, checksum=f"git:{git_blob_id(FILES[str(one.path)])}")
        for one in source.downloads
    )
    tagged = replace(source, downloads=known)
    assert fetch(tagged, tmp_path / "data", quiet) == (3, 0)
    assert verify(tagged, tmp_path / "data").complete
    (tmp_path / "data/toy/c-test").write_bytes(b"changed")
    assert verify(tagged, tmp_path / "data").corrupt == ["toy/c-test"]
    (server.folder / "c-test").write_bytes(b"forged")
    with pytest.raises(DataError, match=f"c-test: wrong git: .*found {git_blob_id(b'forged')}"):
        fetch(tagged, tmp_path / "data", quiet)


def test_git_names_files_by_length_and_content():
    """The id of the empty file, and that of ``test content`` in the book Pro Git, chapter 10.2."""
    assert git_blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert git_blob_id(b"test content\n") == "d670460b4b4aece5915caf5c68d12f560a9fe3e4"


def test_wrong_checksum_names_both_and_leaves_nothing(source, tmp_path):
    first, second, third = source.downloads
    forged = replace(
        source, downloads=(first, replace(second, checksum="sha256:" + "0" * 64), third)
    )
    found = sha256_of(FILES["toy/all/b-dev"])
    with pytest.raises(DataError, match=f"all/b-dev: wrong sha256: expected {'0' * 64}.*{found}"):
        fetch(forged, tmp_path / "data", quiet)
    assert placed(tmp_path / "data") == {"toy/all/a-dev"}


def test_failed_download_goes_on_where_it_stopped(source, server, tmp_path):
    away = (server.folder / "all/b-dev").rename(server.folder / "away")
    with pytest.raises(DataError, match=r"cannot download http.*/all/b-dev .*404"):
        fetch(source, tmp_path / "data", quiet)
    assert placed(tmp_path / "data") == {"toy/all/a-dev"}
    away.rename(server.folder / "all/b-dev")
    assert fetch(source, tmp_path / "data", quiet) == (2, 1)


def test_truncated_answer_is_refused(source, server, tmp_path):
    server.cut_short = True
    with pytest.raises(DataError, match=r"cannot download http.*/all/a-dev"):
        fetch(source, tmp_path / "data", quiet)
    assert placed(tmp_path / "data") == set()


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://", "http:///x", "x", "ftp://x/y", "file:///x"]
)
def test_only_web_addresses_are_taken(source, tmp_path, url):
    with pytest.raises(DataError, match=f"begins with https.*{re.escape(url)}"):
        fetch(replace(source, downloads=(Download(url, None, "toy/x"),)), tmp_path, quiet)


def test_verify_tells_missing_from_corrupt(source, tmp_path):
    fetch(source, tmp_path, quiet)
    (tmp_path / "toy/all/a-dev").unlink()
    (tmp_path / "toy/c-test").write_bytes(b"")
    found = verify(source, tmp_path)
    assert (found.missing, found.corrupt) == (["toy/all/a-dev"], ["toy/c-test"])
    assert found.right == 1
    assert not found.complete


def test_commands_fetch_verify_and_list(source, tmp_path, monkeypatch, capsys):
    by_hand = replace(TOY, name="brought", obtain="ask somebody", folder="brought", reads=("a-*",))
    known = {"toy": source, "brought": by_hand}
    monkeypatch.setattr(commands, "declared_corpora", lambda: known)
    data_dir = tmp_path / "data"
    assert commands.run("verify", "toy", data_dir) == 1
    assert "missing  toy/all/a-dev" in capsys.readouterr().out
    assert commands.run("verify", None, data_dir) == 1
    assert capsys.readouterr().out.startswith(f"nothing has been fetched into {data_dir}")
    assert commands.run("fetch", "toy", data_dir) == 0
    assert "3 files downloaded, 0 already present" in capsys.readouterr().out
    assert commands.run("verify", None, data_dir) == 0
    assert "3 of 3 files are correct" in capsys.readouterr().out
    assert commands.run("list", None, data_dir) == 0
    listed = capsys.readouterr().out
    assert f"found: {data_dir / 'toy'}" in listed
    assert "ask somebody" in listed
    assert commands.run("verify", "brought", data_dir) == 1
    printed = capsys.readouterr().out
    assert "missing  brought/a-*" in printed
    assert "ask somebody" in printed
    assert "fetch brought" not in printed
    (data_dir / "brought").mkdir()
    (data_dir / "brought" / "a-dev").touch()
    assert commands.run("verify", "brought", data_dir) == 0
    with pytest.raises(DataError, match="brought cannot be fetched: ask somebody"):
        commands.run("fetch", "brought", data_dir)


@pytest.mark.parametrize(
    ("action", "corpus", "message"),
    [
        ("fetch", None, "fetch needs a corpus; there are: iwslt2014, iwslt2017, "),
        ("verify", "nothing", "unknown corpus 'nothing'; there are: benchmark_fr, "),
        ("verify", "nothing", "there are: .*, iwslt2017, iwslt2017@hub, "),
    ],
)
def test_commands_refuse(tmp_path, action, corpus, message):
    with pytest.raises(DataError, match=message):
        commands.run(action, corpus, tmp_path)


def test_sigmorphon_lists_the_used_files_and_no_stub():
    paths = [str(one.path) for one in declared_corpora()["sigmorphon2018"].downloads]
    endings = ("-train-high", "-train-medium", "-dev", "-test")
    counts = [sum(path.endswith(ending) for path in paths) for ending in endings]
    assert counts == [86, 102, 103, 103]
    assert len(paths) == 394
    stubs = {f"{stub}-test" for stub in ("gothic", "low-german", "manx", "tajik")}
    assert not {path.rsplit("/", 1)[1] for path in paths} & stubs
    assert "conll2018/task1/surprise/english-train-high" in paths


def test_treebanks_are_pinned_to_tags_and_lie_where_the_reader_looks():
    treebanks = [one for one in declared_corpora().values() if isinstance(one, TreebankFiles)]
    fetched = [one for one in treebanks if one.downloads]
    assert {one.treebank for one in fetched} == {
        f"UD_{name}" for name in ("English", "Chinese", "Vietnamese", "Romanian", "Japanese")
    }
    assert {one.release for one in fetched} == {"2.0"}
    assert all(one.obtain for one in treebanks if not one.downloads)
    for corpus in fetched:
        tags = [one.url.split("/")[-2] for one in corpus.downloads]
        assert sorted(tags) == ["r2.0", "r2.0", "r2.0-test"]
        assert all(str(one.path).startswith(corpus.folder + "/") for one in corpus.downloads)


def test_every_declared_file_has_a_plain_path_and_a_checksum():
    for corpus in declared_corpora().values():
        for one in corpus.downloads:
            if one.path is not None:
                assert is_plain_path(one.path)
                assert one.checksum is not None


WANTED = ("*.de", "*.en")
ARCHIVED = {"de-en/train.de": b"eins\n", "de-en/train.en": b"one\n", "de-en/README": b"about\n"}


def write_tar(path, files, *extra):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member)
    return path


def write_zip(path, files, kind=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", kind) as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    return path


def corpus_of(*found: Download) -> Corpus:
    return replace(TOY, downloads=found, members=WANTED)


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_only_wanted_files_are_unpacked(tmp_path, write):
    file = write(tmp_path / "archive", ARCHIVED | {"dev/": b""} if write is write_zip else ARCHIVED)
    written = unpack(file, tmp_path / "out", WANTED)
    assert placed(tmp_path / "out") == {"de-en/train.de", "de-en/train.en"}
    assert sorted(written) == sorted(tmp_path / "out" / name for name in list(ARCHIVED)[:2])
    assert (tmp_path / "out/de-en/train.de").read_bytes() == b"eins\n"


def test_a_link_to_another_file_system_may_be_the_data_folder(tmp_path, monkeypatch):
    file, real = write_tar(tmp_path / "archive", ARCHIVED), tmp_path / "far"
    real.mkdir()
    (tmp_path / "data").symlink_to(real)

    def replace(source, target, rename=os.replace):
        if (real in source.resolve().parents) != (real in target.resolve().parents):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    unpack(file, tmp_path / "data", WANTED)
    assert placed(real) == {"de-en/train.de", "de-en/train.en"}


def link(kind):
    member = tarfile.TarInfo("a.de")
    member.type, member.linkname = kind, "/etc/passwd"
    return member


def cut(path):
    write_tar(path, {"a.de": bytes(range(256)) * 4000})
    path.write_bytes(path.read_bytes()[:-2000])


def understated(path):
    """Write a smaller size into the headers of a file."""
    content = write_deflated(path, {"a.de": bytes(60_000)}).read_bytes()
    smaller = content.replace((60_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert smaller != content
    path.write_bytes(smaller)


def without_a_header(path, compress=bytes):
    """Damage the checksum of a header, at which the members would end."""
    write_tar(path, {"a.de": b"eins\n", "b.de": b"zwei\n"})
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[2 * tarfile.BLOCKSIZE] ^= 1
    path.write_bytes(compress(content))


write_deflated = partial(write_zip, kind=zipfile.ZIP_DEFLATED)
SPECIAL = {"symlink": tarfile.SYMTYPE, "hardlink": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE}
UNSAFE = {
    f"{write.__name__} {name}": partial(write, files={name: b"x"})
    for write in (write_tar, write_zip)
    for name in ("../evil.de", "/evil.de", "a/../../evil.de", "a/./evil.de")
} | {
    name: lambda path, kind=kind: write_tar(path, {}, link(kind)) for name, kind in SPECIAL.items()
}
BAD = {name: (write, "not a plain file below a plain path") for name, write in UNSAFE.items()} | {
    "page": (lambda path: path.write_bytes(b"<html>not found</html>"), "cannot be unpacked"),
    "nothing wanted": (partial(write_tar, files={"README": b"x"}), r"is named \*\.de"),
    "cut": (cut, "cannot be unpacked"),
    "understated": (understated, "cannot be unpacked"),
    "header": (without_a_header, "no header at byte 1,024"),
    "header inside": (partial(without_a_header, compress=gzip.compress), "no header at byte 1,024"),
}


@pytest.mark.parametrize(("write", "message"), BAD.values(), ids=BAD)
def test_bad_archives_are_refused_and_leave_nothing(tmp_path, write, message):
    write(tmp_path / "archive")
    with pytest.raises(DataError, match=f"archive: .*{message}"):
        unpack(tmp_path / "archive", tmp_path / "a" / "out", WANTED)
    assert placed(tmp_path) == {"archive"}


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2"])
def test_a_damaged_compressed_archive_never_gives_other_bytes(tmp_path, mode):
    """The bytes do not compress, so that most damage leaves a stream that can be decompressed."""
    content = random.Random(1).randbytes(1_000)
    file = tmp_path / "archive"
    with tarfile.open(file, mode) as tar:
        member = tarfile.TarInfo("a.de")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    whole = file.read_bytes()
    refused = 0
    for position in range(0, len(whole), 7):
        file.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        try:
            (path,) = unpack(file, tmp_path / "out", WANTED)
        except DataError:
            refused += 1
        else:  # a time or a name in the header of the compressed file
            assert path.read_bytes() == content
    assert refused > len(range(0, len(whole), 7)) * 0.9


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_zips_with_damaged_or_unknown_compression_are_refused(tmp_path, kind):
    content = random.Random(1).randbytes(100) + bytes(100)
    file = write_zip(tmp_path / "archive", {"a.de": content}, kind)
    whole = file.read_bytes()
    for position in range(len(whole)):
        file.write_bytes(whole[:position] + bytes([whole[position] ^ 9]) + whole[position + 1 :])
        try:
            (path,) = unpack(file, tmp_path / "out", WANTED)
        except DataError:
            continue
        assert path.read_bytes() == content


@pytest.mark.parametrize("write", [write_tar, write_deflated])
def test_more_than_the_limit_is_not_unpacked(tmp_path, monkeypatch, write):
    monkeypatch.setattr(download, "MOST_BYTES", 100_000)
    file = write(tmp_path / "archive", {"a.de": bytes(60_000), "b.de": bytes(60_000)})
    assert file.stat().st_size < 10_000
    with pytest.raises(DataError, match=r"archive: .*120,000.* at most 100,000"):
        unpack(file, tmp_path / "out", WANTED)
    assert placed(tmp_path) == {"archive"}


def test_a_fetched_archive_that_is_too_large_is_named(tmp_path, server, monkeypatch):
    monkeypatch.setattr(download, "MOST_BYTES", 3)
    write_tar(server.folder / "a.tgz", ARCHIVED)
    with pytest.raises(DataError, match=r"a\.tgz"):
        fetch(corpus_of(Download(f"{server.url}/a.tgz")), tmp_path / "data", quiet)
    assert placed(tmp_path / "data") == set()


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_members_that_nobody_wants_do_not_count(tmp_path, monkeypatch, write):
    monkeypatch.setattr(download, "MOST_BYTES", 10)
    file = write(tmp_path / "archive", {"a.de": b"x" * 10, "README": bytes(60_000)})
    assert [path.name for path in unpack(file, tmp_path / "out", WANTED)] == ["a.de"]


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_fetch_checks_what_the_publisher_states(tmp_path, server, kind):
    content = write_tar(server.folder / "a.tgz", ARCHIVED).read_bytes()
    right = f"{kind}:{hashlib.new(kind, content).hexdigest()}"
    wrong = corpus_of(Download(f"{server.url}/a.tgz", f"{kind}:{'0' * 32}"))
    with pytest.raises(DataError, match=rf"a\.tgz: wrong {kind}: expected 000"):
        fetch(wrong, tmp_path / "data", quiet)
    assert not (tmp_path / "data").exists()
    corpus = corpus_of(Download(f"{server.url}/a.tgz", right))
    assert fetch(corpus, tmp_path / "data", quiet) == (2, 0)
    receipt = read_receipt(receipt_path(corpus, tmp_path / "data"))
    assert set(receipt.files) == {"toy/de-en/train.de", "toy/de-en/train.en"}
    assert verify(corpus, tmp_path / "data").complete


def test_archives_that_are_unpacked_elsewhere_are_found(tmp_path, capsys):
    """Those of WMT lie in one folder for all languages, beside the plain files of one language."""
    corpus = declared_corpora()["wmt16_ro"]
    assert commands.described("list", corpus.name, tmp_path)[0]["found"] is False
    (tmp_path / "wmt16").mkdir()
    write_receipt(receipt_path(corpus, tmp_path), tmp_path, {}, [])
    commands.run("list", corpus.name, tmp_path)
    assert f"found: {tmp_path / 'wmt16'}\n" in capsys.readouterr().out
    (row,) = commands.described("list", corpus.name, tmp_path)
    assert (row["found"], row["folder"]) == (True, str(tmp_path / "wmt16"))


def test_a_second_fetch_does_nothing_or_repairs(tmp_path, server):
    write_tar(server.folder / "a.tgz", ARCHIVED)
    corpus, data = corpus_of(Download(f"{server.url}/a.tgz")), tmp_path / "data"
    fetch(corpus, data, quiet)
    assert fetch(corpus, data, quiet) == (0, 2)
    (data / "toy/de-en/train.de").write_text("changed")
    assert verify(corpus, data).corrupt == ["toy/de-en/train.de"]
    assert fetch(corpus, data, quiet) == (2, 0)
    assert verify(corpus, data).complete


def test_without_a_stated_checksum_the_first_fetch_decides(tmp_path, server):
    write_tar(server.folder / "a.tgz", ARCHIVED)
    corpus, data = corpus_of(Download(f"{server.url}/a.tgz")), tmp_path / "data"
    fetch(corpus, data, quiet)
    write_tar(server.folder / "a.tgz", ARCHIVED | {"de-en/train.de": b"zwei\n"})
    (data / "toy/de-en/train.de").unlink()
    with pytest.raises(DataError, match="has changed since the first fetch"):
        fetch(corpus, data, quiet)


def test_an_archive_that_was_not_fetched_lacks_its_receipt(tmp_path):
    assert verify(corpus_of(Download("https://x/a.zip")), tmp_path).missing == ["toy.fetched.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "expected the origins and files"),
        ('{"origins": {}}', "expected the origins and files"),
        ('{"origins": {}, "files": {"a": 1}}', "expected the origins and files"),
        ('{"origins": {}, "files": {"../a": "0"}}', r"'\.\./a' is not a plain relative path"),
    ],
)
def test_malformed_receipts_are_refused(tmp_path, content, message):
    (tmp_path / "receipt").write_text(content)
    with pytest.raises(DataError, match=message):
        read_receipt(tmp_path / "receipt")


def test_files_put_there_by_hand_are_found_by_their_names(tmp_path, capsys):
    corpus = declared_corpora()["snli"]
    assert commands.run("verify", "snli", tmp_path) == 1
    for name in corpus.expected:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert commands.run("verify", "snli", tmp_path) == 0
    assert len(corpus.expected) == 3
    printed = capsys.readouterr().out
    assert all(name in printed for name in corpus.expected)
