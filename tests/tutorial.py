"""Pages of the documentation that add something, with their files and commands."""

import re
import shlex
from pathlib import Path
from subprocess import CompletedProcess

import forked

from repro.results import RunFolder, list_runs

ROOT = Path(__file__).resolve().parent.parent
TINY = [
    "hardware=cpu", "model.embedding_size=4", "model.hidden_size=4", "decoding.max_length=5",
    "training.max_steps=1",
]  # fmt: skip
TINY_TRANSLATION = [*TINY, "decoding.beam_size=1", "task.stored_examples=0"]
TINY_INFLECTION = [
    *TINY, "task.setting=medium", "task.stored_examples=2", "model.layers=1",
    "decoding.max_hypotheses=4",
]  # fmt: skip
"""Settings that make the models of pages small."""


class Page:
    """A page, its files in an extension below a folder, where its commands run.

    Its files touch none that exist. ``tiny`` are settings added to commands that train.
    """

    def __init__(self, name: str, folder: Path, *tiny: str) -> None:
        self.text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        blocks = r"^`(\S+)`:\n\n```(?:python|yaml)\n(.*?)```"
        self.files = dict(re.findall(blocks, self.text, re.DOTALL | re.MULTILINE))
        commands = re.findall(r"^\$ repro (.+)$", self.text, re.MULTILINE)
        self.commands = [shlex.split(line) for line in commands]
        self.folder, self.tiny = folder, tiny
        self.environment = {
            "REPRO_EXTENSIONS": str(folder / "extension"),
            "REPRO_RESULTS_DIR": str(folder / "results"),
            "REPRO_DATA_DIR": str(folder / "data"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        assert [path for path in self.files if (ROOT / path).exists()] == []
        for path, content in self.files.items():
            self.write(path, content)

    def write(self, path: str, content: str) -> None:
        file = self.folder / "extension" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")

    def run(self, *arguments: str) -> "CompletedProcess[str]":
        small = self.tiny if arguments[0] in ("run", "reproduce") else ()
        return forked.run(*arguments, *small, cwd=self.folder, environment=self.environment)

    def succeed(self, *arguments: str) -> "CompletedProcess[str]":
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done

    def refuse(self, *arguments: str) -> str:
        """The errors of a command that is refused."""
        done = self.run(*arguments)
        assert done.returncode == 2
        return done.stderr

    def runs(self) -> list[RunFolder]:
        return list_runs(self.folder / "results", "demo")
