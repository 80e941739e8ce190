import io
import os
import pickle
import zipfile

import numpy as np
import pytest

from repro.results import ResultsError, run_folder
from repro.results.files import read_arrays, write_arrays

ARRAYS = {"test/bleu": np.arange(20).reshape(2, 10), "dev/rouge1": np.array([[1 / 3, 1.0]])}


def test_arrays_come_back_as_they_were(tmp_path):
    write_arrays(tmp_path / "a.npz", ARRAYS)
    read = read_arrays(tmp_path / "a.npz")
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype
        assert np.array_equal(read[name], array)


def test_the_same_arrays_give_the_same_bytes_in_any_order(tmp_path):
    write_arrays(tmp_path / "a.npz", ARRAYS)
    write_arrays(tmp_path / "b.npz", dict(reversed(ARRAYS.items())))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "b.npz"]  # nothing temporary is left


def test_objects_are_neither_written_nor_read(tmp_path):
    objects = np.array([{}], dtype=object)
    with pytest.raises(ValueError, match="arrays of objects cannot be stored: x"):
        write_arrays(tmp_path / "a.npz", {"x": objects})
    assert not (tmp_path / "a.npz").exists()
    np.savez(tmp_path / "b.npz", x=objects)
    with pytest.raises(ResultsError, match=r"b\.npz: not a file of arrays"):
        read_arrays(tmp_path / "b.npz")


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04torn", pickle.dumps([1])])
def test_damaged_files_are_refused_by_name(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ResultsError, match=r"a\.npz: not a file of arrays"):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_changed_byte_is_refused_or_without_effect(tmp_path, kind):
    path, npy = tmp_path / "a.npz", io.BytesIO()
    np.save(npy, ARRAYS["test/bleu"])
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("x.npy", npy.getvalue())
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 9]) + whole[position + 1 :])
        try:
            read = read_arrays(path)
        except ResultsError:
            continue
        assert np.array_equal(read["x"], ARRAYS["test/bleu"]), position


def test_a_run_without_statistics_has_none(tmp_path):
    folder = run_folder(tmp_path, "demo", "0123456789ab")
    assert folder.read_statistics() == {}
    folder.write_statistics(ARRAYS)
    assert folder.read_statistics().keys() == ARRAYS.keys()
