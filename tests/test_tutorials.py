"""The pages on adding a metric and a corpus: their files and commands, in a folder of their own."""

import re
import shlex
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess
from threading import Thread

import forked
import pytest

from repro.results import RunFolder, list_runs

ROOT = Path(__file__).resolve().parent.parent
TINY = [
    "hardware=cpu", "model.embedding_size=4", "model.hidden_size=4", "decoding.beam_size=1",
    "decoding.max_length=5", "task.stored_examples=0", "training.max_steps=1",
]  # fmt: skip
SIZES = {"train": 40, "dev": 10, "test": 10}


class Page:
    """A page with its files and commands, written below a folder."""

    def __init__(self, name: str, folder: Path) -> None:
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        blocks = re.findall(r"^`(\S+)`:\n\n```python\n(.*?)```", text, re.DOTALL | re.MULTILINE)
        self.folder, self.files = folder, dict(blocks)
        self.commands = [shlex.split(line) for line in re.findall(r"^\$ repro (.+)$", text, re.M)]
        for path, content in self.files.items():
            self.write(path, content)

    def write(self, path: str, content: str) -> None:
        file = self.folder / "extension" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")

    def run(self, *arguments: str) -> "CompletedProcess[str]":
        environment = {
            "REPRO_EXTENSIONS": str(self.folder / "extension"),
            "REPRO_RESULTS_DIR": str(self.folder / "results"),
            "REPRO_DATA_DIR": str(self.folder / "data"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        small = TINY if arguments[0] == "run" else []
        return forked.run(*arguments, *small, cwd=self.folder, environment=environment)

    def runs(self) -> list[RunFolder]:
        return list_runs(self.folder / "results", "demo")


def test_a_metric_is_one_module(tmp_path: Path) -> None:
    page = Page("add-a-metric.md", tmp_path)
    assert [path for path in page.files if (ROOT / path).exists()] == []
    assert len(page.files) == 1
    for command in page.commands:
        done = page.run(*command)
        assert done.returncode == 0, done.stderr
    (folder,) = page.runs()
    values = folder.read_record().metrics
    lines = (folder.predictions / "test.txt").read_text("utf-8").splitlines()
    rows = folder.read_statistics()["test/length_ratio"]
    assert rows[:, 0].tolist() == [len(line.split()) for line in lines]
    assert values["test/length_ratio"] == pytest.approx(100 * rows[:, 0].sum() / rows[:, 1].sum())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Serve the archive that the declaration names."""
    web = tmp_path / "web"
    web.mkdir()
    with zipfile.ZipFile(web / "proverbs.zip", "w") as archive:
        for split, size in SIZES.items():
            for language, words in (("la", "festina lente"), ("en", "make haste slowly")):
                lines = "".join(f"{words} {split} {n}\n" for n in range(size))
                archive.writestr(f"{split}.{language}", lines)
    handler = partial(SimpleHTTPRequestHandler, directory=str(web))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_corpus_is_one_module_or_a_folder(tmp_path: Path, server: str) -> None:
    page = Page("add-a-corpus.md", tmp_path)
    assert [path for path in page.files if (ROOT / path).exists()] == []
    ((path, content),) = page.files.items()
    page.write(path, content.replace("http://example.org", server))
    own, predict, *declared = page.commands
    for command in [*declared, own, predict]:
        done = page.run(*command)
        assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert (tmp_path / "proverb.svg").is_file()
    assert "proverbs" in page.run("data", "list", "data_dir=data").stdout
    assert [one.read_record().corpus for one in page.runs()] == ["proverbs la-en"] * 2

    short = tmp_path / "data" / "proverbs" / "dev.en"
    short.write_text("make haste slowly\n")
    for command, message in (
        (own, f"{short} ends after 1 lines"),
        (declared[-1], f"{short} ends after 1 lines"),
    ):
        refused = page.run(*command)
        assert refused.returncode == 2
        assert message in refused.stderr
    assert "1 of 6" not in page.run(*declared[1]).stdout
    assert page.run(*declared[1]).returncode == 1


@pytest.mark.parametrize("kind", ["metric", "corpus"])
def test_names_that_exist_are_refused(tmp_path: Path, kind: str) -> None:
    page = Page(f"add-a-{kind}.md", tmp_path)
    ((path, content),) = page.files.items()
    page.write(path.replace(".py", "_again.py"), content)
    refused = page.run("data", "list") if kind == "corpus" else page.run("run", "task=nmt")
    assert refused.returncode != 0
    assert f"{path.rsplit('/', 1)[1].removesuffix('.py')}' is declared twice" in refused.stderr
