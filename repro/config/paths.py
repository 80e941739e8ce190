"""Where the configuration, the experiments, the corpora and the results lie."""

import os
from pathlib import Path

from repro.config.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent.parent
_CHECKOUT = _PACKAGE.parent


def in_checkout() -> bool:
    """Whether the package runs from a source checkout (else from an installed wheel)."""
    return (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "conf").is_dir()


def _asset_dir(name: str) -> Path:
    path = (_CHECKOUT if in_checkout() else _PACKAGE / "assets") / name
    if not path.is_dir():
        raise ConfigError(f"{path} is missing: the installation is incomplete")
    return path


def conf_dir() -> Path:
    """Folder of the Hydra groups; from the checkout, or inside the installed wheel."""
    return _asset_dir("conf")


def experiments_dir() -> Path:
    """Folder of the experiment files; from the checkout, or inside the installed wheel."""
    return _asset_dir("experiments")


def default_results_dir() -> Path:
    """``REPRO_RESULTS_DIR``, else ``results`` in the checkout, else in the working directory."""
    chosen = os.environ.get("REPRO_RESULTS_DIR")
    return Path(chosen) if chosen else (_CHECKOUT if in_checkout() else Path.cwd()) / "results"


def default_data_dir() -> Path:
    """``REPRO_DATA_DIR``, else ``data`` in the checkout, else in the working directory."""
    chosen = os.environ.get("REPRO_DATA_DIR")
    return Path(chosen) if chosen else (_CHECKOUT if in_checkout() else Path.cwd()) / "data"
