"""Entry points for Python: kernels over a batch, compiled once and kept on disk.

Each entry refers to the fingerprint of all sources, which makes it a part of the entry's key.
"""

from collections.abc import Callable
from typing import Any

from repro.structures.kernels import active_set, batch, gram, mixture
from repro.structures.kernels._compile import SOURCES, on_disk

Entry = Callable[..., Any]


def _solve_range(sources: int) -> Entry:
    def solve_range(*arguments: Any) -> Any:
        assert sources
        return batch.solve_range(*arguments)

    return on_disk(solve_range)


def _map_range(sources: int) -> Entry:
    def map_range(*arguments: Any) -> Any:
        assert sources
        return batch.map_range(*arguments)

    return on_disk(map_range)


def _respond(sources: int) -> Entry:
    def respond(*arguments: Any) -> Any:
        assert sources
        return mixture.respond(*arguments)

    return on_disk(respond)


def _read_unary(sources: int) -> Entry:
    def read_unary(*arguments: Any) -> Any:
        assert sources
        return mixture.read_unary(*arguments)

    return on_disk(read_unary)


def _write_unary(sources: int) -> Entry:
    def write_unary(*arguments: Any) -> Any:
        assert sources
        return mixture.write_unary(*arguments)

    return on_disk(write_unary)


def _read_transitions(sources: int) -> Entry:
    def read_transitions(*arguments: Any) -> Any:
        assert sources
        return mixture.read_transitions(*arguments)

    return on_disk(read_transitions)


def _write_transitions(sources: int) -> Entry:
    def write_transitions(*arguments: Any) -> Any:
        assert sources
        return mixture.write_transitions(*arguments)

    return on_disk(write_transitions)


def _begin(sources: int) -> Entry:
    def begin(*arguments: Any) -> Any:
        assert sources
        return active_set.begin(*arguments)

    return on_disk(begin)


def _advance(sources: int) -> Entry:
    def advance(*arguments: Any) -> Any:
        assert sources
        return active_set.advance(*arguments)

    return on_disk(advance)


def _with_room(sources: int) -> Entry:
    def with_room(*arguments: Any) -> Any:
        assert sources
        return gram.with_room(*arguments)

    return on_disk(with_room)


def _empty_state(sources: int) -> Entry:
    def empty_state(*arguments: Any) -> Any:
        assert sources
        return gram.empty_state(*arguments)

    return on_disk(empty_state)


solve_range = _solve_range(SOURCES)
map_range = _map_range(SOURCES)
respond = _respond(SOURCES)
read_unary = _read_unary(SOURCES)
write_unary = _write_unary(SOURCES)
read_transitions = _read_transitions(SOURCES)
write_transitions = _write_transitions(SOURCES)
begin = _begin(SOURCES)
advance = _advance(SOURCES)
with_room = _with_room(SOURCES)
empty_state = _empty_state(SOURCES)
