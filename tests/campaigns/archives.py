"""Archives and servers of strangers: a sentence, nothing left behind, and the next try works."""

import gzip
import io
import os
import random
import shutil
import socket
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from foreign_files import PUBLISHED, build_tree, write_as_flashbax
from tests.campaigns.lab import BAD, Campaign, Child, Outcome, fork, run

from oryx_marl.data.hub import fetch
from oryx_marl.data.hub.download import RECORDS, download

NAME = "omar-mpe-simple_tag"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOOD = "simple_tag.vlt/Good"
Files = dict[str, bytes]
SENTINEL = "outside"
"""What traversals try to write."""
MOST_DAMAGED = 60
HEADER_BYTES = 300 * 2**20


def campaign(found: Campaign) -> None:
    """Hostile archives, damaged ones, odd answers of a server; `count` is the most of each."""
    files = _honest(found)
    zipped = _zip(files)
    for name, make in _choose(found, _archives(files)):
        _bring(found, name, make, zipped)
    for number in range(min(found.count, MOST_DAMAGED)):
        if found.wants("damaged") and not found.is_over():
            content = _damage(zipped, found.random(number))
            _bring(found, f"damaged {number}", lambda c=content: c, zipped, refused=False)
    for name, answer in _choose(found, _answers(zipped)):
        _serve(found, name, answer, zipped)


