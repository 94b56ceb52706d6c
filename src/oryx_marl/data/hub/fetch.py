"""A file over HTTP: continued where it was broken off, compared with what the server says of it."""

import hashlib
import http.client
import json
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import IO, Any, NamedTuple

import oryx_marl
from oryx_marl import reading, texts
from oryx_marl.errors import OryxError

TIMEOUT = 30.0
PIECE = 2**18
ATTEMPTS = 5
"""Times a broken connection is tried again without a single new byte."""
PAUSE = 1.0
"""Seconds before that."""
LOST = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)
"""What a connection that fails raises."""

Watch = Callable[[int, int | None], None]
"""Told the bytes that are here, and the bytes there will be if known."""


class Advice(NamedTuple):
    """What to do where a server cannot be read; `{url}` stands for the address."""

    unreachable: str
    lost: str


OF_HUB = Advice(
    "Is there a network, and is a proxy needed ($https_proxy)? A mirror can be named in "
    "$HF_ENDPOINT; or fetch {url} on another machine and give the file with --archive",
    "what is here is kept, the same command continues it",
)


class Fetched(NamedTuple):
    """A complete file."""

    path: Path
    revision: str | None
    """Commit of the repository it comes from, if the server says so."""
    sha256: str
    size: int


class _State(NamedTuple):
    """What is kept beside a file that is not complete."""

    url: str
    revision: str | None = None
    etag: str | None = None
    sha256: str | None = None
    """What the server announces."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Keeps the headers of all answers on the way; never leads from https to something else."""

    def __init__(self) -> None:
        self.seen: list[Message] = []

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        allowed = ("https:",) if req.full_url.startswith("https:") else ("http:", "https:")
        if not newurl.startswith(allowed):
            raise OryxError(
                f"{req.full_url} leads to {newurl}, which is not safe; nothing was read"
            )
        self.seen.append(headers)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(
    url_of: Callable[[str], str],
    revision: str,
    target: Path,
    watch: Watch = lambda *_: None,
    most: int | None = None,
    advice: Advice = OF_HUB,
) -> Fetched:
    """Downloads a file of a hub's repository, or of any server, to `target`.

    What is there of it from before, in `<target>.partial`, is continued if it is of the same
    revision.

    Args:
        url_of: its address at a revision.
        most: bytes after which a download is refused; None for as many as the server announces.
        advice: what to do where the server cannot be reached, or the connection is lost.
    """
    partial = target.with_name(f"{target.name}.partial")
    notes = target.with_name(f"{target.name}.partial.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    state = _read_state(notes, partial, url_of(revision))
    failures = 0
    while True:
        before = _size(partial)
        # Once it is known, the revision is asked for, so that the file cannot change meanwhile.
        url = url_of(state.revision) if state.revision else state.url
        try:
            state, is_complete = _continue(url, state, partial, notes, watch, most)
            if is_complete:
                break
            reason = "the connection ended early"
        except urllib.error.HTTPError as error:
            error.close()
            raise OryxError(_explain_status(url, error)) from error
        except LOST as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
        except ValueError as error:  # an address or a header that makes no sense
            raise OryxError(
                f"{url} cannot be read: the server's answer makes no sense "
                f"({texts.first_line(error)}); try again later"
            ) from error
        failures = 0 if _size(partial) > before else failures + 1
        if failures >= ATTEMPTS or (failures and not before):
            raise OryxError(_explain_loss(url, reason, before, advice))
        time.sleep(PAUSE)
    found = _hash(partial)
    size = _size(partial)
    notes.unlink(missing_ok=True)
    if state.sha256 is not None and found != state.sha256:
        partial.unlink()
        raise OryxError(
            f"{url} arrived damaged: its SHA-256 is {found}, the server announced {state.sha256}. "
            "It was deleted; try again"
        )
    partial.replace(target)
    return Fetched(target, state.revision, found, size)


def _continue(
    url: str, state: _State, partial: Path, notes: Path, watch: Watch, most: int | None
) -> tuple[_State, bool]:
    """Reads on until the connection ends; the state, and whether all bytes are here."""
    have = _size(partial)
    if have and not (state.etag or state.revision):
        have = 0  # nothing tells whether it is still the same file
    headers = {"User-Agent": f"oryx-marl/{oryx_marl.__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if state.etag:
            headers["If-Range"] = state.etag
    redirects = _Redirects()
    opener = urllib.request.build_opener(redirects)
    try:
        answer = opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # there is nothing after what is here
            error.close()
            size = re.fullmatch(r"bytes \*/(\d{1,18})", error.headers.get("Content-Range", ""))
            if size and int(size[1]) == have:
                return state, True
            partial.unlink()
            return _State(state.url), False
        raise
    with answer:
        if answer.status == 206:
            place = re.fullmatch(
                r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", answer.headers.get("Content-Range", "")
            )
            if place is None or int(place[1]) != have or int(place[2]) < have:
                partial.unlink(missing_ok=True)
                return _State(state.url), False
            total: int | None = int(place[2])
        else:
            have = 0
            total = _read_length(answer.headers.get("Content-Length"))
            state = _learn(state, [*redirects.seen, answer.headers])
            notes.write_text(json.dumps(state._asdict()), encoding="utf-8")
        if most is not None and (total or 0) > most:
            raise OryxError(f"{url} has {total:,} bytes, but {most:,} are expected")
        free = shutil.disk_usage(partial.parent).free
        if total is not None and total - have > free:
            room = f"but the disk of {partial} has {free:,} free"
            raise OryxError(f"{url} has {total:,} bytes, {room}")
        limit = (free if most is None else most) if total is None else total
        try:
            with partial.open("ab" if have else "wb") as file:
                have += _copy(answer, file, have, limit, watch)
        except OryxError:  # what is here is not what was announced
            partial.unlink()
            raise
    return state, have == total if total is not None else True


def _read_length(text: str | None) -> int | None:
    """The bytes that are announced; None where nothing that makes sense is."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text) else None


def _copy(answer: Any, file: IO[bytes], have: int, total: int, watch: Watch) -> int:
    """What arrives, as far as it arrives; never more than was announced or is expected."""
    got = 0
    while piece := answer.read(PIECE):
        got += len(piece)
        if have + got > total:
            raise OryxError(f"the server sends more than the {total:,} bytes that are expected")
        file.write(piece)
        watch(have + got, total)
    return got


def _learn(state: _State, answers: list[Message]) -> _State:
    """What the hub and the server behind it say of the file."""
    hub = answers[0]
    linked = (hub.get("X-Linked-Etag") or "").strip('"')
    return _checked(
        _State(state.url, hub.get("X-Repo-Commit"), answers[-1].get("ETag"), linked or None)
    )


def _checked(state: _State) -> _State:
    """Without what is no revision, mark or hash: they go into addresses and headers."""

    def fitting(pattern: str, text: Any) -> str | None:
        return text if isinstance(text, str) and re.fullmatch(pattern, text, re.ASCII) else None

    return _State(
        url=state.url,
        revision=fitting(r"\w[\w.-]{0,99}", state.revision),
        etag=fitting(r'(W/)?"?[!#-~]{1,500}"?', state.etag),
        sha256=fitting("[0-9a-f]{64}", state.sha256),
    )


def _read_state(notes: Path, partial: Path, url: str) -> _State:
    """What was noted beside a file that was begun; otherwise it is begun anew."""
    try:
        state = _checked(_State(**reading.read_json(notes)))
        if partial.exists() and state.url == url:
            return state
    except (OSError, ValueError, TypeError):
        pass
    partial.unlink(missing_ok=True)
    return _State(url)


def _explain_status(url: str, error: urllib.error.HTTPError) -> str:
    if error.code == 404:
        return f"{url} is not there (404); was it moved, or is the revision wrong?"
    if error.code in (401, 403):
        return f"{url} may not be read ({error.code}); is it private, or blocked in your network?"
    if error.code == 429:
        return f"{url}: too many requests (429); wait a few minutes, then give the command again"
    return f"{url} cannot be read: {error.code} {error.reason}; try again later"


def _explain_loss(url: str, reason: str, have: int, advice: Advice) -> str:
    host = url.split("/")[2]
    if have:
        lost = advice.lost.format(url=url)
        return f"the connection to {host} was lost after {have:,} bytes ({reason}); {lost}"
    return f"{host} cannot be reached ({reason}). {advice.unreachable.format(url=url)}"


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
