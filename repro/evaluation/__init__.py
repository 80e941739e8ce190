"""Metrics, scores and significance; takes predictions and knows no model."""

from repro.config.paths import extended

__path__ += extended(__name__)
