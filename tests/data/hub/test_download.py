"""Real archives from a server on this machine: whole, broken, continued, altered, malicious."""

import hashlib
import io
import json
import socket
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from foreign import write_foreign
from hub_server import COMMIT, serve
from planted import build_clean_box

from oryx_marl.cli import main as cli
from oryx_marl.data import catalog
from oryx_marl.data.hub import archives as catalogue
from oryx_marl.data.hub import fetch
from oryx_marl.data.hub.download import RECORDS, download
from oryx_marl.data.quality.validate import validate
from oryx_marl.data.vault_view import VaultView
from oryx_marl.errors import OryxError

NAME, PATH = "omar-mpe-simple_tag", "prior_work/omar/mpe/simple_tag.zip"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A zip of two vaults without a Spec, as the hub has them."""
    made = tmp_path_factory.mktemp("made")
    for uid in ("Expert", "Random"):
        dataset = replace(build_clean_box(), agent_mask=None)
        write_foreign(dataset, made / "simple_tag.vlt" / uid)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as file:
        for path in sorted(made.rglob("*")):
            file.write(path, path.relative_to(made))
    return stream.getvalue()


@pytest.fixture
def hub(archive, monkeypatch):
    monkeypatch.setattr(fetch, "PAUSE", 0.0)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serve() as server:
        server.files[PATH] = archive
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def test_a_download_opens_by_name_and_is_written_down(hub, archive, tmp_path):
    done = download(NAME, tmp_path)
    home = tmp_path / f"{NAME}.vlt"
    assert done.folders == [home / "Expert", home / "Random"]
    digest = hashlib.sha256(archive).hexdigest()
    assert f"revision {COMMIT} and SHA-256 {digest} of {NAME} were not known" in done.messages[0]
    assert "Its licence is unknown" in done.messages[0]
    assert "has 120 transitions, but its card says 1000000" in done.messages[1]
    record = json.loads((tmp_path / RECORDS).read_text())[NAME]
    assert (record["revision"], record["sha256"], record["bytes"], record["licence"]) == (
        COMMIT,
        digest,
        len(archive),
        "unknown",
    )
    assert record["url"].endswith(f"/resolve/{COMMIT}/{PATH}")
    assert catalog.open(f"{NAME}/Expert", tmp_path).num_rows == 120
    assert validate(VaultView(catalog.find(f"{NAME}/Random", tmp_path))) == []
    assert {path.name for path in tmp_path.iterdir()} == {f"{NAME}.vlt", RECORDS, ".downloads"}
    assert list((tmp_path / ".downloads").iterdir()) == []


def test_one_dataset_of_an_archive_then_the_rest(hub, tmp_path):
    assert [folder.name for folder in download(f"{NAME}/Random", tmp_path).folders] == ["Random"]
    with pytest.raises(OryxError, match="is there already"):
        download(f"{NAME}/Random", tmp_path)
    done = download(NAME, tmp_path)
    assert [folder.name for folder in done.folders] == ["Expert"]
    assert "is the one that was known" in done.messages[0]
    assert "Random was there already and stays as it is" in done.messages[1]
    # The second time, the revision of the first was asked for.
    assert hub.requests[-2][0].startswith(f"/datasets/InstaDeepAI/og-marl/resolve/{COMMIT}/")


@pytest.mark.parametrize("etag", ["true", None])
def test_broken_connections_are_continued(hub, archive, tmp_path, etag):
    hub.etag = etag  # without one, the revision tells that it is the same file
    hub.break_after = [1000, 500, 1]
    seen = []
    download(NAME, tmp_path, watch=lambda have, total: seen.append((have, total)))
    ranges = [asked for path, asked in hub.requests if path.startswith("/storage/")]
    assert ranges == [None, "bytes=1000-", "bytes=1500-", "bytes=1501-"]
    assert seen[-1] == (len(archive), len(archive))
    assert catalog.open(f"{NAME}/Expert", tmp_path).num_rows == 120


def test_a_download_is_continued_by_the_next_command(hub, archive, tmp_path):
    hub.break_after = [2000, *[0] * 10]
    with pytest.raises(OryxError, match=r"lost after 2,000 bytes.*the same command continues it"):
        download(NAME, tmp_path)
    assert (tmp_path / ".downloads" / f"{NAME}.zip.partial").stat().st_size == 2000
    hub.break_after, hub.requests = [], []
    download(NAME, tmp_path)
    assert hub.requests[0] == (
        f"/datasets/InstaDeepAI/og-marl/resolve/{COMMIT}/{PATH}",
        "bytes=2000-",
    )
    record = json.loads((tmp_path / RECORDS).read_text())[NAME]
    assert record["sha256"] == hashlib.sha256(archive).hexdigest()


def test_a_file_that_was_complete_but_for_its_name(hub, archive, tmp_path):
    hub.break_after = [100, *[0] * 10]
    with pytest.raises(OryxError):
        download(NAME, tmp_path)
    (tmp_path / ".downloads" / f"{NAME}.zip.partial").write_bytes(archive)
    hub.break_after = []
    assert len(download(NAME, tmp_path).folders) == 2  # the server answers 416


@pytest.mark.parametrize("change", ["other file", "no ranges", "nothing known"])
def test_what_cannot_be_continued_is_begun_anew(hub, archive, tmp_path, change):
    if change == "nothing known":
        hub.etag = hub.commit = None
    hub.break_after = [3000, *[0] * 10]
    with pytest.raises(OryxError):
        download(NAME, tmp_path)
    hub.break_after = []
    content = archive + b"more" if change == "other file" else archive
    hub.files[PATH] = content
    hub.has_ranges = change != "no ranges"
    download(NAME, tmp_path)
    record = json.loads((tmp_path / RECORDS).read_text())[NAME]
    assert record["sha256"] == hashlib.sha256(content).hexdigest()
    assert record["revision"] == ("unknown" if change == "nothing known" else COMMIT)


def test_bytes_altered_on_the_way_are_noticed(hub, tmp_path):
    hub.announced = "0" * 64
    with pytest.raises(OryxError, match=r"arrived damaged: .* the server announced 0000.*deleted"):
        download(NAME, tmp_path)
    assert list((tmp_path / ".downloads").iterdir()) == []
    assert not (tmp_path / f"{NAME}.vlt").exists()


def test_an_archive_that_changed_is_not_taken_for_the_known_one(hub, archive, tmp_path):
    download(f"{NAME}/Random", tmp_path)
    hub.files[PATH] = archive + b"more"
    with pytest.raises(OryxError, match=r"is not the one it was.*--revision"):
        download(NAME, tmp_path)
    assert not (tmp_path / f"{NAME}.vlt" / "Expert").exists()
    done = download(NAME, tmp_path, revision="main")  # meant
    assert [folder.name for folder in done.folders] == ["Expert"]
    record = json.loads((tmp_path / RECORDS).read_text())[NAME]
    assert record["sha256"] == hashlib.sha256(archive + b"more").hexdigest()


def test_a_hash_in_the_catalogue_must_be_met(hub, tmp_path, monkeypatch):
    known = replace(catalogue.archives()[NAME], sha256="1" * 64)
    monkeypatch.setattr(catalogue, "archives", lambda: {NAME: known})
    for revision in (None, "main"):
        with pytest.raises(OryxError, match=f"known is {'1' * 64}"):
            download(NAME, tmp_path, revision)


def test_malicious_and_broken_archives_leave_nothing(hub, archive, tmp_path):
    stream = io.BytesIO(archive)
    with zipfile.ZipFile(stream, "a") as file:
        file.writestr("../../outside", b"x")
    inside = tmp_path / "datasets"
    cases = {
        "leads outside of its folder": stream.getvalue(),
        "is damaged": archive[: len(archive) // 2],
        "neither a zip nor a tar": b"<html>please log in</html>",
        "holds no vault": zip_of({"readme.txt": b"hello"}),
        "two datasets of one name": zip_of({f"{n}.vlt/x/metadata.json": b"{}" for n in "ab"}),
        "odd name": zip_of({"a.vlt/-rf/metadata.json": b"{}"}),
    }
    for says, content in cases.items():
        hub.files[PATH] = content
        with pytest.raises(OryxError, match=says):
            download(NAME, inside)
        left = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert left == [], says
        assert not (inside / f"{NAME}.vlt").exists()


def zip_of(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("status", "says"),
    [(404, "is not there"), (403, "may not be read"), (429, "wait"), (503, "try again later")],
)
def test_refusals_of_the_server(hub, tmp_path, status, says):
    hub.status = status
    with pytest.raises(OryxError, match=says):
        download(NAME, tmp_path)


def test_redirects_to_files_are_not_followed(hub, tmp_path):
    hub.location = "file:///etc/passwd"
    with pytest.raises(OryxError, match="not allowed"):
        download(NAME, tmp_path)


@pytest.mark.parametrize(
    "location", ["http://[::1", "https://\x00", "//", "http://a b/", "x" * 9000]
)
def test_redirects_to_nowhere_are_told(hub, tmp_path, location):
    hub.location = location
    with pytest.raises(OryxError):
        download(NAME, tmp_path)
    hub.location = None
    assert len(download(NAME, tmp_path).folders) == 2


@pytest.mark.parametrize("length", ["-5", "many", "1" * 30, "9" * 18, "", "7", "0x10", "1_0"])
def test_odd_lengths_are_told_and_the_next_try_works(hub, tmp_path, length):
    hub.length = length
    try:
        download(NAME, tmp_path)
    except OryxError:  # or it is read to its end, where nothing sensible was announced
        hub.length = None
        download(NAME, tmp_path)
    assert catalog.open(f"{NAME}/Expert", tmp_path).num_rows == 120
    assert list((tmp_path / ".downloads").iterdir()) == []


@pytest.mark.parametrize(
    "content_range", ["bytes 0-5/x", "bytes 100-5/50", "bytes 100-200/" + "9" * 5000, "items 1"]
)
def test_odd_ranges_are_begun_anew(hub, archive, tmp_path, content_range):
    hub.break_after, hub.content_range = [100], content_range
    hub.has_ranges = True
    try:
        download(NAME, tmp_path)
    except OryxError:
        hub.content_range = None
        download(NAME, tmp_path)
    assert catalog.open(f"{NAME}/Expert", tmp_path).num_rows == 120


@pytest.mark.parametrize("mark", ['"a\r\n b"', '"' + "x" * 900 + '"', "\xff"])
def test_odd_marks_are_not_sent_back(hub, tmp_path, mark):
    """One that was folded over two lines made every later command fail, too."""
    hub.etag, hub.commit, hub.break_after = mark, None, [100]
    assert len(download(NAME, tmp_path).folders) == 2


def test_https_never_leads_to_http():
    request = fetch.urllib.request.Request("https://hub/file")
    with pytest.raises(OryxError, match="not safe"):
        fetch._Redirects().redirect_request(request, None, 302, "", {}, "http://hub/file")


def test_no_network(hub, tmp_path, monkeypatch, capsys):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    with pytest.raises(SystemExit) as stop:
        cli.main(["data", "download", NAME, "--root", str(tmp_path)])
    assert stop.value.code == 1
    told = capsys.readouterr().err
    assert f"127.0.0.1:{port} cannot be reached" in told
    assert "Is there a network" in told
    assert f"/resolve/main/{PATH} on another machine and give the file with --archive" in told


def test_an_archive_that_was_brought(archive, tmp_path, monkeypatch, capsys):
    file = tmp_path / "brought.zip"
    file.write_bytes(archive)
    root = tmp_path / "datasets"
    command = ["data", "download", f"{NAME}/Expert", "--root", str(root), "--archive", str(file)]
    cli.main([*command, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["folders"] == [str(root / f"{NAME}.vlt" / "Expert")]
    assert file.exists()
    record = json.loads((root / RECORDS).read_text())[NAME]
    assert (record["revision"], record["sha256"]) == (
        "unknown",
        hashlib.sha256(archive).hexdigest(),
    )
    np.testing.assert_equal(catalog.open(f"{NAME}/Expert", root).num_episodes, 12)


def test_a_download_after_an_archive_that_was_brought(hub, archive, tmp_path):
    (tmp_path / "brought.zip").write_bytes(archive)
    download(f"{NAME}/Expert", tmp_path, archive_file=tmp_path / "brought.zip")
    assert hub.requests == []
    done = download(NAME, tmp_path)
    assert [folder.name for folder in done.folders] == ["Random"]
    assert json.loads((tmp_path / RECORDS).read_text())[NAME]["revision"] == COMMIT


def test_damaged_records_are_named(hub, tmp_path):
    (tmp_path / RECORDS).write_text("[]")
    with pytest.raises(OryxError, match=f"{RECORDS} is damaged"):
        download(NAME, tmp_path)
