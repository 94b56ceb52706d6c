"""A trained policy for other programs: one step as a file, its contract beside it.

contract.json   names, types, shapes, initial state, Spec, hashes, versions
policy.onnx or policy.stablehlo
README.md, run.py
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jaxlib
import numpy as np

import oryx_marl
from oryx_marl import files, locks, reading
from oryx_marl.envs.base import find_action_names
from oryx_marl.errors import OryxError
from oryx_marl.policy import _export_texts as texts
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.contract import Contract, make_contract, to_json

Format = Literal["onnx", "stablehlo"]
MARK = "oryx-marl export"
FORMAT_VERSION = 1
CONTRACT, README, PROGRAM = "contract.json", "README.md", "run.py"
PARTIAL, REPLACED = ".partial", ".replaced"
ADVICE = "Make room, or choose another folder (out)"


class Exported(NamedTuple):
    """A policy's step in one format."""

    content: bytes
    about: dict[str, Any]
    """What the format adds to the contract."""
    versions: dict[str, Any]


def _to_onnx(contract: Contract) -> Exported:
    from oryx_marl.policy.onnx.lower import lower
    from oryx_marl.policy.onnx.model import IR_VERSION, OPSET, onnx, to_model

    model = to_model(lower(contract.jaxpr, contract.inputs, contract.outputs, contract.batch))
    versions = {"onnx": onnx.__version__, "opset": OPSET, "ir": IR_VERSION}
    return Exported(model.SerializeToString(deterministic=True), {}, versions)


def _to_stablehlo(contract: Contract) -> Exported:
    from oryx_marl.policy.stablehlo import PLATFORMS, to_stablehlo

    content, convention = to_stablehlo(contract)
    return Exported(
        content, {"platforms": list(PLATFORMS)}, {"calling_convention_version": convention}
    )


FORMATS: dict[str, Callable[[Contract], Exported]] = {
    "onnx": _to_onnx,
    "stablehlo": _to_stablehlo,
}


def write(
    artifact: PolicyArtifact, folder: Path, kind: Format = "onnx", seed: int | None = None
) -> Path:
    """Exports one seed's policy into a folder that appears at once; the folder.

    A folder that has something in it is replaced only if it is an export.
    """
    if kind not in FORMATS:
        raise OryxError(f"format must be one of {', '.join(FORMATS)}, got {kind!r}")
    require_replaceable(folder)
    contents = make(artifact, kind, seed)
    lock = locks.hold(locks.beside(folder), f"the export {folder}", ADVICE)
    with files.explain(folder, ADVICE), lock:
        _tidy(folder)
        require_replaceable(folder)
        _put_in_place(contents, folder)
    return folder


def make(artifact: PolicyArtifact, kind: str, seed: int | None = None) -> dict[str, bytes]:
    """The files of an export by name."""
    contract = make_contract(artifact, seed)
    exported = FORMATS[kind](contract)
    about = _describe(artifact, kind, seed, contract, exported)
    contents = {
        about["file"]: exported.content,
        README: texts.make_readme(about).encode(),
        PROGRAM: texts.make_program(kind, about["noise"]["distribution"]).encode(),
    }
    about["files"] = {name: hashlib.sha256(each).hexdigest() for name, each in contents.items()}
    about["sha256"] = hash_contract(about)
    return contents | {CONTRACT: json.dumps(about, indent=1).encode()}


def hash_contract(about: dict[str, Any]) -> str:
    """Of all that a contract says but this."""
    rest = {name: value for name, value in about.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _describe(
    artifact: PolicyArtifact, kind: str, seed: int | None, contract: Contract, exported: Exported
) -> dict[str, Any]:
    """The contract, without hashes."""
    spec, origin = artifact.spec, artifact.origin
    about = {
        "format": MARK,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "file": f"policy.{kind}",
        **to_json(contract, spec),
        **exported.about,
        "spec": spec.to_dict(),
        "action_names": origin.get("action_names") or find_action_names(spec),
        "policy": {
            "algorithm": artifact.name,
            "seed": artifact.seeds[0] if seed is None else seed,
            "update": origin.get("update"),
            "which": origin.get("which"),
            "learned_from": origin.get("learned_from"),
            "sha256": artifact.sha256,
        },
        "versions": {
            "oryx_marl": oryx_marl.__version__,
            "jax": jax.__version__,
            "jaxlib": jaxlib.__version__,
            "numpy": np.__version__,
            **exported.versions,
        },
    }
    return json.loads(json.dumps(about))  # as it will be read, so that its hash is the same


def require_replaceable(folder: Path) -> None:
    """Raises unless a folder is missing, empty, or an export and nothing else."""
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise OryxError(f"{folder} is no folder: choose another one to export to (out)")
    found = sorted(entry.name for entry in folder.iterdir())
    if not found:
        return
    try:
        about = reading.read_json(folder / CONTRACT)
        known = {CONTRACT, *about["files"]} if about["format"] == MARK else set()
    except (OSError, ValueError, KeyError, TypeError):
        known = set()
    if strange := [name for name in found if name not in known]:
        raise OryxError(
            f"{folder} has something else in it than an export ({strange[0]!r}), which would be "
            "lost: choose another folder (out), or empty it"
        )


def _put_in_place(contents: dict[str, bytes], folder: Path) -> None:
    """Writes a folder under another name, and gives it its own when all of it is on the disk."""
    draft, replaced = (folder.with_name(folder.name + ending) for ending in (PARTIAL, REPLACED))
    files.make_folder(folder.parent)
    draft.mkdir()
    try:
        for name, content in contents.items():
            (draft / name).write_bytes(content)
        files.sync_tree(draft)
        if folder.exists():
            folder.rename(replaced)
        draft.rename(folder)
    except BaseException:  # also where the user interrupts
        shutil.rmtree(draft, ignore_errors=True)
        if replaced.exists() and not folder.exists():
            replaced.rename(folder)
        raise
    files.sync(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _tidy(folder: Path) -> None:
    """Ends what a kill has interrupted: the earlier export is found under its name again."""
    draft, replaced = (folder.with_name(folder.name + ending) for ending in (PARTIAL, REPLACED))
    shutil.rmtree(draft, ignore_errors=True)
    if replaced.exists() and not folder.exists():
        replaced.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)
