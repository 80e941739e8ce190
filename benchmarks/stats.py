"""Size of the code: lines by folder, lengths of functions, private helpers with one caller.

``python -m benchmarks.stats`` (``make stats``) reads the sources without importing them.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "repro"


class Module(NamedTuple):
    """Source file with its number of lines and its syntax tree."""

    path: Path
    lines: int
    tree: ast.Module


def read_modules(folder: Path) -> list[Module]:
    """Read every module below a folder."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(path, text.count("\n"), ast.parse(text)))
    return found


def lines_by_folder(modules: list[Module], root: Path) -> dict[str, tuple[int, int, int]]:
    """Return for each folder: lines below it, number of its modules, lines directly in it."""
    below: Counter[Path] = Counter()
    own: Counter[Path] = Counter()
    beside: Counter[Path] = Counter()
    for module in modules:
        folder = module.path.parent
        own[folder] += module.lines
        beside[folder] += module.path.name != "__init__.py"
        while True:
            below[folder] += module.lines
            if folder == root:
                break
            folder = folder.parent
    return {
        str(folder.relative_to(root.parent)): (below[folder], beside[folder], own[folder])
        for folder in sorted(below)
    }


def function_lengths(modules: list[Module]) -> list[int]:
    """Return the sorted lengths of functions in lines, without decorators and docstrings."""
    return sorted(_length(node) for module in modules for node in _functions(module.tree))


def single_caller_helpers(modules: list[Module]) -> list[str]:
    """Return private functions and methods whose name occurs once besides their definition.

    Names are counted within the module that defines them, where private names are used. ``_`` is
    left out: such functions are registered by a decorator.
    """
    found = []
    for module in modules:
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        found += [
            f"{module.path.relative_to(ROOT)}:{node.lineno} {node.name}"
            for node in _functions(module.tree)
            if re.match("_[^_]", node.name) and uses[node.name] == 1
        ]
    return found


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    total = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None and first.end_lineno is not None:
        total -= first.end_lineno - first.lineno + 1
    return total


def main() -> int:
    """Print the report."""
    modules = read_modules(PACKAGE)
    print(f"{'folder':44}{'lines':>8}{'modules':>9}{'own lines':>11}")
    for folder, (below, beside, own) in lines_by_folder(modules, PACKAGE).items():
        print(f"{folder:44}{below:>8,}{beside:>9}{own:>11,}")
    lengths = function_lengths(modules)
    tenths = quantiles(lengths, n=10)
    share = sum(length < 40 for length in lengths) / len(lengths)
    print(
        f"\n{len(lengths):,} functions: median {median(lengths):.0f} lines, "
        f"90 % at most {tenths[-1]:.0f}, longest {lengths[-1]}; {share:.1%} under 40"
    )
    helpers = single_caller_helpers(modules)
    print(f"{len(helpers)} private helpers with a single caller")
    if "--helpers" in sys.argv:
        print("\n".join(helpers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
