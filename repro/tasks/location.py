"""Where the corpus of a configuration lies."""

from pathlib import Path

from repro.config.schema import RunConfig


def corpus_dir(config: RunConfig) -> Path:
    """``data_dir``, or a folder below the results for a generated corpus."""
    assert config.data_dir is not None
    assert config.results_dir is not None
    if not config.data.generated:
        return Path(config.data_dir)
    return Path(config.results_dir) / config.scale.name / "corpora" / config.data.corpus
