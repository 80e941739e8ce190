"""One example of a sequence task; a module of its own, which needs no torch."""

from typing import NamedTuple


class Pair(NamedTuple):
    """Ids of one example; neither side holds ``PAD``, ``BOS`` or ``EOS``."""

    source: list[int]
    target: list[int]
