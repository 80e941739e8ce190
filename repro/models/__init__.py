"""Models; each is given its mappings as modules and never chooses one by name."""

from repro.config.paths import extended

__path__ += extended(__name__)
