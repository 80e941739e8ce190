import pytest
from numba.core import event

from repro.runs import compilation_notice
from repro.runs import display as compilation
from repro.runs.compilation_notice import NOTICE, announced_compilation


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """One number, the time; it passes only when a test says so."""
    now = [100.0]
    monkeypatch.setattr(compilation.time, "monotonic", lambda: now[0])
    return now


def compile_for(seconds: float, clock: list[float], inside: int = 1) -> None:
    """A compilation that starts others inside, which end at once."""
    with event.trigger_event("numba:compile"):
        for _ in range(inside):
            clock[0] += seconds / inside
            with event.trigger_event("numba:compile"):
                pass


def test_a_long_compilation_is_announced_once(clock):
    said: list[str] = []
    with announced_compilation(said.append):
        compile_for(20.0, clock, inside=5)
        compile_for(20.0, clock)
    assert said == [NOTICE]


def test_it_is_announced_while_it_lasts(clock):
    said: list[tuple[float, str]] = []
    with announced_compilation(lambda text: said.append((clock[0], text))):
        compile_for(20.0, clock, inside=5)
    assert said == [(104.0, NOTICE)]


def test_short_compilations_and_the_time_between_them_do_not_count(clock):
    said: list[str] = []
    with announced_compilation(said.append):
        for _ in range(2):
            compile_for(1.0, clock)
            clock[0] += 60.0
    assert said == []


def test_many_short_compilations_add_up_and_nothing_is_said_outside(clock):
    said: list[str] = []
    with announced_compilation(said.append):
        for _ in range(5):
            compile_for(1.0, clock)
    assert said == [NOTICE]
    said.clear()
    compile_for(20.0, clock)
    assert said == []


def test_compilations_by_triton_add_up(monkeypatch):
    knobs = pytest.importorskip("triton.knobs")
    monkeypatch.setattr(compilation_notice, "may_have_gpu", lambda: True)
    said: list[str] = []

    def compiled(seconds: int, cache_hit: bool = False) -> None:
        times = knobs.CompileTimes(0, [("ttir", seconds * 10**6)], 0)
        knobs.compilation.listener(
            src=None, metadata={}, metadata_group={}, times=times, cache_hit=cache_hit
        )

    with announced_compilation(said.append):
        compiled(60, cache_hit=True)
        compiled(2)
        assert said == []
        compiled(2)
    assert said == [NOTICE]
    assert knobs.compilation.listener is None
