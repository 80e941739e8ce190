"""Extension of griffe: docstrings, written for Sphinx, as Markdown for the site."""

import re
from textwrap import dedent, indent
from typing import Any

import griffe

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([^`]+)`")
FORMULA = re.compile(r"^( *)\.\. math:: ?((?:.+\n?)+)", re.MULTILINE)
TABLE = re.compile(r"^(=+(?: +=+)+\n(?:.*\n)+=+(?: +=+)+)$", re.MULTILINE)


def markdown(text: str) -> str:
    """Turn roles into code, and formulas and tables into blocks of code."""
    text = TABLE.sub(r"```text\n\1\n```", ROLE.sub(r"`\1`", text).replace("``", "`"))
    return FORMULA.sub(lambda found: indent(f"```tex\n{dedent(found[2])}\n```\n", found[1]), text)


class Docstrings(griffe.Extension):
    """Rewrite the docstring of every object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)
