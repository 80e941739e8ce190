import pytest

from repro.config.compose import compose_run
from repro.config.errors import ConfigError
from repro.config.schema import HardwareConfig
from repro.runs.environment import prepare_device


def test_compilation_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ConfigError, match="no-such-compiler"):
        prepare_device(HardwareConfig(device="cpu", compile=True))


@pytest.mark.parametrize("task", ["parsing", "snli", "nli_alignment"])
def test_compilation_is_refused_without_a_decoder(task: str) -> None:
    with pytest.raises(ConfigError, match="no decoder"):
        compose_run([f"task={task}", "hardware.compile=true"])


def test_compilation_is_accepted_with_a_decoder() -> None:
    assert compose_run(["task=nmt", "hardware.compile=true"]).hardware.compile