def _choose(found: Campaign, named: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Those that are wanted, or as many of them as there is to be."""
    names = [name for name in named if found.wants(name)]
    if len(names) > found.count:
        small = [name for name in names if "bomb" not in name]
        names = found.random("choice", names[0]).sample(small, found.count)
    for name in names:
        if not found.is_over():
            yield name, named[name]


def _honest(found: Campaign) -> Files:
    """The files of an archive that is what it should be."""
    home, log = found.folder / "honest", found.folder / "log"
    card = next(each for each in PUBLISHED if each["scenario"] == "simple_tag")
    made = run(lambda: str(write_as_flashbax(build_tree(card, 0), home / GOOD)), log)
    assert made.kind == "ok", made
    paths = [path for path in sorted(home.rglob("*")) if path.is_file()]
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in paths}


def _zip(files: Files, modes: dict[str, int] | None = None) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (modes or {}).get(name, stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content)
    return stream.getvalue()


def _tar(files: Files, odd: list[tarfile.TarInfo] | None = None) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in odd or []:
            archive.addfile(info)
    return stream.getvalue()


def _special(kind: bytes, name: str = "simple_tag.vlt/x", link: str = "/etc/passwd") -> Any:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def _archives(files: Files) -> dict[str, Callable[[], bytes]]:
    """All of them must be refused."""
    outside = {**files, f"../{SENTINEL}": b"x"}
    deep = "/".join(["d"] * 1_500) + "/x"
    kinds = {
        "symbolic link": tarfile.SYMTYPE,
        "hard link": tarfile.LNKTYPE,
        "device": tarfile.CHRTYPE,
        "pipe": tarfile.FIFOTYPE,
    }
    made: dict[str, Callable[[], bytes]] = {
        "zip: leads outside": lambda: _zip(outside),
        "tar: leads outside": lambda: _tar(outside),
        "zip: absolute": lambda: _zip({**files, f"/tmp/{SENTINEL}": b"x"}),
        "zip: backslash": lambda: _zip({**files, f"..\\{SENTINEL}": b"x"}),
        "zip: nested deep": lambda: _zip({**files, deep: b"x"}),
        "tar: nested deep": lambda: _tar({**files, deep: b"x"}),
        "zip: long name": lambda: _zip({**files, "n" * 300: b"x"}),
        "tar: long name": lambda: _tar({**files, "n" * 5_000: b"x"}),
        "zip: symbolic link": lambda: _zip({**files, "l": b"/etc"}, {"l": stat.S_IFLNK | 0o777}),
        "zip: no vault": lambda: _zip({"a/b": b"x"}),
        "zip: empty": lambda: _zip({}),
        "zip: bomb": lambda: _zip({**files, "simple_tag.vlt/b": bytes(1_200 * 2**20)}),
        "zip: junk": lambda: b"junk" * 100 + _zip(files)[:-30],
        "zip: header alone": lambda: b"PK\x05\x06" + bytes(18),
        "zip: counts lie": lambda: _zip(files)[:-12] + struct.pack("<IIHH", 2**31, 2**31, 9, 9),
        "zip: name with escapes": lambda: _zip({**files, "a\x1b[2Jb": b"x"}),
        "zip: markup as a name": lambda: _zip({"[/b].vlt/[red]/metadata.json": b"{}"}),
        "zip: vault is no vault": lambda: _zip({f"{GOOD}/metadata.json": b"[" * 100_000}),
        "zip: metadata is not UTF-8": lambda: _zip({f"{GOOD}/metadata.json": b"\xff\xfe"}),
        "zip: file and folder": lambda: _zip({"a": b"x", "a/b": b"y", **files}),
        "tar: PAX bomb": _pax_bomb,
        "tar: sizes lie": lambda: gzip.compress(_lying_tar()),
        "gzip: cut": lambda: _tar(files)[:100],
        "nothing": lambda: b"",
        "text": lambda: b"<html>not found</html>",
    }
    for name, kind in kinds.items():
        made[f"tar: {name}"] = lambda k=kind: _tar(files, [_special(k)])
    return made


def _pax_bomb() -> bytes:
    """One header that is far larger than the archive, which gzip makes small."""
    size = HEADER_BYTES
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, size
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as file:
        file.write(header.tobuf())
        record = f"{size} comment=".encode()
        file.write(record)
        left = size - len(record) - 1
        while left:
            piece = min(left, 2**20)
            file.write(b"a" * piece)
            left -= piece
        file.write(b"\n" + bytes(-size % 512) + bytes(1024))
    return stream.getvalue()


def _lying_tar() -> bytes:
    info = tarfile.TarInfo("simple_tag.vlt/Good/metadata.json")
    info.size = 2**33
    return info.tobuf() + b"{}"


def _damage(content: bytes, seed: random.Random) -> bytes:
    from tests.campaigns import mutations

    return mutations.mutate(content, False, seed)[1]


def _bring(
    found: Campaign, name: str, make: Callable[[], bytes], honest: bytes, refused: bool = True
) -> None:
    """An archive that someone brought, then the honest one."""
    root, log = found.folder / "root", found.folder / "log"
    shutil.rmtree(root, ignore_errors=True)
    file, good = found.folder / "archive", found.folder / "good.zip"
    file.write_bytes(make())
    good.write_bytes(honest)
    child = fork(lambda send: _download(root, file), log)
    if _judge(found, name, child, root, refused).kind == "ok":
        return  # then its hash is written down, and another archive is refused
    after = run(lambda: _download(root, good), log)
    if after.kind != "ok":
        found.fail("the next try fails", name=name, told=after.value)


def _download(root: Path, file: Path | None) -> list[str]:
    fetch.PAUSE = 0.0
    return [str(folder) for folder in download(NAME, root, archive_file=file).folders]


def _judge(found: Campaign, name: str, child: Child, root: Path, refused: bool) -> Outcome:
    """A sentence, and nothing left behind."""
    outcome = child.wait()
    found.counts["tried"] += 1
    is_right = found.judge(outcome, name=name)
    if outcome.kind == "ok" and refused:
        found.fail("not refused", name=name)
    if outcome.kind == "refused" and not str(outcome.value).strip():
        found.fail("refused without a word", name=name)
    left = [str(path.relative_to(root)) for path in _all(root) if path.is_file()]
    harmless = (RECORDS, ".zip.partial", ".zip.partial.json")
    left = [path for path in left if not path.endswith(harmless)]
    if is_right and outcome.kind == "refused" and left:
        found.fail("left behind", name=name, left=left[:5])
    for place in (root.parent / SENTINEL, root / SENTINEL, Path("/tmp") / SENTINEL):
        if place.exists():
            place.unlink()
            found.fail("written outside", name=name, place=str(place))
    return outcome


def _all(root: Path) -> Iterator[Path]:
    """Everything below, however deep."""
    for parent, folders, files in os.walk(root):
        yield from (Path(parent) / each for each in (*folders, *files))


Answer = bytes | Callable[[str], bytes]


def _answers(content: bytes) -> dict[str, Answer]:
    """Answers of a server that are not what HTTP prescribes, or not what was announced."""
    size = len(content)

    def ok(*lines: str, body: bytes = content) -> bytes:
        return _http("200 OK", *lines, body=body)

    return {
        "http: length is no number": ok("Content-Length: many"),
        "http: length is negative": ok("Content-Length: -5"),
        "http: length is huge": ok(f"Content-Length: {10**30}"),
        "http: two lengths": ok(f"Content-Length: {size}", "Content-Length: 3"),
        "http: too short": ok(f"Content-Length: {size + 1000}"),
        "http: chunks of junk": ok("Transfer-Encoding: chunked", body=b"zz\r\n\x00\xff"),
        "http: huge chunk": ok("Transfer-Encoding: chunked", body=b"fffffffffffffff\r\nabc"),
        "http: long header": ok(f"X-A: {'a' * 200_000}", f"Content-Length: {size}"),
        "http: many headers": ok(*(f"X-{i}: a" for i in range(5_000))),
        "http: odd letters": _http("200 OK", "X-Linked-Etag: \xe4\xff\x00", body=content),
        "http: etag of junk": ok(f"ETag: {'x' * 5000}", f"Content-Length: {size}", body=b"junk"),
        "http: commit leads outside": ok("X-Repo-Commit: ../../x", f"Content-Length: {size}"),
        "http: commit with escapes": ok(
            "X-Repo-Commit: \x1b[31m", "Content-Length: 3", body=b"abc"
        ),
        "http: redirects forever": _http("302 Found", "Location: /again", body=b""),
        "http: redirect to a file": _http("302 Found", "Location: file:///etc/passwd", body=b""),
        "http: redirect to nothing": _http("302 Found", "Location: http://[", body=b""),
        "http: redirect without a place": _http("302 Found", body=b""),
        "http: partial content unasked": _http(
            "206 Partial", f"Content-Range: bytes 5-9/{size}", "Content-Length: 5", body=b"abcde"
        ),
        "http: odd range": _http(
            "206 Partial", "Content-Range: bytes a-b/c", "Content-Length: 5", body=b"abcde"
        ),
        "http: status of letters": _http("abc OK", body=b""),
        "http: status 999": _http("999 Odd", "Content-Length: 0", body=b""),
        "http: nothing": b"",
        "http: no HTTP": b"\x00\x01\x02\x03" * 100,
        "http: sha differs": ok(f'X-Linked-Etag: "{"0" * 64}"', f"Content-Length: {size}"),
    }


def _http(status: str, *lines: str, body: bytes) -> bytes:
    head = "\r\n".join((f"HTTP/1.1 {status}", *lines, "Connection: close"))
    return head.encode("latin-1") + b"\r\n\r\n" + body


def _serve(found: Campaign, name: str, answer: Answer, honest: bytes) -> None:
    """An odd answer, then an honest one."""
    root, log = found.folder / "root", found.folder / "log"
    shutil.rmtree(root, ignore_errors=True)
    child = _ask(found, answer, root)
    _judge(found, name, child, root, refused=False)
    good = _http("200 OK", f"Content-Length: {len(honest)}", body=honest)
    after = _ask(found, good, root).wait()
    known = ("is there already", "is not the one it was")
    if after.kind != "ok" and not any(words in str(after.value) for words in known):
        kind = after.kind if after.kind in BAD else "the next try fails"
        found.fail(kind, name=f"honest after {name}", told=after.value, log=log.name)


def _ask(found: Campaign, answer: Answer, root: Path) -> Child:
    """Downloads from a server that gives one answer to everything; the server ends with it."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = fork(lambda send: _answer_all(listener, answer), found.folder / "server.log")
    listener.close()

    def work(send: Any) -> list[str]:
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            os.environ.pop(name, None)
        os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{port}"
        return _download(root, None)

    child = fork(work, found.folder / "log")
    child.wait()
    server.kill()
    server.wait()
    return child


def _answer_all(listener: socket.socket, answer: Answer) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(2**16)
            try:
                connection.sendall(answer if isinstance(answer, bytes) else answer(""))
            except OSError:
                continue
