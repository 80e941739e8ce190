"""Rerun, check and build on four papers about sparse and structured attention."""

from typing import TYPE_CHECKING

from repro.version import __version__ as __version__

if TYPE_CHECKING:
    from pathlib import Path

    from repro.runs.loading import LoadedRun


def load(
    run: "str | Path", *overrides: str, results_dir: "str | Path | None" = None
) -> "LoadedRun":
    """Load the trained model of a run, which predicts new inputs.

    Args:
        run: identity of the run, the beginning of it, or the path of its folder.
        overrides: settings of the search and the device: ``"decoding.beam_size=10"``,
            ``"hardware=cuda"``.
        results_dir: folder of results; ``None`` for the default one.

    Returns:
        The model; its ``predict(inputs)`` returns a list of
        :class:`~repro.prediction.Prediction`.

    Raises:
        ResultsError: there is no such run, or its weights are missing; the message has the command
            that trains them.
        ConfigError: a setting cannot be changed, or its value is refused.
    """
    from repro.runs.loading import load_run  # imports torch

    return load_run(run, *overrides, results_dir=results_dir)
