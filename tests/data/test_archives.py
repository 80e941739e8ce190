"""Archives over a local server: checksums, receipts, and everything that must not be unpacked."""

import hashlib
import io
import tarfile
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from repro.data import archives, commands
from repro.data.archives import Archive, ArchivedCorpus, extract, fetch_archives, verify_receipt
from repro.data.errors import DataError
from repro.data.receipts import read_receipt

WANTED = ("*.de", "*.en")
FILES = {"de-en/train.de": b"eins\n", "de-en/train.en": b"one\n", "de-en/README": b"about\n"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture
def web(tmp_path):
    """A folder and the address that serves it."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def write_tar(path, files, *extra):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member)
    return path


def write_zip(path, files):
    with zipfile.ZipFile(path, "w") as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    return path


def corpus_of(*found):
    return ArchivedCorpus("toy", "a toy", "none", "nobody (2000)", "toy", WANTED, tuple(found))


def ignore(done, total, url):
    assert 1 <= done <= total


def files_below(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_only_wanted_files_are_unpacked(tmp_path, write):
    file = write(tmp_path / "archive", FILES | {"dev/": b""} if write is write_zip else FILES)
    written = extract(file, tmp_path / "out", WANTED)
    assert files_below(tmp_path / "out") == {"de-en/train.de", "de-en/train.en"}
    assert sorted(written) == sorted(tmp_path / "out" / name for name in list(FILES)[:2])
    assert (tmp_path / "out/de-en/train.de").read_bytes() == b"eins\n"


def link(name, target, kind=tarfile.SYMTYPE):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize("name", ["../evil.de", "/evil.de", "a/../../evil.de", "a/./evil.de"])
@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_paths_that_leave_the_folder_are_refused(tmp_path, write, name):
    file = write(tmp_path / "archive", {name: b"x"})
    with pytest.raises(DataError, match="not a plain file below a plain path"):
        extract(file, tmp_path / "a" / "out", WANTED)
    assert files_below(tmp_path) == {"archive"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    file = write_tar(tmp_path / "archive", {}, link("a.de", "/etc/passwd", kind))
    with pytest.raises(DataError, match="not a plain file"):
        extract(file, tmp_path / "out", WANTED)
    assert files_below(tmp_path) == {"archive"}


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 1_000_000)
    file = write_tar(tmp_path / "archive", {"a.de": bytes(600_000), "b.de": bytes(600_000)})
    assert file.stat().st_size < 10_000
    with pytest.raises(DataError, match="unpacks to more than 1000000 bytes"):
        extract(file, tmp_path / "out", WANTED)
    assert files_below(tmp_path / "out") == {"a.de"}


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "archive").write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match="cannot be unpacked"):
        extract(tmp_path / "archive", tmp_path / "out", WANTED)
    file = write_tar(tmp_path / "other", {"README": b"x"})
    with pytest.raises(DataError, match=r"no file in it is named \*\.de"):
        extract(file, tmp_path / "out", WANTED)


def test_a_cut_archive_is_refused(tmp_path):
    file = write_tar(tmp_path / "archive", {"a.de": bytes(range(256)) * 4000})
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(DataError, match="cannot be unpacked"):
        extract(file, tmp_path / "out", WANTED)
    assert not (tmp_path / "out" / "a.de").exists()


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_fetch_checks_what_the_publisher_states(tmp_path, web, kind):
    folder, url = web
    content = write_tar(folder / "a.tgz", FILES).read_bytes()
    right = f"{kind}:{hashlib.new(kind, content).hexdigest()}"
    wrong = corpus_of(Archive(f"{url}/a.tgz", f"{kind}:{'0' * 32}"))
    with pytest.raises(DataError, match=rf"a\.tgz: wrong {kind}: expected 000"):
        fetch_archives(wrong, tmp_path / "data", ignore)
    assert not (tmp_path / "data").exists()
    corpus = corpus_of(Archive(f"{url}/a.tgz", right))
    assert fetch_archives(corpus, tmp_path / "data", ignore).downloaded == 2
    receipt = read_receipt(tmp_path / "data" / corpus.receipt)
    assert set(receipt.files) == {"toy/de-en/train.de", "toy/de-en/train.en"}
    assert verify_receipt(receipt, tmp_path / "data").complete


def test_a_second_fetch_does_nothing_or_repairs(tmp_path, web):
    folder, url = web
    write_tar(folder / "a.tgz", FILES)
    corpus, data = corpus_of(Archive(f"{url}/a.tgz")), tmp_path / "data"
    fetch_archives(corpus, data, ignore)
    assert fetch_archives(corpus, data, ignore).present == 2
    (data / "toy/de-en/train.de").write_text("changed")
    receipt = read_receipt(data / corpus.receipt)
    assert verify_receipt(receipt, data).corrupt == ["toy/de-en/train.de"]
    assert fetch_archives(corpus, data, ignore).downloaded == 2
    assert verify_receipt(receipt, data).complete


def test_without_a_stated_checksum_the_first_fetch_decides(tmp_path, web):
    folder, url = web
    write_tar(folder / "a.tgz", FILES)
    corpus, data = corpus_of(Archive(f"{url}/a.tgz")), tmp_path / "data"
    fetch_archives(corpus, data, ignore)
    write_tar(folder / "a.tgz", FILES | {"de-en/train.de": b"zwei\n"})
    (data / "toy/de-en/train.de").unlink()
    with pytest.raises(DataError, match="another content than at the first fetch"):
        fetch_archives(corpus, data, ignore)


def test_what_cannot_be_downloaded_is_named(tmp_path, web):
    corpus = corpus_of(Archive(f"{web[1]}/nowhere.tgz"))
    with pytest.raises(DataError, match=r"cannot download http.*nowhere\.tgz .*404"):
        fetch_archives(corpus, tmp_path / "data", ignore)
    with pytest.raises(DataError, match="begins with https"):
        fetch_archives(corpus_of(Archive("file:///etc/passwd")), tmp_path / "data", ignore)


def test_commands_fetch_verify_and_list(tmp_path, web, monkeypatch, capsys):
    folder, url = web
    write_zip(folder / "a.zip", FILES)
    corpus = corpus_of(Archive(f"{url}/a.zip"))
    monkeypatch.setattr(commands, "fetchable", lambda: {"toy": corpus})
    assert commands.run("verify", "toy", tmp_path) == 1
    assert "missing  toy.fetched.json" in capsys.readouterr().out
    assert commands.run("fetch", "toy", tmp_path) == 0
    assert "toy: 2 downloaded" in capsys.readouterr().out
    assert commands.run("list", None, tmp_path) == 0
    assert "fetched in" in capsys.readouterr().out
    assert commands.run("verify", None, tmp_path) == 0
    assert "2 of 2 files are right" in capsys.readouterr().out


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
