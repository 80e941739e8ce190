"""How far a call of a mapping is from its kernel."""

import sys
from pathlib import Path

import pytest
import torch

import repro
from repro.mappings import MAPPINGS

pytest.importorskip("numba")

MOST = 6
PACKAGE = str(Path(repro.__file__).parent)
KERNELS = PACKAGE + "/mappings/kernels/cpu/"
KERNELLED = [spec for spec in MAPPINGS.values() if spec.kernel]


def functions_above_kernel(call):
    """The functions of the package that are active when a kernel is called."""
    active, found = [], []

    def watch(frame, event, argument):
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call":
            active.append(name if file.startswith(PACKAGE) else None)
            # Compiled kernels take the frame of the function that they were compiled from.
            if file.startswith(KERNELS) and name.endswith("_rows"):
                found.append([name for name in active[:-1] if name])
        elif event == "return" and active:
            active.pop()

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("spec", KERNELLED, ids=lambda spec: spec.name)
@pytest.mark.parametrize("tracked", [False, True])
def test_a_call_passes_few_functions_before_the_kernel(spec, tracked):
    scores = torch.randn(3, 9, requires_grad=tracked)
    given = (scores, torch.full((3, 9), 0.5)) if spec.bounded else (scores,)
    spec.function(*given)
    (above,) = functions_above_kernel(lambda: spec.function(*given))
    assert 0 < len(above) <= MOST, above
