"""Archives from strangers: unpacked into one new folder, or refused and nothing is left.

Refused are paths that lead outside, links and everything else that is no plain file or folder,
names that occur twice, encrypted members, and more bytes than were announced or allowed.
"""

import gzip
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, NamedTuple

from oryx_marl.errors import OryxError

MOST_MEMBERS = 500_000
LEAST_ALLOWED = 2**30
"""Bytes that any archive may unpack to; beyond, it depends on its own size."""
MOST_TIMES = 200
"""Times its own size that an archive may unpack to."""
PIECE = 2**20

READ_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    gzip.BadGzipFile,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    ValueError,
    FileExistsError,  # a file where another entry needs a folder
    NotADirectoryError,
)
"""What broken archives make the readers raise."""


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
    except READ_ERRORS as error:
        shutil.rmtree(folder, ignore_errors=True)
        what = str(error).splitlines()[:1]
        raise OryxError(
            f"{archive} is damaged: {what[0] if what else type(error).__name__}. "
            "Delete it and download it again"
        ) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _members(archive: Path) -> Iterator[list[Member]]:
    """The entries of an archive, which is open meanwhile."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            if len(file.infolist()) > MOST_MEMBERS:
                raise _refused(archive, f"it has more than {MOST_MEMBERS:,} entries")
            yield [_from_zip(archive, file, info) for info in file.infolist()]
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            yield [_from_tar(tar, info) for info in _limited(archive, tar)]
    else:
        raise zipfile.BadZipFile("it is neither a zip nor a tar archive")


def _limited(archive: Path, tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The entries of a tar archive, which are found one by one."""
    allowed = _allowed(archive)
    total = 0
    for number, info in enumerate(tar):
        total += info.size
        if number >= MOST_MEMBERS or total > allowed:
            raise _refused(archive, f"it unpacks to more than {allowed:,} bytes or too many files")
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
        parts = _safe_parts(member.name)
        if parts is None:
            raise _refused(archive, f"'{member.name}' leads outside of its folder")
        if member.kind == "other":
            raise _refused(archive, f"'{member.name}' is a link or no plain file")
        place = "/".join(parts).casefold()
        if member.kind == "file" and place in seen:
            raise _refused(archive, f"'{member.name}' occurs twice")
        seen.add(place)
        targets[member] = folder.joinpath(*parts)
    total, allowed = sum(member.size for member in members), _allowed(archive)
    if total > allowed:
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
    return max(LEAST_ALLOWED, MOST_TIMES * archive.stat().st_size)


def _existing(folder: Path) -> Path:
    """The nearest folder above that is there."""
    return next(place for place in (folder, *folder.absolute().parents) if place.exists())


def _refused(archive: Path, why: str) -> OryxError:
    return OryxError(
        f"{archive} is refused: {why}. An archive of a dataset has no such entry; "
        "nothing was unpacked"
    )
