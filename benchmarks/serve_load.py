"""Many sessions of `oryx serve` at once, asked by wrk: `python benchmarks/serve_load.py`.

wrk (Debian: apt-get install wrk) holds one connection per session open and sends each session's
next step when it has the answer to the last, as fast as it can; after 50 steps it begins a new
episode. Server and wrk share this machine's cores. Fresh weights: which ones does not matter for
the time. Writes results/speed/serve-cpu.json: requests per second, percentiles of the latency that
wrk sees, every status, and the server's resident memory over time.
"""

import argparse
import json
import os
import platform
import re
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import jax
import numpy as np

from oryx_marl import registry
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.policy import artifact
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.provenance import find_commit
from oryx_marl.serve.packages import httptools, orjson, uvicorn
from oryx_marl.types import ActionSpace, Spec

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "speed"
SCRIPT = Path(__file__).with_suffix(".lua")
FEATURES, ACTIONS = 20, 6
SHOWN = 256
"""Different observations that are sent."""
EPISODE = 50


def make_policy(name: str, agents: int, width: int) -> PolicyArtifact:
    """Fresh weights for so many agents."""
    names = tuple(f"agent_{number}" for number in range(agents))
    spec = Spec("", names, (FEATURES,) * agents, ActionSpace("discrete", ACTIONS))
    config = registry.load("algorithms", name).Config()
    widths = ("width", "linear_width", "recurrent_width")
    sizes = {key: width for key in widths if hasattr(config.network, key)}
    network = type(config.network)(**{**vars(config.network), **sizes})
    algorithm = make_algorithm(name, type(config)(**{**vars(config), "network": network}), spec)
    weights = algorithm.weights(jax.vmap(algorithm.init)(jax.random.key(0)[None]))
    return PolicyArtifact(name, algorithm, spec, jax.device_get(weights), (0,), {})


class Server:
    """`oryx serve` in a process of its own."""

    def __init__(self, policy: Path, token: Path, log: Path, options: list[str]) -> None:
        command = [sys.executable, "-m", "oryx_marl", "serve", str(policy), "--port", "0"]
        command += ["--token-file", str(token), *options]
        self._log = log.open("w")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"on (http://\S+)", line)
        if found is None:
            raise SystemExit(f"the server did not start: {log.read_text()}")
        self.url, self._token = found[1], token.read_text().strip()

    def ask(self, path: str, about: Any = None) -> str:
        body = None if about is None else json.dumps(about).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers)
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()

    def resident(self) -> float:
        """Memory in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) / 1024

    def processor(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.terminate()
        code = self.process.wait(30)
        self._log.close()
        return code


def write_plan(path: Path, server: Server, token: str, given: argparse.Namespace) -> None:
    """What wrk's script reads: token, steps of an episode, sessions, observations."""
    lines = [token, str(EPISODE)]
    for number in range(given.sessions):
        session = json.loads(server.ask("/v1/sessions", {"random_seed": number}))["session"]
        lines.append(f"session {session}")
    rng = np.random.default_rng(0)
    for _ in range(SHOWN):
        seen = rng.normal(size=(given.agents, FEATURES)).round(3).tolist()
        lines.append(f"shown {json.dumps(seen, separators=(',', ':'))}")
    path.write_text("\n".join(lines) + "\n")


def load(server: Server, plan: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Runs wrk and watches the server's memory."""
    command = ["wrk", "--threads", "1", "--connections", str(given.sessions), "--timeout", "30s"]
    command += ["--duration", f"{given.seconds}s", "--script", str(SCRIPT), server.url, "--"]
    spent, began = server.processor(), time.monotonic()
    wrk = subprocess.Popen([*command, str(plan)], stdout=subprocess.PIPE, text=True)
    memory = [round(server.resident(), 1)]
    while wrk.poll() is None:
        time.sleep(1)
        memory.append(round(server.resident(), 1))
    seconds = time.monotonic() - began
    assert wrk.stdout is not None
    text = wrk.stdout.read()
    found = re.search(r"^RESULT (.*)$", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"wrk gave no result: {text}")
    result = json.loads(found[1])
    settled = memory[min(10, len(memory) // 3) : -1] or memory
    return {
        **result,
        "requests_per_second": round(result["requests"] / result["seconds"], 1),
        "errors": sum(count for status, count in result["statuses"].items() if status != "200")
        + result["lost"]
        + sum(result["socket_errors"].values()),
        "server_cores": round((server.processor() - spent) / seconds, 2),
        "resident_start_mb": settled[0],
        "resident_end_mb": settled[-1],
        "resident_max_mb": max(memory),
        "resident_mb": memory[:: max(1, len(memory) // 60)],
    }


def read_batches(metrics: str) -> float:
    """Mean number of requests that were computed together."""
    numbers = dict(re.findall(r"^oryx_serve_batch_rows_(sum|count) (\S+)$", metrics, re.MULTILINE))
    return round(float(numbers["sum"]) / max(1.0, float(numbers["count"])), 1)


def versions() -> dict[str, str]:
    wrk = subprocess.run(["wrk", "--version"], capture_output=True, text=True, check=False)
    return {
        "wrk": (wrk.stdout or wrk.stderr).split("[")[0].removeprefix("wrk").strip(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "uvicorn": uvicorn.__version__,
        "httptools": httptools.__version__,
        "orjson": orjson.__version__,
    }


def show(row: dict[str, Any]) -> None:
    names = ("requests_per_second", "p50_ms", "p99_ms", "errors", "mean_batch", "server_cores")
    names += ("resident_start_mb", "resident_end_mb")
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    print("| " + " | ".join(f"{row[name]:,}" for name in names) + " |")
    print("statuses:", row["statuses"], "socket errors:", row["socket_errors"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--algorithm", default="oryx")
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--out", type=Path, default=RESULTS / "serve-cpu.json")
    given, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as home:
        folder, token = Path(home), secrets.token_hex(32)
        artifact.save(
            folder / "policy.npz", make_policy(given.algorithm, given.agents, given.width)
        )
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)
        server = Server(folder / "policy.npz", folder / "token", folder / "log", options)
        try:
            write_plan(folder / "plan", server, token, given)
            row = load(server, folder / "plan", given)
            row["mean_batch"] = read_batches(server.ask("/metrics"))
        finally:
            row_exit = server.stop()
        logged = (folder / "log").read_text()
    row |= {"exit_code": row_exit, "log_lines_with_error": logged.count("ERROR")}
    show(row)
    flags = f"--algorithm {given.algorithm} --agents {given.agents} --width {given.width} "
    flags += f"--sessions {given.sessions} --seconds {given.seconds}"
    found = {
        "command": " ".join(["python benchmarks/serve_load.py", flags, *options]),
        "commit": find_commit(),
        "device": f"cpu, {os.cpu_count()} cores shared by server and wrk",
        **versions(),
        "sessions": given.sessions,
        "duration": given.seconds,
        "features": FEATURES,
        "actions": ACTIONS,
        "load_average": round(os.getloadavg()[0], 1),
        **row,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
