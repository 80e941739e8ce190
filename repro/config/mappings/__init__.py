"""Mappings that extensions add: each module here has ``MAPPINGS``, name to class.

They are found when a mapping is built, whatever was imported before. The package's own mappings are
in :data:`repro.mappings.MAPPINGS`, which imports nothing else.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from repro.config.errors import ConfigError
from repro.config.paths import extended
from repro.mappings import MAPPINGS, ProbabilityMap

__path__ += extended(__name__)


@cache
def extension_mappings() -> dict[str, Callable[..., ProbabilityMap]]:
    """What extensions add, by name: makes a mapping, given its settings.

    Raises:
        ConfigError: two of them have one name, or the package has a mapping of this name.
    """
    found: dict[str, Callable[..., ProbabilityMap]] = {}
    for module in iter_modules(__path__):
        added = import_module(f"{__name__}.{module.name}").MAPPINGS
        taken = added.keys() & (found.keys() | MAPPINGS.keys())
        if taken:
            raise ConfigError(f"{module.name}: mappings {sorted(taken)} exist already")
        found |= added
    return found
