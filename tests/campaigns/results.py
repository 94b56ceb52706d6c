"""What a run, a dataset or an export holds, as hashes: equal hashes, equal results.

Times differ between runs that are equal otherwise, so they are left out.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sources import base
from oryx_marl.runs import checkpoint
from oryx_marl.runs.documents import Evaluation, MarlEval, MetricRow, RunConfig, Summary
from oryx_marl.runs.folder import Run

Digest = dict[str, str]


def hash_json(values: Any) -> str:
    """Of anything that JSON can hold."""
    text = json.dumps(values, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_arrays(arrays: dict[str, Any]) -> str:
    """Of arrays by name, with their types and shapes."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        array = np.asarray(array)
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def of_run(folder: Path) -> Digest:
    """Weights, logs without times, scores, replay and policies of a finished run."""
    run = Run(folder)
    found = checkpoint.read(run.checkpoints)
    digest = {
        "update": str(found.update),
        "weights": hash_arrays(found.tree),
        "metrics": hash_json([[row.update, row.metrics] for row in run.rows(MetricRow)]),
        "evaluations": hash_json(
            [[row.update, row.returns.tolist()] for row in run.rows(Evaluation)]
        ),
        "config": hash_json(run.read(RunConfig).to_json()),
        "summary": hash_json(run.read(Summary).to_json()),
        "eval": hash_json(_without_times(run.read(MarlEval).to_json())),
        "policy": run.policy("last").sha256[:16],
        "best": run.policy("best").sha256[:16],
    }
    episodes = run.read_replay()
    return digest | {"replay": hash_arrays({str(i): e.frames for i, e in enumerate(episodes)})}


def _without_times(values: Any) -> Any:
    """Without the seconds that evaluations were made after."""
    if not isinstance(values, dict):
        return values
    kept = {name: each for name, each in values.items() if name != "elapsed_time"}
    return {name: _without_times(each) for name, each in kept.items()}


def of_parts(parts: Iterable[Dataset]) -> Digest:
    """All numbers of a dataset, however it is cut into parts."""
    found = list(parts)
    names = sorted({name for part in found for name in part.arrays()})
    joined, rows = {}, 0
    for name in names:
        arrays = []
        rows = 0
        for part in found:
            array = part.arrays().get(name)
            if array is not None:
                arrays.append(array + rows if name == "episode_starts" else array)
            rows += part.num_rows
        joined[name] = np.concatenate(arrays)
    specs = [part.spec.to_dict() for part in found[:1]]
    return {"arrays": hash_arrays(joined), "spec": hash_json(specs), "rows": str(rows)}


def of_vault(folder: Path) -> Digest:
    """All of a stored dataset."""
    dataset = vault.read(folder)
    origin = {name: each for name, each in dataset.origin.items() if name != "commit"}
    return {**of_parts([dataset]), "name": dataset.name, "origin": hash_json(origin)}


def of_export(path: Path) -> Digest:
    """All of an export, read as any other log."""
    return of_parts(base.read(path, "made/again"))


def of_tree(folder: Path) -> dict[str, bytes | None]:
    """Every file's bytes by its path; None for folders."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_dir() or path.is_file()
    }


def put_tree(tree: dict[str, bytes | None], folder: Path) -> None:
    """Makes the files of `of_tree` again."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in tree.items():
        path = folder / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
