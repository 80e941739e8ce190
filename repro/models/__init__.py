"""Models; each receives its mappings as objects and never chooses one by name."""

from repro.config.paths import extended

__path__ += extended(__name__)
