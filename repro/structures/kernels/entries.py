"""Entry points for Python: kernels over a batch, compiled once and kept on disk."""

from typing import Any

from repro.structures.kernels import active_set, batch, gram, mixture
from repro.structures.kernels import conditional_gradient as descent
from repro.structures.kernels._compile import on_disk


@on_disk
def solve_range(*arguments: Any) -> Any:
    """Call ``batch.solve_range``."""
    return batch.solve_range(*arguments)


@on_disk
def map_range(*arguments: Any) -> Any:
    """Call ``batch.map_range``."""
    return batch.map_range(*arguments)


@on_disk
def respond(*arguments: Any) -> Any:
    """Call ``mixture.respond``."""
    return mixture.respond(*arguments)


@on_disk
def read_unary(*arguments: Any) -> Any:
    """Call ``mixture.read_unary``."""
    return mixture.read_unary(*arguments)


@on_disk
def write_unary(*arguments: Any) -> Any:
    """Call ``mixture.write_unary``."""
    return mixture.write_unary(*arguments)


@on_disk
def read_transitions(*arguments: Any) -> Any:
    """Call ``mixture.read_transitions``."""
    return mixture.read_transitions(*arguments)


@on_disk
def write_transitions(*arguments: Any) -> Any:
    """Call ``mixture.write_transitions``."""
    return mixture.write_transitions(*arguments)


@on_disk
def begin(*arguments: Any) -> Any:
    """Call ``active_set.begin``."""
    return active_set.begin(*arguments)


@on_disk
def advance(*arguments: Any) -> Any:
    """Call ``active_set.advance``."""
    return active_set.advance(*arguments)


@on_disk
def with_room(*arguments: Any) -> Any:
    """Call ``gram.with_room``."""
    return gram.with_room(*arguments)


@on_disk
def empty_state(*arguments: Any) -> Any:
    """Call ``gram.empty_state``."""
    return gram.empty_state(*arguments)


@on_disk
def conditional_gradient(*arguments: Any) -> Any:
    """Call ``descent.run``."""
    return descent.run(*arguments)
