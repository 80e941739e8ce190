"""Metrics and significance tests of predictions, independent of models."""

from repro.config.paths import extended

__path__ += extended(__name__)
