"""Arrow files give back what was written, in flat memory."""

import subprocess
import sys

import numpy as np
import pytest

from repro.data.arrow import ArrowPairs, write_pairs
from repro.data.pair import Pair


def random_pairs(count, seed=0):
    generator = np.random.default_rng(seed)
    for _ in range(count):
        source, target = (generator.integers(4, 99, generator.integers(1, 9)) for _ in range(2))
        yield Pair(source.tolist(), target.tolist())


@pytest.mark.parametrize("count", [0, 1, 25_003])
def test_pairs_come_back_in_order(tmp_path, count):
    expected = list(random_pairs(count))
    write_pairs(tmp_path / "train.arrow", expected)
    pairs = ArrowPairs(tmp_path / "train.arrow")
    assert list(pairs) == expected
    assert pairs.source_lengths.tolist() == [len(pair.source) for pair in expected]


def test_empty_sides_and_bounds(tmp_path):
    write_pairs(tmp_path / "train.arrow", [Pair([5], []), Pair([6, 7], [8])])
    pairs = ArrowPairs(tmp_path / "train.arrow")
    assert pairs[0] == Pair([5], [])
    with pytest.raises(IndexError, match="pair 2 of 2"):
        pairs[2]


_MEASURE = """
import re, sys
from pathlib import Path
from repro.data.arrow import ArrowPairs, write_pairs
from repro.data.pair import Pair

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

path, count = Path(sys.argv[1]), int(sys.argv[2])
write_pairs(path, (Pair([4 + k % 90] * 25, [5 + k % 90] * 25) for k in range(20_000)))
list(ArrowPairs(path)[k] for k in range(0, 20_000, 100))
before = peak()  # ru_maxrss would be that of the parent of this process, if larger
write_pairs(path, (Pair([4 + k % 90] * 25, [5 + k % 90] * 25) for k in range(count)))
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process as on Linux")
def test_memory_does_not_grow_with_the_number_of_pairs(tmp_path):
    """The pairs are 32 MB as a file; writing them takes a small part of that."""
    command = [sys.executable, "-c", _MEASURE, str(tmp_path / "train.arrow"), "150000"]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    size = (tmp_path / "train.arrow").stat().st_size / 1024
    assert size > 30_000
    assert grown < size / 3
