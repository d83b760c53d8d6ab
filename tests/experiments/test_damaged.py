"""Damaged records are named and made again."""

import io
import json
import time
import zipfile

import numpy as np
import pytest

from gemax.experiments.damaged import is_readable
from gemax.experiments.explore import records as explore_records
from gemax.experiments.records import CURVES, GENERATION, is_record_of
from gemax.experiments.report import _provenance_text
from gemax.training.config import Config
from gemax.view.library import Library


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def whole_record():
    texts = {"config": json.dumps(Config().to_json()).encode(), "summary": b"{}"}
    arrays = {name: np.frombuffer(text, np.uint8) for name, text in texts.items()}
    curves = {f"curve_{name}": np.zeros(3) for name in CURVES}
    return npz(visits=np.zeros(3), generation=np.asarray(GENERATION), **arrays, **curves)


def archive_of(**members):
    """An archive of the present generation, with members as they are given."""
    buffer = io.BytesIO(npz(generation=np.asarray(GENERATION)))
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def huge_array():
    """A small file whose array claims 93 GiB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (25_000_000_000,)}
    )
    return archive_of(**{"config.npy": header.getvalue()})


def bomb():
    """An archive that unpacks to more than a record can have."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(300):
            archive.writestr(f"{number}.npy", bytes(2**20))
    return buffer.getvalue()


def many_members(number=200_000):
    """An archive with more members than any record. Its directory alone is larger than a record."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(whole_member := "a.npy", b"")
        information = archive.getinfo(whole_member)
        archive.filelist.extend([information] * number)
    return buffer.getvalue()


def escaping_member():
    """An archive whose member would leave the folder if it was extracted."""
    return archive_of(**{"../../evil.npy": bytes(100)})


def pickled():
    """An array of objects, which NumPy would unpickle."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([Exploding()], object), allow_pickle=True)
    return archive_of(**{"config.npy": buffer.getvalue()})


class Exploding:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


CONTENTS = {
    "empty": lambda: b"",
    "cut": lambda: whole_record()[:-200],
    "foreign": lambda: npz(a=np.zeros(3), generation=np.asarray(GENERATION)),
    "text": lambda: b"not a record\n",
    "93 GiB": huge_array,
    "bomb": bomb,
    "many members": many_members,
    "member outside": escaping_member,
    "pickled": pickled,
}


@pytest.mark.fault(53)
@pytest.mark.fault(34)
@pytest.mark.parametrize("name", CONTENTS)
def test_a_damaged_record_is_named_and_does_not_count(name, tmp_path):
    path = tmp_path / "record.npz"
    path.write_bytes(CONTENTS[name]())
    with pytest.warns(UserWarning, match=r"record\.npz is not a readable record .* Its run is made again"):
        assert not is_readable(path, lambda path: is_record_of(path, Config()))
    assert list(tmp_path.parent.glob("**/evil*")) == []


@pytest.mark.fault(53)
@pytest.mark.slow_fault
def test_a_folder_of_100_000_files_is_searched_in_seconds(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    for number in range(100_000):
        (folder / f"foreign-{number}").touch()
    started = time.process_time()
    assert _provenance_text([{"cores": 1, "machine": "x", "gemax": "0", "jax": "0"}], tmp_path)
    assert Library(tmp_path).index()["runs"] == []
    assert time.process_time() - started < 10.0


@pytest.mark.fault(53)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"config": 3}', b"[" * 100_000])
def test_a_damaged_record_of_the_bench_is_named_and_does_not_count(content, tmp_path):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="is not a readable record"):
        assert not is_readable(path, lambda path: explore_records.is_record_of(path, Config()))


def test_a_missing_record_is_not_damaged(tmp_path):
    assert not is_readable(tmp_path / "record.npz", lambda path: True)
