"""The page on adding a figure: its files, unchanged, in a folder of their own."""

import json
import re
from pathlib import Path

import forked

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "add-a-figure.md").read_text(encoding="utf-8")
FILES = dict(
    re.findall(r"^`(\S+)`:\n\n```(?:python|yaml)\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
)
COMMANDS = [line.split() for line in re.findall(r"^\$ repro (.+)$", PAGE, re.MULTILINE)]
TINY = [
    "hardware=cpu", "task.setting=medium", "task.stored_examples=2", "model.embedding_size=4",
    "model.hidden_size=4", "model.layers=1", "training.max_steps=1", "decoding.max_length=3",
    "decoding.max_hypotheses=4",
]  # fmt: skip


def test_its_files_touch_none_that_exist_and_its_command_runs(tmp_path: Path) -> None:
    assert len(FILES) == 2
    assert [path for path in FILES if (ROOT / path).exists()] == []
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    environment = {
        "REPRO_EXTENSIONS": str(tmp_path),
        "REPRO_RESULTS_DIR": str(tmp_path / "results"),
    }
    for command in COMMANDS:
        done = forked.run(*command, *TINY, cwd=tmp_path, environment=environment)
        assert done.returncode == 0, done.stderr
    folder = tmp_path / "results" / "demo" / "figures" / "mine"
    data = json.loads((folder / "figure1.json").read_text(encoding="utf-8"))
    assert [one["mapping"] for one in data["example"]["bars"]] == ["softmax", "sparsemax"]
    assert (folder / "figure1.png").exists()
    page = (tmp_path / "results" / "demo" / "report.html").read_text(encoding="utf-8")
    assert "source symbols with nonzero weight</text>" in page
