from pathlib import Path

import pytest


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two whole languages, one without ``high``, one in ``surprise``, and a stray test stub."""
    task = tmp_path / "conll2018" / "task1"
    for folder, language, settings in (
        ("all", "alban", ("medium", "high")),
        ("all", "telug", ("medium",)),
        ("surprise", "english", ("medium", "high")),
    ):
        (task / folder).mkdir(parents=True, exist_ok=True)
        for part in ("dev", "test", *(f"train-{setting}" for setting in settings)):
            row = f"{language}\t{part}\tV;{part}\n"
            (task / folder / f"{language}-{part}").write_text(row, encoding="utf-8")
    (task / "all" / "gothic-test").write_bytes(b"")
    return tmp_path
