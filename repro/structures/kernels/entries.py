"""Entry points of the active set method for oracles written in Python."""

from typing import Any

from repro.structures.kernels import active_set, gram
from repro.structures.kernels._compile import on_disk


@on_disk
def empty_state(*arguments: Any) -> Any:
    """Call ``gram.empty_state`` from Python."""
    return gram.empty_state(*arguments)


@on_disk
def begin(*arguments: Any) -> Any:
    """Call ``active_set.begin`` from Python."""
    return active_set.begin(*arguments)


@on_disk
def advance(state: Any, *arguments: Any) -> Any:
    """Call ``active_set.advance``; return the status and the active set, which may have grown."""
    state = gram.with_room(state)
    return active_set.advance(state, *arguments), state
