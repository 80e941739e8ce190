"""The error raised for refused settings, and the optional packages that settings need."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from repro.errors import UserError

EXTRAS = {
    "gpu": ("triton", "kernels on GPUs"),
    "slurm": ("submitit", "hydra/launcher=slurm"),
    "parallel": ("hydra-joblib-launcher", "hydra/launcher=joblib"),
    "optuna": ("hydra-optuna-sweeper", "hydra/sweeper=optuna"),
    "mlflow": ("mlflow-skinny", "logger=mlflow"),
    "wandb": ("wandb", "logger=wandb"),
}
"""Optional dependencies: by the name of the extra, a distribution and what needs it."""


class ConfigError(UserError, ValueError):
    """A setting is unknown, missing or out of range; the message names it and what it takes."""


class UnfitChoiceError(ConfigError):
    """A group has a choice that the task does not take; ``kind`` is the schema that it takes."""

    def __init__(self, text: str, group: str, kind: Any) -> None:
        super().__init__(text)
        self.group, self.kind = group, kind


def require_extra(use: str) -> None:
    """Check that the distribution that a setting, as ``hydra/launcher=slurm``, needs is installed.

    Raises:
        ConfigError: it is not; the message says how to install it.
    """
    for extra, (distribution, needed_for) in EXTRAS.items():
        if needed_for == use:
            try:
                version(distribution)
            except PackageNotFoundError:
                text = f"{use} needs {distribution}, which is not installed: {install(extra)}"
                raise ConfigError(text) from None


def install(extra: str) -> str:
    """Return the command that adds an extra to an installation, from a checkout or not."""
    return f"pip install 'repro-sparse-attention[{extra}]'"
