"""Pretrained policies: in a checkout, in the cache, from a server, and in none of these places."""

import hashlib
import re
import socket
from pathlib import Path

import pytest
from hub_server import Hub, serve

from oryx_marl import recipes
from oryx_marl.data.hub import fetch
from oryx_marl.errors import OryxError
from oryx_marl.policy import artifact
from oryx_marl.recipes import _assets

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "assets"
MOST_BYTES = 20_000_000
NAME = "con-5x5x3a/123.npz"
CONTENT = (ASSETS / NAME).read_bytes()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in an installed wheel: no checkout around the package. Returns the cache folder."""
    monkeypatch.setattr(_assets, "SOURCE", tmp_path / "python3")
    monkeypatch.setattr(_assets.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.delenv(_assets.VARIABLE, raising=False)
    return tmp_path / "oryx-marl" / "assets"


@pytest.fixture
def server(installed: Path, monkeypatch: pytest.MonkeyPatch):
    """A server that has all of them."""
    monkeypatch.setattr(fetch, "PAUSE", 0.0)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serve() as running:
        for path in ASSETS.rglob("*.npz"):
            running.files[path.relative_to(ASSETS).as_posix()] = path.read_bytes()
        monkeypatch.setenv(_assets.VARIABLE, f"{running.url}/storage/")
        yield running


def test_the_manifest_names_every_file() -> None:
    found = {
        path.relative_to(place).as_posix(): path
        for place in (ASSETS, _assets.PACKAGED)
        for path in place.rglob("*.npz")
    }
    assert {*found} == {*_assets.manifest()}
    for name, path in found.items():
        asset = _assets.manifest()[name]
        assert asset.size == path.stat().st_size
        assert asset.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sum(asset.size for asset in _assets.manifest().values()) <= MOST_BYTES


def test_a_checkout_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_assets.VARIABLE, raising=False)
    assert _assets.locate([NAME]) == [ASSETS / NAME]


def test_a_changed_file_of_a_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "assets" / NAME).parent.mkdir(parents=True)
    (tmp_path / "assets" / NAME).write_bytes(b"version https://git-lfs.github.com/spec/v1")
    monkeypatch.setattr(_assets, "SOURCE", tmp_path)
    with pytest.raises(OryxError, match="its SHA-256 differs; restore it: git checkout -- assets"):
        _assets.locate([NAME])


def test_where_there_is_neither_it_is_said_what_to_do(installed: Path, tmp_path: Path) -> None:
    told = (
        rf"not installed with the package: {NAME} \(0\.2 MB\)\. Set ORYX_ASSETS_URL to the address "
        "of a copy of the repository's folder assets/.* from a checkout.* --policy RUN$"
    )
    with pytest.raises(OryxError, match=told):
        recipes.make("con-5x5x3a/expert", tmp_path, rows=100)
    several = r"con-5x5x3a/10\.npz, .*123\.npz \(1\.2 MB\).* which has them$"
    with pytest.raises(OryxError, match=several):
        recipes.make("con-5x5x3a/snapshots", tmp_path, rows=100)
    with pytest.raises(OryxError, match="leave out --policy"):
        recipes.make("con-5x5x3a/snapshots", tmp_path, rows=100, policy=tmp_path)
    with pytest.raises(OryxError, match="ORYX_ASSETS_URL"):
        recipes.require_assets("con-5x5x3a/expert")
    recipes.require_assets("tmaze/expert")  # its policy is in the package
    recipes.require_assets("con-5x5x3a/replay")  # which needs none


def test_they_are_downloaded_once(server: Hub, installed: Path) -> None:
    told: list[str] = []
    assert _assets.locate([NAME], told.append) == [installed / NAME]
    assert told == [f"downloading the pretrained policy {NAME} (0.2 MB)"]
    assert (installed / NAME).read_bytes() == CONTENT
    assert artifact.load(installed / NAME).origin["update"] == 123
    assert _assets.locate([NAME], told.append) == [installed / NAME]
    assert [path for path, _ in server.requests] == [f"/storage/{NAME}"]
    assert [path.name for path in installed.rglob("*")] == ["con-5x5x3a", "123.npz"]


def test_a_damaged_copy_is_downloaded_again(server: Hub, installed: Path) -> None:
    (installed / NAME).parent.mkdir(parents=True)
    (installed / NAME).write_bytes(CONTENT[:-1])
    _assets.locate([NAME])
    assert (installed / NAME).read_bytes() == CONTENT


def test_a_broken_connection_is_continued(server: Hub, installed: Path) -> None:
    server.break_after = [50_000]
    _assets.locate([NAME])
    assert [asked for _, asked in server.requests] == [None, "bytes=50000-"]
    assert (installed / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            CONTENT[:-1] + b"?",
            r"is not the file of this version: its SHA-256 is \w{64}, not \w{64}",
        ),
        (CONTENT[:-1], "is not the file of this version"),
        (CONTENT + b"?", f"has {len(CONTENT) + 1:,} bytes, but {len(CONTENT):,} are expected"),
    ],
)
def test_another_file_is_refused(
    server: Hub, installed: Path, content: bytes, message: str
) -> None:
    server.files[NAME] = content
    with pytest.raises(OryxError, match=message):
        _assets.locate([NAME])
    assert not [path for path in installed.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda server: server.files.clear(), r"123\.npz is not there \(404\)"),
        (lambda server: setattr(server, "status", 500), "cannot be read: 500"),
        (lambda server: server.break_after.extend([9] * 9), "give the same command again"),
    ],
)
def test_a_server_that_fails_is_named(server: Hub, installed: Path, break_it, message: str) -> None:
    server.has_ranges = False
    break_it(server)
    with pytest.raises(OryxError, match=message):
        _assets.locate([NAME])
    assert not [path for path in installed.rglob("*") if path.is_file()]


def test_an_address_must_lead_somewhere(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_assets.VARIABLE, "ftp://example.org/assets")
    with pytest.raises(OryxError, match="must begin with https:// or http://, got 'ftp://ex"):
        _assets.locate([NAME])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv(_assets.VARIABLE, address)
    with pytest.raises(OryxError, match=rf"{re.escape(address[7:])} cannot be reached.*ORYX_ASS"):
        _assets.locate([NAME])


def test_a_cache_that_cannot_be_written_is_named(server: Hub, installed: Path) -> None:
    installed.parent.mkdir(parents=True)
    installed.write_text("a file where a folder should be")
    with pytest.raises(OryxError, match=r"cannot write .*123\.npz.*XDG_CACHE_HOME"):
        _assets.locate([NAME])
