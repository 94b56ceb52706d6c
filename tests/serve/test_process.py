"""`oryx serve` as a process: killed and started again, told to stop, and started wrongly."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exports import SPECS, make_policy
from serving import TOKEN

import oryx_marl_runtime
from oryx_marl.cli import main as cli
from oryx_marl.policy import artifact
from oryx_marl.policy.player import Player

ROOT = Path(__file__).parents[2]
SEEN = {"ant": [0.5] * 5, "bee": [0.1] * 3, "cat": [0.2] * 4}
SMALL = {"linear_width": 8, "recurrent_width": 8}
CLIENT_ALONE = """
import sys

class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "numpy", "onnxruntime", "oryx_marl", "orjson", "uvicorn"):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Forbid())
sys.path.insert(0, sys.argv[1])
import oryx_marl_runtime

with oryx_marl_runtime.connect(sys.argv[2], token=sys.argv[3], act="greedy") as player:
    print(player.act([[0.5] * 5, [0.1] * 3, [0.2] * 4]), player.spec.agents)
"""


class Server:
    """A process of `oryx serve`, on a port of its own unless one is given."""

    def __init__(self, policy: Path, token: Path, port: int = 0) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        command = [sys.executable, "-m", "oryx_marl", "serve", str(policy), "--port", str(port)]
        command += ["--token-file", str(token), "--max-batch", "2", "--access-log"]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        found = re.search(r"on (http://127\.0\.0\.1:(\d+))", self.process.stdout.readline())
        assert found is not None, self.process.communicate()
        self.url, self.port = found[1], int(found[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> tuple[int, str]:
        """Exit code and log after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        _, log = self.process.communicate(timeout=30)
        return self.process.returncode, log


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("served")
    artifact.save(folder / "policy.npz", make_policy("bc", SPECS["discrete"], SMALL))
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    return folder / "policy.npz", folder / "token"


@pytest.fixture
def server(files: tuple[Path, Path]) -> Iterator[Server]:
    found = Server(*files)
    yield found
    if found.process.poll() is None:
        found.kill()


def test_clients_recover_from_kill_and_restart(files: tuple[Path, Path], server: Server) -> None:
    """The state of one is lost, and it is told; the other goes on as if nothing had been."""
    settings: dict[str, Any] = {"token": TOKEN, "random_seed": 4}
    on_server = oryx_marl_runtime.connect(server.url, keep="server", **settings)
    on_client = oryx_marl_runtime.connect(server.url, keep="client", **settings)
    undisturbed = Player(artifact.load(files[0]), act="greedy")
    greedy = oryx_marl_runtime.connect(server.url, token=TOKEN, keep="client", act="greedy")
    for _ in range(3):
        assert on_server.act(SEEN) == on_client.act(SEEN)
        assert greedy.act(SEEN) == undisturbed.act(SEEN)
    server.kill()
    waiting: list[Any] = []
    thread = threading.Thread(target=lambda: waiting.append(greedy.act(SEEN)))
    thread.start()  # asks while there is no server
    restarted = Server(*files, port=server.port)
    try:
        thread.join(30)
        assert waiting == [undisturbed.act(SEEN)]
        assert greedy.act(SEEN) == undisturbed.act(SEEN)
        with pytest.raises(oryx_marl_runtime.SessionLostError, match=r"restarted.*call reset"):
            on_server.act(SEEN)
        with pytest.raises(oryx_marl_runtime.SessionLostError, match="call reset"):
            on_server.act(SEEN)
        on_server.reset()
        on_client.reset()
        assert [on_server.act(SEEN) for _ in range(3)] == [on_client.act(SEEN) for _ in range(3)]
        for player in (on_server, on_client, greedy):
            player.close()
    finally:
        code, log = restarted.stop()
    assert code == 0
    assert "Traceback" not in log
    assert all(line.isprintable() for line in log.splitlines())
    assert "POST /v1/sessions/{session}/act 404" in log


def test_the_client_needs_no_package_and_a_token(server: Server) -> None:
    runtime = str(Path(oryx_marl_runtime.__file__).parents[1])
    command = [sys.executable, "-c", CLIENT_ALONE, runtime, server.url, TOKEN]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert re.fullmatch(r"\[\d, \d, \d\] \('ant', 'bee', 'cat'\)\n", found.stdout)
    for token in (None, "wrong" * 8):
        with pytest.raises(oryx_marl_runtime.OryxError, match="token is missing or wrong"):
            oryx_marl_runtime.connect(server.url, token=token)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.url}/v1/policy")
    assert refused.value.code == 401
    refused.value.close()
    player = oryx_marl_runtime.connect(server.url, token=TOKEN)
    with pytest.raises(oryx_marl_runtime.OryxError, match="ant must have 5 numbers"):
        player.act([[0.0], [0.0] * 3, [0.0] * 4])
    with pytest.raises(oryx_marl_runtime.OryxError, match="not finite"):
        player.act([np.full(5, np.nan), [0.0] * 3, [0.0] * 4])
    assert len(player.act([np.zeros(5), np.zeros(3, np.float32), None])) == 3
    player.close()
    code, log = server.stop()
    assert code == 0
    assert TOKEN not in log


def test_a_server_that_is_told_to_stop_answers_first(server: Server) -> None:
    player = oryx_marl_runtime.connect(server.url, token=TOKEN, retry_for=0)
    answered = 0
    began = time.monotonic()
    threading.Timer(0.3, lambda: server.process.send_signal(signal.SIGTERM)).start()
    told = ""
    while not told and time.monotonic() - began < 20:
        try:
            player.act(SEEN)
            answered += 1
        except oryx_marl_runtime.OryxError as error:
            told = str(error)
    assert "no answer" in told  # the connection was closed between two requests
    assert answered > 10
    assert time.monotonic() - began < 10
    _, log = server.process.communicate(timeout=30)
    assert server.process.returncode == 0
    assert log.rstrip().endswith("stopped")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "0.0.0.0"], "on 0.0.0.0 everyone who reaches this machine"),
        (["--token-file", "nowhere"], "there is no token file nowhere"),
        (["--seed", "99"], "no seed 99"),
        (["--act", "boldly"], "act must be sampled, greedy or a temperature"),
        (["--max-sessions", "0"], "--max-sessions must be greater than 0"),
        (["--port", "70000"], "--port must be from 0 to 65535"),
        (["--host", "192.0.2.1", "--no-token"], "cannot listen on 192.0.2.1"),
    ],
)
def test_wrong_starts_are_explained(
    files: tuple[Path, Path],
    words: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ORYX_SERVE_TOKEN", raising=False)
    with pytest.raises(SystemExit):
        cli.main(["serve", str(files[0]), "--port", "0", *words])
    assert sentence in capsys.readouterr().err


def test_a_missing_package_names_the_extra() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; import oryx_marl.cli.main as m; "
    code += "m.main(['serve', 'nowhere'])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert found.returncode == 2
    assert re.search(r"oryx serve needs the package uvicorn: pip install .*\[serve\]", found.stderr)


def test_addresses_without_a_server_are_explained() -> None:
    with pytest.raises(oryx_marl_runtime.OryxError, match="url must be such as"):
        oryx_marl_runtime.connect("127.0.0.1:8000")
    with pytest.raises(oryx_marl_runtime.OryxError, match="no answer from"):
        oryx_marl_runtime.connect("http://127.0.0.1:9", retry_for=0.2)
