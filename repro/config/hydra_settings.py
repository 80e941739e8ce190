"""Settings of Hydra's own: what reads them. Where nothing does, they are refused."""

import re
from typing import Literal

from repro.config.identity import SEARCH_PATH

Place = Literal["a single run", "a sweep", "an artefact"]

_READ: dict[Place, re.Pattern[str]] = {
    "a single run": re.compile(rf"{SEARCH_PATH}$"),
    "a sweep": re.compile(rf"hydra[./](launcher|sweeper)\b|hydra\.(sweep\.dir|callbacks)\b|"
                          rf"{SEARCH_PATH}$"),
    "an artefact": re.compile(r"hydra[./]launcher\b|hydra\.sweep\.dir\b"),
}  # fmt: skip
_FOREIGN: dict[Place, re.Pattern[str]] = {
    "a sweep": re.compile(r"hydra[./](?!(mode|run)\b)"),
    "an artefact": re.compile(r"hydra[./](?!(mode|run|sweeper|callbacks|searchpath)\b)"),
}
"""Settings that are read with launchers of other packages as well: Hydra runs each job itself."""
_MULTIRUN = re.compile(r"hydra[./](launcher|sweeper)\b|hydra\.(sweep|mode)\b")


def why_unread(key: str, place: Place, foreign_launcher: bool = False) -> str | None:
    """Return how to mend that nothing reads a setting of Hydra, such as ``hydra.mode``.

    It is the end of a message that begins with the setting; None if the setting is read.
    """
    foreign = foreign_launcher and place in _FOREIGN and _FOREIGN[place].match(key)
    if foreign or _READ[place].match(key):
        return None
    if place == "a single run" and _MULTIRUN.match(key):
        return "is for multiruns; add -m"
    if place == "an artefact" and key == SEARCH_PATH:
        return "is not read for artefacts; use REPRO_EXTENSIONS"
    return f"changes nothing in {place}; leave it out"
