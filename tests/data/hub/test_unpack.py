"""Honest archives arrive whole; broken and malicious ones leave nothing behind."""

import io
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from oryx_marl.data.hub import unpack as unpacking
from oryx_marl.data.hub.unpack import unpack
from oryx_marl.errors import OryxError

FILES = {"3m.vlt/Good/metadata.json": b"{}", "3m.vlt/Good/d/0": bytes(range(256)) * 50}


def make_zip(path: Path, files: dict[str, bytes], modes: dict[str, int] | None = None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (modes or {}).get(name, stat.S_IFREG | 0o644) << 16
            file.writestr(info, content)
    return path


def make_tar(path: Path, files: dict[str, bytes], links: dict[str, bytes] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
        for name, kind in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            file.addfile(info)
    return path


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_honest_archives(make, tmp_path):
    unpack(make(tmp_path / "a", FILES), tmp_path / "out")
    assert read_files(tmp_path / "out") == FILES


def read_files(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def everything(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


OUTSIDE = [
    "../outside",
    "a/../../outside",
    "/tmp/outside",
    "a\\..\\..\\outside",
    "C:/outside",
    "..",
    "a/b\x01c",
    ".",
]


@pytest.mark.parametrize(
    ("make", "name"),
    [(make_zip, ""), *((make, name) for make in (make_zip, make_tar) for name in OUTSIDE)],
)
def test_no_path_leads_outside(make, name, tmp_path):
    archive = make(tmp_path / "a", {**FILES, name: b"x"})
    before = everything(tmp_path.parent)
    with pytest.raises(OryxError, match=r"leads outside of its folder.*nothing was unpacked"):
        unpack(archive, tmp_path / "out")
    assert everything(tmp_path.parent) == before


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_no_links_or_devices_in_zip(mode, tmp_path):
    archive = make_zip(tmp_path / "a", {**FILES, "link": b"/etc/passwd"}, {"link": mode | 0o777})
    with pytest.raises(OryxError, match="'link' is a link or no plain file"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, b"3"])
def test_no_links_or_devices_in_tar(kind, tmp_path):
    archive = make_tar(tmp_path / "a", FILES, {"link": kind})
    with pytest.raises(OryxError, match="'link' is a link or no plain file"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_occur_once(tmp_path):
    archive = make_tar(tmp_path / "a", {"a/b": b"1", "A/B": b"2"})
    with pytest.raises(OryxError, match="'A/B' occurs twice"):
        unpack(archive, tmp_path / "out")


def test_a_file_is_no_folder(tmp_path):
    archive = make_tar(tmp_path / "a", {"a": b"1", "a/b": b"2"})
    with pytest.raises(OryxError, match="is damaged"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_bombs_are_refused(make, tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "LEAST_ALLOWED", 1000)
    archive = make(tmp_path / "a", {"zeros": bytes(10**6)})
    assert archive.stat().st_size < 2000
    with pytest.raises(OryxError, match=r"unpacks to"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_many_entries_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("oryx_marl.limits.MEMBERS", 3)
    many = {str(number): b"" for number in range(4)}
    for make in (make_zip, make_tar):
        with pytest.raises(OryxError, match="has 4 entries, more than the 3"):
            unpack(make(tmp_path / "a", many), tmp_path / "out")


def test_long_headers_are_not_read(tmp_path):
    """One of 1.5 MB took 1.6 GB."""
    archive = tmp_path / "a"
    for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME):
        with tarfile.open(archive, "w:gz") as file:
            info = tarfile.TarInfo("header")
            info.type, info.size = kind, 10**8
            file.addfile(info, io.BytesIO(bytes(10**8)))
        tracemalloc.start()
        with pytest.raises(OryxError, match="a header of the archive has 100,000,000 bytes"):
            unpack(archive, tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 10**7
        tracemalloc.stop()
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.parametrize("depth", [100, 1_500])
def test_deep_folders_are_refused(make, depth, tmp_path):
    """1,500 ended in a traceback, and could not be removed."""
    archive = make(tmp_path / "a", {"x/" * depth + "y": b"", "z": b"1"})
    with pytest.raises(OryxError, match="folders within each other"):
        unpack(archive, tmp_path / "out")
    assert everything(tmp_path) == {str(archive)}


def test_junk_is_told(tmp_path):
    honest = make_zip(tmp_path / "b", FILES).read_bytes()
    junk = [b"", b"PK", b"PK\x05\x06" + b"\xff" * 18, honest[-22:], b"junk" * 99 + honest[-40:]]
    junk += [honest[: len(honest) // 2], b"\x1f\x8b" + bytes(99), b"BZh9" + bytes(99), bytes(10240)]
    for content in junk:
        (tmp_path / "a").write_bytes(content)
        try:
            unpack(tmp_path / "a", tmp_path / "out")
        except OryxError:
            assert not (tmp_path / "out").exists()
        else:  # nothing is in it
            assert everything(tmp_path / "out") == set()
            (tmp_path / "out").rmdir()


def test_more_bytes_than_announced(tmp_path):
    archive = make_zip(tmp_path / "a", {"x": bytes(5000)})
    content = bytearray(archive.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.index(signature) + offset
        content[start : start + 4] = struct.pack("<I", 10)
    archive.write_bytes(content)
    with pytest.raises(OryxError, match="is damaged"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_encrypted_members_are_refused(tmp_path):
    archive = make_zip(tmp_path / "a", {"x": b"content"})
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    with pytest.raises(OryxError, match="is encrypted"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_every_damage_is_told_or_harmless(make, tmp_path):
    """Cut anywhere or with any byte flipped: an OryxError and nothing left, or the same files.

    (A tar archive has no hashes of its own, so there only what is left behind is looked at.)
    """
    files = {**FILES, "3m.vlt/Good/d/1": b"z" * 300}
    whole = make(tmp_path / "a", files).read_bytes()
    damaged = [whole[:length] for length in range(0, len(whole), 37)]
    for place in range(0, len(whole), 11):
        flipped = bytearray(whole)
        flipped[place] ^= 0x41
        damaged.append(bytes(flipped))
    told = 0
    for number, content in enumerate(damaged):
        out = tmp_path / f"out{number}"
        (tmp_path / "b").write_bytes(content)
        try:
            unpack(tmp_path / "b", out)
        except OryxError:
            told += 1
            assert not out.exists()
        else:
            assert make is make_tar or read_files(out) == files
    assert told > len(damaged) / 3
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith("out")} == {
        "a",
        "b",
    }
