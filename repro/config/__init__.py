"""Configuration: schemas, composition, run identity, experiments and paths."""

from repro.config.errors import ConfigError

__all__ = ["ConfigError"]
