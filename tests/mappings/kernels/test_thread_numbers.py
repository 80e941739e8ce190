"""The first kernel starts numba's threads; torch must not notice."""

import subprocess
import sys

PROGRAM = """
import torch
torch.set_num_threads(1)
from repro.mappings import sparsemax
sparsemax(torch.randn(1280, 400))
print(torch.get_num_threads())
"""


def test_kernels_leave_the_number_of_torch_threads_alone():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr
