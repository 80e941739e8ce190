"""Entry points of the active set for Python, for an oracle that is written in it."""

from typing import Any

from repro.structures.kernels import active_set, gram
from repro.structures.kernels._compile import on_disk


@on_disk
def empty_state(*arguments: Any) -> Any:
    """Call ``gram.empty_state``."""
    return gram.empty_state(*arguments)


@on_disk
def with_room(*arguments: Any) -> Any:
    """Call ``gram.with_room``."""
    return gram.with_room(*arguments)


@on_disk
def begin(*arguments: Any) -> Any:
    """Call ``active_set.begin``."""
    return active_set.begin(*arguments)


@on_disk
def advance(*arguments: Any) -> Any:
    """Call ``active_set.advance``."""
    return active_set.advance(*arguments)
