"""Damaged records are named and made again."""

import io
import json
import zipfile

import numpy as np
import pytest

from gemax.experiments.damaged import is_readable
from gemax.experiments.explore import records as explore_records
from gemax.experiments.records import CURVES, GENERATION, is_record_of
from gemax.training.config import Config


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def whole_record():
    texts = {"config": json.dumps(Config().to_json()).encode(), "summary": b"{}"}
    arrays = {name: np.frombuffer(text, np.uint8) for name, text in texts.items()}
    curves = {f"curve_{name}": np.zeros(3) for name in CURVES}
    return npz(visits=np.zeros(3), generation=np.asarray(GENERATION), **arrays, **curves)


def huge_array():
    """A small file whose array claims 93 GiB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (25_000_000_000,)}
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("config.npy", header.getvalue())
    return buffer.getvalue()


def bomb():
    """An archive that unpacks to more than a record can have."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(300):
            archive.writestr(f"{number}.npy", bytes(2**20))
    return buffer.getvalue()


CONTENTS = {
    "empty": lambda: b"",
    "cut": lambda: whole_record()[:-200],
    "foreign": lambda: npz(a=np.zeros(3), generation=np.asarray(GENERATION)),
    "text": lambda: b"not a record\n",
    "93 GiB": huge_array,
    "bomb": bomb,
}


@pytest.mark.fault(53)
@pytest.mark.fault(34)
@pytest.mark.parametrize("name", CONTENTS)
def test_a_damaged_record_is_named_and_does_not_count(name, tmp_path):
    path = tmp_path / "record.npz"
    path.write_bytes(CONTENTS[name]())
    with pytest.warns(UserWarning, match=r"record\.npz is not a readable record .* Its run is made again"):
        assert not is_readable(path, lambda path: is_record_of(path, Config()))


@pytest.mark.fault(53)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"config": 3}', b"[" * 100_000])
def test_a_damaged_record_of_the_bench_is_named_and_does_not_count(content, tmp_path):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="is not a readable record"):
        assert not is_readable(path, lambda path: explore_records.is_record_of(path, Config()))


def test_a_missing_record_is_not_damaged(tmp_path):
    assert not is_readable(tmp_path / "record.npz", lambda path: True)
