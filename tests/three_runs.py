"""A table in an extension, by default of three rows and one seed."""

from pathlib import Path

import pytest

NAME = "paper2020/table9"
_TABLE = """
kind: table
title: "Three mappings"
place: "Table 9"
base: [task=morphology, task.setting=medium, mapping=entmax, loss=entmax, loss.alpha=1.5]
seeds: [1]
rows:
  - name: "attention α"
    values: {"1": [mapping.alpha=1], "1.5": [mapping.alpha=1.5], "2": [mapping.alpha=2]}
columns:
  - name: "corpus"
    values: {"medium": [metric=test/accuracy]}
scales: {demo: {}}
"""


def add_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = NAME, text: str = _TABLE
) -> str:
    """Write a table to an extension in a folder, or replace it; return its name."""
    file = folder / "extension" / "experiments" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("REPRO_EXTENSIONS", str(folder / "extension"))
    return name
