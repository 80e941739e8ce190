"""A table of three rows and one seed, in an extension."""

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


def add_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the table to an extension in a folder; return its name."""
    file = folder / "extension" / "experiments" / f"{NAME}.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(_TABLE, encoding="utf-8")
    monkeypatch.setenv("REPRO_EXTENSIONS", str(folder / "extension"))
    return NAME
