"""Archives from strangers: unpacked into one new folder, or refused and nothing is left.

Refused are paths that lead outside, links and everything else that is no plain file or folder,
names that occur twice, encrypted members, headers and folders without end, and more bytes than were
announced or allowed.
"""

import bz2
import errno
import gzip
import io
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, NamedTuple

from oryx_marl import limits, texts
from oryx_marl.errors import OryxError

LEAST_ALLOWED = 2**30
"""Bytes that any archive may unpack to; beyond, it depends on its own size."""
PIECE = 2**20
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors that say nothing about the archive."""
LONG_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
"""Kinds of tar entries that are read into memory whole, since they tell about the next one."""


class Member(NamedTuple):
    """One entry of an archive."""

    name: str
    size: int
    """Bytes that are announced."""
    kind: Literal["file", "folder", "other"]
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a zip or tar archive into a folder that is not there yet."""
    try:
        with _members(archive) as members:
            targets = _check(archive, members, folder)
            folder.mkdir(parents=True)
            for member, target in targets.items():
                _write(member, target)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        is_told = isinstance(error, OryxError) or not isinstance(error, Exception)
        if is_told or (isinstance(error, OSError) and error.errno in OF_THE_DISK):
            raise
        # Broken archives make the readers raise nearly anything.
        raise OryxError(
            f"{archive} is damaged: {texts.first_line(error)}. Delete it and download it again"
        ) from error


@contextmanager
def _members(archive: Path) -> Iterator[list[Member]]:
    """The entries of an archive, which is open meanwhile."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            limits.require(str(archive), len(file.infolist()), limits.MEMBERS, "entries")
            yield [_from_zip(archive, file, info) for info in file.infolist()]
        return
    with _unpacked(archive) as stream:
        bounded: Any = _Bounded(stream, archive)
        try:
            tar = tarfile.TarFile(fileobj=bounded, tarinfo=_TarInfo)
        except tarfile.ReadError as error:
            raise ValueError("it is neither a zip nor a tar archive") from error
        with tar:
            yield [_from_tar(tar, info) for info in _limited(archive, tar)]


@contextmanager
def _unpacked(archive: Path) -> Iterator[IO[bytes]]:
    """The bytes of a tar archive, which may be compressed by gzip or bzip2."""
    with archive.open("rb") as raw:
        start = raw.read(3)
        raw.seek(0)
        if start[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=raw) as stream:
                yield stream  # type: ignore[misc]  # it is as good as IO[bytes]
        elif start == b"BZh":
            with bz2.BZ2File(raw) as stream:
                yield stream
        else:
            yield raw


class _Bounded(io.RawIOBase):
    """A stream that ends with an error where an archive unpacks to more than it may."""

    def __init__(self, stream: Any, archive: Path) -> None:
        self._stream, self._archive = stream, archive
        # Headers and padding come on top of the files.
        self._most = 2 * _allowed(archive)

    def read(self, size: int = -1) -> bytes:
        if size < 0 or self._stream.tell() + size > self._most:
            raise _refused(self._archive, f"it unpacks to more than {self._most:,} bytes")
        return self._stream.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        if place > self._most or whence:
            raise _refused(self._archive, f"it unpacks to more than {self._most:,} bytes")
        return self._stream.seek(place)

    def tell(self) -> int:
        return self._stream.tell()


class _TarInfo(tarfile.TarInfo):
    """An entry whose long headers are refused before they are read; tarfile takes any size."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in LONG_HEADERS:
            limits.require("a header of the archive", self.size, limits.HEADER_BYTES)
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise ValueError("it has a sparse file, which is not read")
        return super()._proc_member(tar)  # type: ignore[misc]


def _limited(archive: Path, tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The entries of a tar archive, which are found one by one."""
    allowed = _allowed(archive)
    total = 0
    for number, info in enumerate(tar):
        total += info.size
        limits.require(str(archive), number + 1, limits.MEMBERS, "entries")
        if (total > allowed and not limits.are_lifted()) or info.size < 0:
            raise _refused(archive, f"it unpacks to more than {allowed:,} bytes")
        info.pax_headers = {}  # or each would hold a copy of all that the archive has in common
        yield info


def _from_zip(archive: Path, file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    if info.flag_bits & 1:
        raise _refused(archive, f"'{info.filename}' is encrypted")
    mode = stat.S_IFMT(info.external_attr >> 16)
    is_plain = mode in (0, stat.S_IFREG, stat.S_IFDIR)
    kind: Literal["file", "folder", "other"] = "file" if is_plain else "other"
    if is_plain and info.filename.endswith("/"):
        kind = "folder"
    return Member(info.orig_filename, info.file_size, kind, lambda: file.open(info))


def _from_tar(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    kind: Literal["file", "folder", "other"] = "file" if info.isreg() else "other"
    if info.isdir():
        kind = "folder"

    def open_() -> Any:  # not quite IO[bytes]: it has no mode
        stream = tar.extractfile(info)
        assert stream is not None
        return stream

    return Member(info.name, info.size, kind, open_)


def _check(archive: Path, members: list[Member], folder: Path) -> dict[Member, Path]:
    """Where each entry goes; raises before anything is written if one may not."""
    targets: dict[Member, Path] = {}
    seen: set[str] = set()
    for member in members:
        parts, name = _safe_parts(member.name), texts.shorten(member.name)
        if parts is None:
            raise _refused(archive, f"'{name}' leads outside of its folder")
        limits.require(f"'{name}'", len(parts), limits.MEMBER_DEPTH, "folders within each other")
        if member.kind == "other":
            raise _refused(archive, f"'{name}' is a link or no plain file")
        place = "/".join(parts).casefold()
        if member.kind == "file" and place in seen:
            raise _refused(archive, f"'{name}' occurs twice")
        seen.add(place)
        targets[member] = folder.joinpath(*parts)
    total, allowed = sum(member.size for member in members), _allowed(archive)
    if total > allowed and not limits.are_lifted():
        raise _refused(archive, f"it unpacks to {total:,} bytes, more than {allowed:,}")
    free = shutil.disk_usage(_existing(folder)).free
    if total > free:
        raise OryxError(
            f"{archive} unpacks to {total:,} bytes, but the disk of {folder} has {free:,} free"
        )
    return targets


def _safe_parts(name: str) -> tuple[str, ...] | None:
    """The parts of a path that stays inside; None for all others."""
    is_odd = any(letter in '\\:*?"<>|' or letter < " " for letter in name)
    path = PurePosixPath(name)
    if is_odd or path.is_absolute() or not path.parts or ".." in path.parts:
        return None
    return path.parts


def _write(member: Member, target: Path) -> None:
    """One entry; never over another."""
    if member.kind == "folder":
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.size
    with member.open() as stream, target.open("xb") as file:
        while piece := stream.read(PIECE):
            left -= len(piece)
            if left < 0:
                raise ValueError(f"'{member.name}' is longer than announced")
            file.write(piece)
    if left:
        raise ValueError(f"'{member.name}' is shorter than announced")


def _allowed(archive: Path) -> int:
    return max(LEAST_ALLOWED, limits.MOST_TIMES * archive.stat().st_size)


def _existing(folder: Path) -> Path:
    """The nearest folder above that is there."""
    return next(place for place in (folder, *folder.absolute().parents) if place.exists())


def _refused(archive: Path, why: str) -> OryxError:
    return OryxError(
        f"{archive} is refused: {why}. An archive of a dataset has no such entry; "
        "nothing was unpacked"
    )
