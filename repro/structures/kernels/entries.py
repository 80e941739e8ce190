"""Entry points for Python: kernels over a batch, compiled once and kept on disk.

Each entry refers to the fingerprint of all sources, which makes it a part of the entry's key.
"""

from typing import Any

from repro.structures.kernels import active_set, batch, gram, mixture
from repro.structures.kernels import conditional_gradient as descent
from repro.structures.kernels._compile import SOURCES, on_disk


def _entries(sources: int) -> tuple[Any, ...]:
    """Make the entries, in whose closure the fingerprint is: numba's key has what it holds."""

    def solve_range(*arguments: Any) -> Any:
        assert sources
        return batch.solve_range(*arguments)

    def map_range(*arguments: Any) -> Any:
        assert sources
        return batch.map_range(*arguments)

    def respond(*arguments: Any) -> Any:
        assert sources
        return mixture.respond(*arguments)

    def read_unary(*arguments: Any) -> Any:
        assert sources
        return mixture.read_unary(*arguments)

    def write_unary(*arguments: Any) -> Any:
        assert sources
        return mixture.write_unary(*arguments)

    def read_transitions(*arguments: Any) -> Any:
        assert sources
        return mixture.read_transitions(*arguments)

    def write_transitions(*arguments: Any) -> Any:
        assert sources
        return mixture.write_transitions(*arguments)

    def begin(*arguments: Any) -> Any:
        assert sources
        return active_set.begin(*arguments)

    def advance(*arguments: Any) -> Any:
        assert sources
        return active_set.advance(*arguments)

    def with_room(*arguments: Any) -> Any:
        assert sources
        return gram.with_room(*arguments)

    def empty_state(*arguments: Any) -> Any:
        assert sources
        return gram.empty_state(*arguments)

    def conditional_gradient(*arguments: Any) -> Any:
        assert sources
        return descent.run(*arguments)

    every = (
        solve_range, map_range, respond, read_unary, write_unary, read_transitions,
        write_transitions, begin, advance, with_room, empty_state, conditional_gradient,
    )  # fmt: skip
    return tuple(on_disk(entry) for entry in every)


(
    solve_range, map_range, respond, read_unary, write_unary, read_transitions,
    write_transitions, begin, advance, with_room, empty_state, conditional_gradient,
) = _entries(SOURCES)  # fmt: skip
