"""What is damaged, how each is opened, and whether a checksum of ours covers it."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from foreign_files import PUBLISHED, build_tree, pymarl_batch, store, write_as_flashbax
from tests.campaigns import jobs, results
from tests.campaigns.mutations import change_value
from tests.campaigns.results import Digest, hash_arrays, hash_json

from oryx_marl.data import vault
from oryx_marl.data import view as views
from oryx_marl.data.record.segments import Recorder
from oryx_marl.data.sources import base
from oryx_marl.data.vault_view import VaultView
from oryx_marl.policy import artifact
from oryx_marl.report import page
from oryx_marl.report import run as report_run
from oryx_marl.runs import checkpoint, sealed
from oryx_marl.runs.documents import Evaluation, MetricRow
from oryx_marl.runs.folder import Run, load_policy
from oryx_marl.runs.replay import Episode
from oryx_marl.types import ActionSpace, Spec

TEXTS = {".json", ".jsonl", ".csv", ".toml", ".txt", ""}

SEGMENTS_SPEC = Spec("", ("left", "right"), (3, 3), ActionSpace("discrete", 4))

Opened = tuple[Digest, list[str]]
"""Hashes of the parts that were read, and what was told of those that were not."""


@dataclass(frozen=True)
class Subject:
    """Something on disk that can be damaged and opened."""

    name: str
    place: str
    """File or folder below the folder of all subjects."""
    files: str
    """Which of its files are damaged."""
    open: Callable[[Path], Opened]
    share: int
    """How often its turn comes."""
    is_covered: bool = True
    """Whether other data than were written must be noticed."""
    forge: Callable[[Path, Random], str] | None = None
    """Changes content and sets the checksum anew."""


def _open_vault(path: Path) -> Opened:
    return results.of_vault(path), []


def _open_view(path: Path) -> Opened:
    view = VaultView(path)
    arrays = [chunk.arrays for chunk in views.chunks(view)]
    names = arrays[0]
    joined = {name: np.concatenate([each[name] for each in arrays]) for name in names}
    digest = {"arrays": hash_arrays(joined), "spec": hash_json(view.spec.to_dict())}
    return {**digest, "fingerprint": views.fingerprint(view), "name": view.name}, []


def _open_checkpoint(path: Path) -> Opened:
    found = checkpoint.read(Run(path).checkpoints)
    return {"weights": hash_arrays(found.tree), "extra": hash_json(found.extra)}, []


def _open_policy(path: Path) -> Opened:
    found = load_policy(path)
    about = [found.name, found.spec.to_dict(), found.seeds, found.origin]
    weights = artifact.flatten(found.weights)
    return {"weights": hash_arrays(weights), "about": hash_json(about)}, []


def _open_run(path: Path) -> Opened:
    """As the page and the resumed run read it."""
    run, found = Run(path), report_run.read(path)
    told = [f"{name}: {note}" for name, note in found.notes.items()]
    parts: dict[str, Any] = {
        "config": found.config.to_json(),
        "spec": found.spec and found.spec.to_dict(),
        "summary": found.summary and found.summary.to_json(),
        "dataset": found.dataset and found.dataset.to_json(),
        "curve": found.curve and vars(found.curve),
        "metrics": found.metrics
        and {name: vars(each) for name, each in found.metrics.series.items()},
        "replay": found.replay and [_describe_episode(episode) for episode in found.replay],
    }
    page.render(found)
    digest = {name: hash_json(_plain(each)) for name, each in parts.items() if each is not None}
    for name, kind in (("metric rows", MetricRow), ("evaluation rows", Evaluation)):
        digest[name] = hash_json([_plain(vars(row)) for row in run.rows(kind)])
    return digest, told


def _describe_episode(episode: Episode) -> dict[str, Any]:
    return {**vars(episode), "frames": hash_arrays({"frames": episode.frames})}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else repr(value)


def _open_segments(path: Path) -> Opened:
    return results.of_parts(Recorder(path).parts(SEGMENTS_SPEC, "made", {})), []


def _open_source(path: Path) -> Opened:
    return results.of_parts(base.read(path, "made/again")), []


def _forge_document(path: Path, random: Random) -> str:
    """A document of a run with another content and the checksum that belongs to it."""
    found = sorted(each for each in path.glob("*.json*") if each.suffix in (".json", ".jsonl"))
    chosen = random.choice(found)
    lines = chosen.read_text().split("\n") if chosen.suffix == ".jsonl" else [chosen.read_text()]
    place = random.randrange(max(1, len(lines) - 1))
    values = json.loads(lines[place])
    values.pop(sealed.CHECKSUM, None)
    was_sealed = values.pop(sealed.VERSION, None) is not None
    values = change_value(values, random)
    lines[place] = json.dumps(sealed.seal(values) if was_sealed else values)
    chosen.write_text("\n".join(lines))
    return f"{chosen.name}:{place + 1}"


def _forge_vault(path: Path, random: Random) -> str:
    document = json.loads((path / vault.METADATA).read_text())
    document["oryx_marl"].pop("sha256")
    document = change_value(document, random)
    if isinstance(document.get("oryx_marl"), dict):
        document["oryx_marl"]["sha256"] = vault._hash_document(document)
    (path / vault.METADATA).write_text(json.dumps(document))
    return vault.METADATA


def _forge_checkpoint(path: Path, random: Random) -> str:
    file = path / "checkpoints" / "4" / "notes.json"
    notes = json.loads(file.read_text())
    notes.pop("seal")
    notes = change_value(notes, random)
    file.write_text(json.dumps({**notes, "seal": checkpoint._seal(notes)}))
    return str(file.relative_to(path))


def _forge_policy(path: Path, random: Random) -> str:
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(str(arrays.pop(artifact.ABOUT)))
    about.pop("sha256")
    if random.random() < 0.7:
        about = change_value(about, random)
    else:
        name = random.choice(sorted(arrays))
        arrays[name] = random.choice(
            (arrays[name][..., :0], arrays[name].astype("<U4"), np.zeros(3))
        )
    about["sha256"] = artifact._hash(arrays, about)
    content = io.BytesIO()
    np.savez_compressed(content, **{artifact.ABOUT: np.array(json.dumps(about)), **arrays})
    path.write_bytes(content.getvalue())
    return path.name


def build(folder: Path) -> None:
    """Everything that is damaged later, once, in this process."""
    jobs.TRAIN.start(folder)
    run = Run(folder / "run")
    small = [replace(each, frames=each.frames[:, ::16, ::16]) for each in run.read_replay()]
    run.write_replay(small)  # pictures of their usual size would take most of the time
    steps = [
        {
            "observations": np.random.default_rng(u).random((2, 5, 2, 3)).astype(np.float32),
            "final_observations": np.ones((2, 5, 2, 3), np.float32),
            "actions": np.zeros((2, 5, 2), np.int32),
            "rewards": np.ones((2, 5, 2), np.float32),
            "terminals": np.tile((np.arange(5) == 4)[None, :, None], (2, 1, 2)),
            "truncations": np.zeros((2, 5, 2), bool),
        }
        for u in range(3)
    ]
    recorder = Recorder(folder / "segments")
    for update, each in enumerate(steps, 1):
        recorder.append(update, each)
    log = jobs.write_log(folder / "log.csv", episodes=6, length=4)
    vault.write_parts(base.read(log, "depot/week"), folder / "week")
    dataset = vault.read(folder / "week")
    base.write([dataset], folder / "own.parquet", "table")
    base.write([dataset], folder / "own.minari", "minari")
    lines = log.read_text().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, map(_number, line.split(",")), strict=True)) for line in lines[1:]]
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for container in ("h5", "npz", "npy"):
        (folder / container).mkdir()
        store(pymarl_batch(), folder / container, container)
    card = next(each for each in PUBLISHED if each["action_space"] == "Discrete")
    write_as_flashbax(build_tree(card, 0), folder / "og" / "made.vlt" / "Good")


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


DOCUMENTS = "*.json*"
SUBJECTS = (
    Subject("vault", "week", "**/*", _open_vault, 8, forge=_forge_vault),
    Subject("vault in pieces", "week", "**/*", _open_view, 5, forge=_forge_vault),
    Subject(
        "checkpoint", "run", "checkpoints/4/**/*", _open_checkpoint, 6, True, _forge_checkpoint
    ),
    Subject("policy", "run/policy/last.npz", "", _open_policy, 7, forge=_forge_policy),
    Subject("documents", "run", DOCUMENTS, _open_run, 22, forge=_forge_document),
    Subject("replay", "run", "replay.npz", _open_run, 4),
    Subject("segments", "segments", "*.npz", _open_segments, 4),
    Subject("own parquet", "own.parquet", "", _open_source, 7),
    Subject("own minari", "own.minari", "**/*", _open_source, 7),
    Subject("csv", "log.csv", "", _open_source, 6, False),
    Subject("jsonl", "log.jsonl", "", _open_source, 6, False),
    Subject("npz", "npz/log.npz", "", _open_source, 5, False),
    Subject("npy", "npy/log", "*.npy", _open_source, 5, False),
    Subject("hdf5", "h5/log.h5", "", _open_source, 5, False),
    Subject("og-marl vault", "og/made.vlt/Good", "**/*", _open_source, 5, False),
)
