"""The pages on adding a metric, a corpus and a figure: their files and commands, unchanged."""

import json
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tutorial import TINY_INFLECTION, TINY_TRANSLATION, Page

SIZES = {"train": 40, "dev": 10, "test": 10}


def test_a_metric_is_one_module(tmp_path):
    page = Page("add-a-metric.md", tmp_path, *TINY_TRANSLATION)
    assert len(page.files) == 1
    for command in page.commands:
        page.succeed(*command)
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


def test_a_corpus_is_one_module_or_a_folder(tmp_path, server):
    page = Page("add-a-corpus.md", tmp_path, *TINY_TRANSLATION)
    ((path, content),) = page.files.items()
    page.write(path, content.replace("http://example.org", server))
    own, predict, *declared = page.commands
    for command in [*declared, own]:
        page.succeed(*command)
    assert page.succeed(*predict).stdout.count("\n") == 1
    assert (tmp_path / "proverb.svg").is_file()
    assert "proverbs" in page.run("data", "list", "data_dir=data").stdout
    assert [one.read_record().corpus for one in page.runs()] == ["proverbs la-en"] * 2

    short = tmp_path / "data" / "proverbs" / "dev.en"
    short.write_text("make haste slowly\n")
    for command in (own, declared[-1]):
        assert f"{short} ends after 1 lines" in page.refuse(*command)
    assert "1 of 6" not in page.run(*declared[1]).stdout
    assert page.run(*declared[1]).returncode == 1


def test_a_figure_is_two_files(tmp_path):
    page = Page("add-a-figure.md", tmp_path, *TINY_INFLECTION)
    assert len(page.files) == 2
    for command in page.commands:
        page.succeed(*command)
    folder = tmp_path / "results" / "demo" / "figures" / "mine"
    data = json.loads((folder / "figure1.json").read_text(encoding="utf-8"))
    assert [one["mapping"] for one in data["example"]["bars"]] == ["softmax", "sparsemax"]
    assert (folder / "figure1.png").exists()
    report = (tmp_path / "results" / "demo" / "report.html").read_text(encoding="utf-8")
    assert "source symbols with nonzero weight</text>" in report


@pytest.mark.parametrize("kind", ["metric", "corpus"])
def test_names_that_exist_are_refused(tmp_path, kind):
    page = Page(f"add-a-{kind}.md", tmp_path, *TINY_TRANSLATION)
    ((path, content),) = page.files.items()
    page.write(path.replace(".py", "_again.py"), content)
    refused = page.run("data", "list") if kind == "corpus" else page.run("run", "task=nmt")
    assert refused.returncode != 0
    assert f"{path.rsplit('/', 1)[1].removesuffix('.py')}' is declared twice" in refused.stderr
