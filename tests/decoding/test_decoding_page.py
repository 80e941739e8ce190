import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "decoding.md"


def test_the_example_prints_what_the_page_says(capsys):
    page = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == shown
