"""The files that the overview follows from a command to a cell of the report."""

import re
from importlib import import_module
from operator import attrgetter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `(repro/\S+)\.py` \| (.+?) \|", re.MULTILINE)


def test_the_way_of_a_number_is_short_and_its_functions_are_there():
    text = (ROOT / "docs" / "overview.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## One number, from command to cell")
    rows = ROW.findall(section.partition("\n## ")[0])
    assert 20 <= len(rows) <= 25
    for module, functions in rows:
        found = import_module(module.replace("/", "."))
        names = re.findall(r"`([\w.]+)`", functions)
        assert names
        for name in names:
            assert callable(attrgetter(name)(found)) or isinstance(
                attrgetter(name)(found), property
            )
