from collections.abc import Callable
from dataclasses import replace

import pytest
from measured import RECORD

from repro.results import Record


@pytest.fixture
def make_record() -> Callable[..., Record]:
    return lambda **changes: replace(RECORD, **changes)
