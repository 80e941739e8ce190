"""Notice that kernels are being compiled, for whoever waits for the first update."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from numba.core import event

from repro.runs.environment import may_have_gpu

_PATIENCE = 3.0
"""Seconds of compilation before a notice is printed; cached kernels take much less."""
NOTICE = "compiling kernels for this machine: up to a minute, once (docs/kernels.md)"


class _Listener(event.Listener):
    """Listener that sums the time of nested compilations and calls ``say`` once if it is long."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, False
        self._depth, self._spent, self._started = 0, 0.0, 0.0

    def on_start(self, event: event.Event) -> None:
        """Start the clock if this is an outermost compilation."""
        if self._depth == 0:
            self._started = time.monotonic()
        self._depth += 1
        self._speak_if_late()

    def on_end(self, event: event.Event) -> None:
        """Stop the clock if this is an outermost compilation."""
        self._speak_if_late()
        self._depth -= 1
        if self._depth == 0:
            self._spent += time.monotonic() - self._started

    def on_kernel(self, *, times: Any, cache_hit: bool, **_: Any) -> None:
        """Add the time of a compilation by Triton, of which it tells at the end."""
        self._spent += 0.0 if cache_hit else times.total / 1e6
        self._speak_if_late()

    def _speak_if_late(self) -> None:
        late = self._spent + (time.monotonic() - self._started) * (self._depth > 0) > _PATIENCE
        if late and not self._said:
            self._said = True
            self._say(NOTICE)


@contextmanager
def announced_compilation(say: Callable[[str], None]) -> Iterator[None]:
    """Call ``say`` once if compilations in the block take more than three seconds in all.

    For commands only: the library itself prints nothing. Triton is heard from version 3.4.
    """
    listener = _Listener(say)
    with event.install_listener("numba:compile", listener), ExitStack() as stack:
        if may_have_gpu():
            with suppress(ImportError):
                from triton import knobs

                stack.callback(setattr, knobs.compilation, "listener", knobs.compilation.listener)
                knobs.compilation.listener = listener.on_kernel
        yield
