"""A stage imports earlier stages only, in the order of docs/overview.md."""

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

import repro

ROOT = Path(repro.__file__).parent
ORDER = [  # the last has repro.load
    "errors", "version", "typed", "checksums", "atomic", "compilation", "config", "data",
    "mappings", "structures", "losses", "decoding", "models", "training", "evaluation",
    "prediction", "results", "report", "tasks", "runs", "app", "cli", "__main__", "__init__",
]  # fmt: skip
NO_MODEL = {"evaluation", "results", "report"}


def imports() -> Iterator[tuple[Path, str, str]]:
    """Every module with its stage and each stage that it imports."""
    for path in ROOT.rglob("*.py"):
        stage = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for parts in (name.split(".") for name in names):
                if parts[0] in ("", "repro") and len(parts) > 1:
                    yield path, stage, parts[1]


def wrong(stage: str, imported: str) -> bool:
    """Return whether a stage must not import another; ``__version__`` etc. are no stage."""
    if imported == stage or imported in ("__version__", "NUMERIC_EPOCH"):
        return False
    if stage == "mappings":
        return imported != "compilation"
    known = stage in ORDER and imported in ORDER
    later = known and ORDER.index(imported) > ORDER.index(stage)
    return not known or later or (stage in NO_MODEL and imported in {"models", "training"})


def test_stages_import_earlier_ones_only():
    found = sorted(
        {
            f"{p.relative_to(ROOT)} imports {other}"
            for p, one, other in imports()
            if wrong(one, other)
        }
    )
    assert not found


def imported_modules() -> nx.DiGraph:
    """Return which module imports which, also inside functions; not what only types need."""
    paths = {
        ".".join(["repro", *path.relative_to(ROOT).with_suffix("").parts]): path
        for path in ROOT.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph: nx.DiGraph = nx.DiGraph()
    for module, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                node.body = []
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                within = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [one if one in modules else str(node.module) for one in within]
            graph.add_edges_from((module, one) for one in names if one in modules)
    return graph


def test_no_module_imports_itself_through_others():
    graph = imported_modules()
    assert graph.has_edge("repro.runs.execute", "repro.runs.train")  # inside a function
    assert not [*nx.simple_cycles(graph)]


def test_the_order_is_the_documented_one():
    page = (ROOT.parent / "docs" / "overview.md").read_text(encoding="utf-8")
    assert f"`{', '.join(ORDER[:-2])}`" in " ".join(page.split())
