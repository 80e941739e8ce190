"""Archives over a local server: checksums, receipts, and everything that must not be unpacked."""

import hashlib
import io
import random
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
    assert files_below(tmp_path) == {"archive"}
    file = write_tar(tmp_path / "archive", {"README": bytes(2_000_000), "a.de": b"x"})
    with pytest.raises(DataError, match="unpacks to more than 1000000 bytes"):
        extract(file, tmp_path / "out", WANTED)


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_an_archive_of_too_many_files_is_refused(tmp_path, monkeypatch, write):
    monkeypatch.setattr(archives, "MOST_FILES", 10)
    file = write(tmp_path / "archive", {f"{n}.de": b"x" for n in range(11)})
    with pytest.raises(DataError, match="more than 10 files"):
        extract(file, tmp_path / "out", WANTED)
    assert files_below(tmp_path) == {"archive"}


@pytest.mark.parametrize("link", ["out", "out/de-en", "out/de-en/train.de"])
def test_nothing_is_written_through_a_symbolic_link(tmp_path, link):
    file = write_tar(tmp_path / "archive", FILES)
    outside = tmp_path / "outside"
    (outside / "de-en").mkdir(parents=True)
    (outside / "train.de").write_text("precious")
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(outside / "train.de" if link.endswith(".de") else outside)
    before = files_below(outside)
    with pytest.raises(DataError, match="is a symbolic link"):
        extract(file, tmp_path / "out", WANTED)
    assert files_below(outside) == before
    assert (outside / "train.de").read_text() == "precious"


def test_a_folder_where_a_file_belongs_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "out/de-en/train.en").mkdir(parents=True)
    with pytest.raises(DataError, match=r"train\.en is in the way"):
        extract(write_tar(tmp_path / "archive", FILES), tmp_path / "out", WANTED)
    assert files_below(tmp_path) == {"archive"}


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2"])
def test_a_damaged_compressed_archive_never_gives_other_bytes(tmp_path, mode):
    """The bytes do not compress, so that most damage leaves a stream that can be decompressed."""
    content = random.Random(1).randbytes(3_000)
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
            (path,) = extract(file, tmp_path / "out", WANTED)
        except DataError:
            refused += 1
        else:  # a time or a name in the header of the compressed file
            assert path.read_bytes() == content
    assert refused > len(range(0, len(whole), 7)) * 0.9


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_zips_with_damaged_or_unknown_compression_are_refused(tmp_path, kind):
    content = random.Random(1).randbytes(500) + bytes(500)
    file = tmp_path / "archive"
    with zipfile.ZipFile(file, "w", kind) as zipped:
        zipped.writestr("a.de", content)
    whole = file.read_bytes()
    for position in range(len(whole)):
        file.write_bytes(whole[:position] + bytes([whole[position] ^ 9]) + whole[position + 1 :])
        try:
            (path,) = extract(file, tmp_path / "out", WANTED)
        except DataError:
            continue
        assert path.read_bytes() == content


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


def test_a_shorter_download_than_announced_is_refused(tmp_path, web, monkeypatch):
    folder, url = web
    content = write_tar(folder / "a.tar", FILES).read_bytes()

    def announce_more(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content) + 10))
        handler.end_headers()
        handler.wfile.write(content)

    monkeypatch.setattr(Quiet, "do_GET", announce_more)
    corpus = corpus_of(Archive(f"{url}/a.tar"))
    with pytest.raises(DataError, match=rf"received {len(content)} of {len(content) + 10} bytes"):
        fetch_archives(corpus, tmp_path / "data", ignore)
    assert files_below(tmp_path / "data") == set()


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
