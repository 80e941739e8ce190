"""A message while kernels are compiled, which happens once on a machine and may take a minute."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event

_PATIENCE = 3.0
"""Seconds of compilation before anything is said; cached kernels take much less."""
NOTICE = "compiling kernels for this machine: up to a minute, once (docs/kernels.md)"


class _Listener(event.Listener):
    """Adds up the time of compilations, which nest, and speaks once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._depth = 0
        self._spent = 0.0
        self._started = 0.0
        self._said = False

    def on_start(self, event: event.Event) -> None:
        """Start the clock of an outermost compilation."""
        if self._depth == 0:
            self._started = time.monotonic()
        self._depth += 1
        self._speak_if_late()

    def on_end(self, event: event.Event) -> None:
        """Stop it."""
        self._speak_if_late()
        self._depth -= 1
        if self._depth == 0:
            self._spent += time.monotonic() - self._started

    def _speak_if_late(self) -> None:
        late = self._spent + time.monotonic() - self._started > _PATIENCE
        if late and not self._said:
            self._said = True
            self._say(NOTICE)


@contextmanager
def announced_compilation(say: Callable[[str], None]) -> Iterator[None]:
    """Call ``say`` once if compilations by numba in the block take more than three seconds in all.

    For commands only: the library compiles in silence.
    """
    listener = _Listener(say)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
