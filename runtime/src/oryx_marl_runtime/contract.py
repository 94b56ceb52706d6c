"""What an export says of itself in contract.json, compared with its hashes."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oryx_marl_runtime.errors import OryxError

CONTRACT = "contract.json"
MARK = "oryx-marl export"
NEWEST = 1
"""The newest format that is known here."""
MOST_BYTES = 2**28
"""Of a contract, of which the longest have some hundred thousand."""


@dataclass(frozen=True)
class ActionSpace:
    """What one agent may do: one of `size` actions, or a box of `size` dimensions."""

    kind: str
    size: int
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Spec:
    """Agents, what they see and what they may do."""

    agents: tuple[str, ...]
    observation_sizes: tuple[int, ...]
    """Number of features of each agent; arrays have those of the widest."""
    action: ActionSpace

    @property
    def num_agents(self) -> int:
        return len(self.agents)

    @property
    def observation_size(self) -> int:
        return max(self.observation_sizes)


@dataclass(frozen=True)
class Input:
    """An array that the step takes, without the axis of the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    used: bool
    initial: Any = None
    """Of a part of the state before the first step: a number, or nested lists."""
    next: str | None = None
    """The output that is this part of the state after the step."""


@dataclass(frozen=True)
class Contract:
    """All that is needed to call the step, and where it comes from."""

    spec: Spec
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    noise: str
    """Its distribution: gumbel or normal."""
    action_names: list[str] | None
    policy: Mapping[str, Any]
    """Algorithm, seed, update, and the hash of the policy file."""
    model: bytes
    """The file itself, after it was compared with its hash."""


def read_contract(folder: str | Path) -> Contract:
    """The contract in a folder; an OryxError if something is missing, damaged or too new."""
    path = Path(folder) / CONTRACT
    if not path.is_file():
        raise OryxError(
            f"{folder} is no exported policy, it has no {CONTRACT}; make one with "
            "`oryx export RUN --format onnx`"
        )
    try:
        about = _parse(path)
        _require_known(about, path)
        return _to_contract(about, _read_model(about, Path(folder)))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise OryxError(f"{path} is damaged: {error!r:.200}") from error


def _parse(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    about = json.loads(path.read_bytes())
    if not isinstance(about, dict):
        raise ValueError("it is no table")
    return about


def _require_known(about: dict[str, Any], path: Path) -> None:
    """Raises unless this is an export that can be run here, as it was written."""
    if about.get("format") != MARK:
        raise OryxError(f"{path} is no contract of an exported policy")
    if about["format_version"] > NEWEST:
        raise OryxError(
            f"{path} was written by a newer oryx-marl (format {about['format_version']}; this "
            f"runtime reads up to {NEWEST}): update oryx-marl-runtime"
        )
    rest = {name: value for name, value in about.items() if name != "sha256"}
    if _hash(json.dumps(rest, sort_keys=True).encode()) != about["sha256"]:
        raise OryxError(f"{path} is damaged or was changed: its SHA-256 differs")
    if about["kind"] != "onnx":
        raise OryxError(
            f"{path.parent} is an export of format {about['kind']}, which JAX runs; this runtime "
            "needs one of `oryx export RUN --format onnx`"
        )


def _read_model(about: dict[str, Any], folder: Path) -> bytes:
    name = about["file"]
    path = folder / name
    if Path(name).name != name or not path.is_file():
        raise OryxError(f"{folder} has no file {name!r}, of which its contract speaks")
    content = path.read_bytes()
    if _hash(content) != about["files"][name]:
        raise OryxError(f"{path} is damaged or was changed: its SHA-256 differs; export it again")
    return content


def _to_contract(about: dict[str, Any], model: bytes) -> Contract:
    spec, action = about["spec"], about["spec"]["action"]
    bounds = (tuple(map(float, action.get(side, ()))) for side in ("low", "high"))
    return Contract(
        Spec(
            tuple(map(str, spec["agents"])),
            tuple(map(int, spec["observation_sizes"])),
            ActionSpace(action["kind"], int(action["size"]), *bounds),
        ),
        tuple(_to_input(each) for each in about["inputs"]),
        tuple(each["name"] for each in about["outputs"]),
        about["noise"]["distribution"],
        about["action_names"],
        about["policy"],
        model,
    )


def _to_input(entry: dict[str, Any]) -> Input:
    return Input(
        entry["name"],
        entry["dtype"],
        tuple(map(int, entry["shape"][1:])),
        bool(entry["used"]),
        entry.get("initial"),
        entry.get("next"),
    )


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
