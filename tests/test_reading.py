"""JSON and npz files from elsewhere: bounded, and every damage a sentence."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from oryx_marl import limits, reading, texts
from oryx_marl.limits import LimitError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested more than 100"),
        ("[" * 150 + "]" * 150, "nested more than 100"),
        ('{"a":' * 150 + "1" + "}" * 150, "nested more than 100"),
        ('{"a": 1, "a": 2}', "'a' is there twice"),
        ("{", "Expecting property name"),
        ("", "Expecting value"),
        (b"\xff\xfe", "codec can't decode"),
        ('{"a": "\\ud800"}', "surrogates not allowed"),
        ("1" * 5_000, "limit"),
    ],
)
def test_json_that_is_wrong(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reading.parse_json(text)


def test_json_that_is_right(tmp_path: Path) -> None:
    value = {"a": [[1, 2.5, None]] * 200, "b": "ü", "c": float("inf")}
    (tmp_path / "a.json").write_text(json.dumps(value), encoding="utf-8-sig")
    assert reading.read_json(tmp_path / "a.json") == value
    assert reading.parse_json('{"a": 1, "a": 2}', is_strict=False) == {"a": 2}


def test_json_that_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JSON_BYTES", 10)
    (tmp_path / "a.json").write_text(json.dumps("x" * 20))
    with pytest.raises(LimitError, match=r"a\.json has 22 bytes, more than the 10"):
        reading.read_json(tmp_path / "a.json")
    monkeypatch.setenv(limits.VARIABLE, "1")
    assert reading.read_json(tmp_path / "a.json") == "x" * 20


def write_npz(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def npy(shape: tuple[int, ...], dtype: str, content: bytes = b"") -> bytes:
    """An npy file with that header, whatever follows it."""
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.npy": npy((10**12,), "<f4")}, "a: it claims 4,000,000,000,000 bytes, but has 0"),
        ({"a.npy": npy((), "<U100000000")}, "claims 400,000,000 bytes"),
        ({"a.npy": npy((-1, -4), "<f4", bytes(16))}, "its shape is"),
        ({"a.npy": npy((1,), "|O", bytes(8))}, "never loaded"),
        ({"a.npy": npy((2,), "<f4", bytes(12))}, "claims 8 bytes, but has 12"),
        ({"a.npy": b"\x93NUMPY\x01\x00" + b"\xff" * 50}, "a: "),
        ({"a.npy": b""}, "a: "),
    ],
)
def test_npz_that_is_wrong(members: dict[str, bytes], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        reading.load_npz(write_npz(tmp_path / "a.npz", members))


def test_npz_that_unpacks_to_far_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.zeros(10**6, np.int8), b=np.arange(3))
    assert path.stat().st_size < 2_000
    np.testing.assert_array_equal(reading.load_npz(path)["b"], [0, 1, 2])
    monkeypatch.setattr(limits, "LEAST_BYTES", 10_000)
    with pytest.raises(LimitError, match=r"a\.npz claims 1,000,\d+ bytes, but only"):
        reading.load_npz(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="not a zip"):
        reading.load_npz(path)


def test_texts_for_terminals() -> None:
    assert texts.plain("ü\t[/b]\n") == "ü\t[/b]\n"
    assert texts.plain("\x1b[31m\0\r\x9b\u202e\udc80") == r"\x1b[31m\x00\r\x9b\u202e\udc80"
    assert texts.first_line(MemoryError()).startswith("there is not enough memory")
    assert texts.first_line(KeyError("a")) == "the entry 'a' is missing"
    assert texts.shorten("a" * 300) == "a" * 200 + "..."
