"""Freed memory stays with the process."""

import os
import platform
import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys, torch
from repro.memory import keep_freed

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    keep_freed()
for count in (3, 10):
    before = faults()
    for _ in range(count):
        tensors = [torch.ones(2**19) for _ in range(4)]
        del tensors
print((faults() - before) / count)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a parameter of glibc")
def test_tensors_are_not_mapped_anew():
    eager = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
    fresh, kept = (
        float(subprocess.check_output([sys.executable, "-c", _FAULTS, mode], env=eager))
        for mode in ("fresh", "kept")
    )
    assert kept < fresh / 10
