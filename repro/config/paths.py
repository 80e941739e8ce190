"""Locations of the configuration, the experiments, the corpora and the results."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from traceback import extract_tb
from types import ModuleType
from typing import Any

from repro.config.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent.parent
_CHECKOUT = _PACKAGE.parent
EXTENDED = frozenset(
    f"repro.{name}"
    for name in (
        "config.schema", "data", "data.corpora", "evaluation", "evaluation.metrics", "mappings",
        "models", "report.figures", "structures", "tasks",
    )
)  # fmt: skip
"""Packages to which extensions add modules (:func:`extended`)."""


def in_checkout() -> bool:
    """Return whether the package runs from a source checkout (else from an installed wheel)."""
    return (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "conf").is_dir()


def extension_dirs() -> list[Path]:
    """List the folders of extensions in ``REPRO_EXTENSIONS``, separated as in ``PATH``.

    Each is laid out like the checkout and may have ``conf``, ``experiments`` and ``repro``.

    Raises:
        ConfigError: one of them is not a folder, or has none of these three.
    """
    named = os.environ.get("REPRO_EXTENSIONS", "").split(os.pathsep)
    folders = [*dict.fromkeys(Path(name).resolve() for name in named if name)]
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"REPRO_EXTENSIONS names {folder}; expected a folder")
        if not any((folder / name).is_dir() for name in ("conf", "experiments", "repro")):
            expected = "expected in it a folder conf, experiments or repro"
            raise ConfigError(f"REPRO_EXTENSIONS names {folder}; {expected}")
    return folders


def extended(package: str) -> list[str]:
    """List the folders in which extensions have modules of a package, for its ``__path__``.

    Raises:
        ConfigError: a module of an extension has the name of another one, which hides it, or lies
            where no module is looked for.
    """
    assert package in EXTENDED, package
    folders = extension_dirs()
    _check_modules(tuple(folders))
    return [str(folder.joinpath(*package.split("."))) for folder in folders]


@cache
def _check_modules(extensions: Iterable[Path]) -> None:
    """Refuse modules of extensions that would never be imported."""
    refuse_hidden([_PACKAGE, *(one / "repro" for one in extensions)], ".py")
    for folder in extensions:
        if folder == _CHECKOUT:
            continue
        for path in files_below(folder / "repro", ".py"):
            names = path.parent.relative_to(folder).parts
            while not _CHECKOUT.joinpath(*names).is_dir():  # a package of the extension
                names = names[:-1]
            if ".".join(names) not in EXTENDED and path.stat().st_size:
                expected = ", ".join(sorted(EXTENDED))
                raise ConfigError(f"{path} is never imported; expected in one of {expected}")


def files_below(folder: Path, suffix: str = "") -> list[Path]:
    """List the files below a folder whose names end in a suffix, sorted.

    Links to folders are followed, as Hydra and Python's imports do, unless they lead back.
    """
    found = list[Path]()
    for root, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(root) + os.sep
        folders[:] = [
            one
            for one in folders
            if not os.path.islink(path := os.path.join(root, one))
            or not real.startswith(os.path.realpath(path) + os.sep)
        ]
        found += [Path(root, name) for name in names if name.endswith(suffix)]
    return sorted(found)


def refuse_hidden(folders: Iterable[Path], suffix: str = ".yaml") -> None:
    """Refuse a file with the name of one in an earlier folder, which is found in its place.

    A module and a package have the same name; an empty module hides nothing.

    Raises:
        ConfigError: names both files.
    """
    known = dict[Path, Path]()
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        mine = dict[Path, Path]()
        for path in files_below(folder, suffix):
            named = path.parent if path.name == "__init__.py" else path.with_suffix("")
            mine[named.relative_to(folder)] = path
        for name, path in mine.items():
            if name in known and (path.stat().st_size or suffix == ".yaml"):
                shown = ".".join(["repro", *name.parts]) if suffix == ".py" else name
                raise ConfigError(f"{path}: {shown} is defined in {known[name]} already")
        known = mine | known


def import_extension(name: str) -> ModuleType:
    """Import a module that may belong to an extension.

    Raises:
        ConfigError: a file of an extension fails; names the file and the line.
    """
    try:
        return import_module(name)
    except ConfigError:
        raise
    except Exception as error:
        places = [(one.filename, one.lineno) for one in extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            places.append((error.filename or "", error.lineno))
        folders = extension_dirs()
        for file, line in reversed(places):
            if any(Path(file).is_relative_to(folder) for folder in folders):
                kind = type(error).__name__
                raise ConfigError(f"{file}:{line}: {kind}: {error}") from error
        raise


def declared_in(
    package: str,
    path: Iterable[str],
    attribute: str,
    kind: Any = Callable,
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Collect what all modules of a package declare under one attribute, by name.

    Args:
        package: full name, for example ``"repro.data.corpora"``.
        path: folders of its modules.
        attribute: for example ``"CORPORA"``: a dictionary, or objects with a ``name``; optional
            in each module.
        kind: class of what is declared.
        known: declarations to start from.

    Raises:
        ConfigError: a name is declared twice, a declaration is no ``kind``, or a module of an
            extension fails.
    """
    found = dict(known or {})
    for module in (import_extension(one.name) for one in walk_packages(path, f"{package}.")):
        declared = getattr(module, attribute, ())
        if isinstance(declared, Mapping):
            pairs = [*declared.items()]
        else:
            listed = declared if isinstance(declared, Iterable) else [declared]
            pairs = [(getattr(one, "name", None), one) for one in listed]
        for name, one in pairs:
            if name in found:
                raise ConfigError(
                    f"{module.__name__}: {attribute.lower()} {name!r} is declared twice"
                )
            if not (isinstance(name, str) and isinstance(one, kind)):
                what = "functions or classes" if kind is Callable else f"objects of {kind.__name__}"
                expected = f"expected a dictionary of {what} by name"
                raise ConfigError(f"{module.__file__}: {attribute} is {declared!r}; {expected}")
            found[name] = one
    return found


def conf_dir() -> Path:
    """Return the folder of the package's own Hydra groups."""
    return conf_dirs()[0]


def conf_dirs() -> list[Path]:
    """List the folders of Hydra groups: the package's own, then those of extensions."""
    return _asset_dirs("conf")


def experiments_dirs() -> list[Path]:
    """List the folders of experiment files: the package's own, then those of extensions."""
    return _asset_dirs("experiments")


def _asset_dirs(name: str) -> list[Path]:
    """List a folder of the checkout or the installed wheel, then those of extensions."""
    own = (_CHECKOUT if in_checkout() else _PACKAGE / "assets") / name
    if not own.is_dir():
        raise ConfigError(f"{own} is missing: the installation is incomplete")
    return [own, *(path for one in extension_dirs() if (path := one / name).is_dir())]


def default_results_dir() -> Path:
    """Return ``REPRO_RESULTS_DIR``, else ``results`` in the checkout or working directory."""
    chosen = os.environ.get("REPRO_RESULTS_DIR")
    return Path(chosen) if chosen else (_CHECKOUT if in_checkout() else Path.cwd()) / "results"


def default_data_dir() -> Path:
    """Return ``REPRO_DATA_DIR``, else ``data`` in the checkout or working directory."""
    chosen = os.environ.get("REPRO_DATA_DIR")
    return Path(chosen) if chosen else (_CHECKOUT if in_checkout() else Path.cwd()) / "data"
