"""Recipes that act: roll-outs of kept policies, and a recorded training, killed and resumed."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import jax
import numpy as np
import pytest

from oryx_marl import recipes
from oryx_marl.algorithms import sable
from oryx_marl.data import catalog, subsample, vault
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.policy import artifact
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.recipes import _policies, tmaze
from oryx_marl.recipes.base import Request
from oryx_marl.rollout import record

ENV = TMaze()
CONFIG = sable.Config(network=NetworkConfig(width=8), num_envs=4, rollout_length=40, minibatches=2)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two policies that have learned nothing."""
    folder = tmp_path_factory.mktemp("kept")
    algorithm = sable.make(CONFIG, ENV.spec)
    for seed, name in enumerate(("one", "two")):
        weights = algorithm.weights(jax.vmap(algorithm.init)(jax.random.key(seed)[None]))
        policy = PolicyArtifact("sable", algorithm, ENV.spec, weights, (seed,), {"seed": seed})
        artifact.save(folder / f"{name}.npz", policy)
    return folder


@pytest.fixture
def request_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    monkeypatch.setattr(record, "MOST_ENVS", 64)
    return Request(rows=3_000, seed=0, work=tmp_path / "tmaze.vlt" / "x.recording")


@pytest.mark.parametrize("piece", [record.PIECE, 7])
def test_roll_out_mixes_policies(
    kept: Path, request_for: Request, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(record, "PIECE", piece)
    policies, told = [kept / "one.npz", kept / "two.npz"], []
    request = replace(request_for, tell=told.append)
    parts = list(_policies.roll_out(ENV, policies, None, request))
    assert told == [
        "policy 1 of 2: 1,500 steps rolled out",
        "policy 2 of 2: 1,500 steps rolled out",
    ]
    assert [part.origin["policies"][-1]["seed"] for part in parts] == [0, 1]
    for part in parts:
        assert 1_500 <= part.num_rows < 1_500 + 20
        assert (part.episode_lengths == 20).all()  # nobody solves it by luck
        assert part.terminals[np.append(part.episode_starts[1:], part.num_rows) - 1].all()
        assert part.action_mask is not None
        assert np.take_along_axis(part.action_mask, part.actions[..., None], axis=2).all()
        # an episode starts with the choice and nothing seen, and ends on what is kept beside it
        assert (part.actions[part.episode_starts] >= 5).all()
        assert not part.observations[part.episode_starts].any()
        assert part.final_observations is not None
        assert (part.final_observations[:, :, 0] == 1).all()
    again = list(_policies.roll_out(ENV, policies, None, request_for))
    assert [p.fingerprint() for p in parts] == [p.fingerprint() for p in again]
    assert parts[0].fingerprint() != parts[1].fingerprint()


def test_failed_episodes_are_discarded(
    kept: Path, request_for: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every 64 episodes those with an odd number are made to succeed in their last step."""
    play = record._play

    def flatter(*arguments: object) -> tuple:
        arrays, lengths = play(*arguments)
        rewards = np.array(arrays["rewards"])
        rewards[(np.cumsum(lengths) - 1)[1::2]] = 1.0
        return {**arrays, "rewards": rewards}, lengths

    monkeypatch.setattr(record, "_play", flatter)
    told: list[str] = []
    request = Request(rows=200, seed=0, work=request_for.work, tell=told.append)
    (part,) = _policies.roll_out(ENV, [kept / "one.npz"], 1.0, request)
    assert part.num_rows == 200
    assert (part.episode_returns == 1).all()
    assert part.origin["discarded_share"] == [0.5]  # ten kept of twenty played
    assert told == ["50.00% of the episodes were discarded: return too low"]


def test_a_policy_that_never_succeeds_is_given_up(
    kept: Path, request_for: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MOST_TRIES", 64)
    with pytest.raises(OryxError, match="has not learned the task"):
        list(_policies.roll_out(ENV, [kept / "one.npz"], 1.0, request_for))


def test_one_policy_cannot_stand_for_several(request_for: Request) -> None:
    request = replace(request_for, policy=Path("anywhere"))
    with pytest.raises(OryxError, match="leave out --policy"):
        list(_policies.roll_out(ENV, [Path("one"), Path("two")], None, request))


def test_a_recording_is_resumed_for_as_many_rows(request_for: Request) -> None:
    class BegunError(Exception):
        pass

    def watch(total: int) -> NoReturn:
        raise BegunError

    begun = replace(request_for, watch=watch)
    for request in (begun, replace(begun, resume=True)):
        with pytest.raises(BegunError):
            next(_policies.record_training(ENV, CONFIG, request))
    with pytest.raises(OryxError, match="begun with 3000 rows, not 4000"):
        next(_policies.record_training(ENV, CONFIG, replace(begun, rows=4_000, resume=True)))


def test_subsample_needs_the_whole(request_for: Request) -> None:
    with pytest.raises(OryxError, match="make it: oryx data make tmaze/replay"):
        list(_policies.subsample("replay", request_for))


def test_subsample_draws_whole_episodes(tmp_path: Path) -> None:
    whole = catalog.open("tmaze/planner-mixed")
    drawn = subsample.whole_episodes(whole, 1_000, seed=3)
    assert 1_000 <= drawn.num_rows < 1_020
    starts = {
        whole.observations[s : s + n].tobytes() + whole.actions[s : s + n].tobytes()
        for s, n in zip(whole.episode_starts, whole.episode_lengths, strict=True)
    }
    for s, n in zip(drawn.episode_starts, drawn.episode_lengths, strict=True):
        episode = drawn.observations[s : s + n].tobytes() + drawn.actions[s : s + n].tobytes()
        assert episode in starts
    assert drawn.final_observations is not None
    assert len(drawn.final_observations) == drawn.num_episodes
    assert abs(drawn.episode_returns.mean() - whole.episode_returns.mean()) < 0.2
    everything = subsample.whole_episodes(whole, 10**9, seed=0)
    assert everything.fingerprint() == whole.fingerprint()
    with pytest.raises(OryxError, match="at least 1 row"):
        subsample.whole_episodes(whole, 0, seed=0)


RECORD = """
from dataclasses import replace
from functools import partial
import sys
from pathlib import Path
from oryx_marl import recipes
from oryx_marl.recipes import _policies, tmaze
from oryx_marl.recipes.base import Recipe
sys.path.insert(0, {tests!r})
from test_recipes import CONFIG, ENV
run = partial(_policies.record_training, ENV, CONFIG)
tmaze.RECIPES["replay"] = Recipe("tiny", run, rows={rows})
recipes.make("tmaze/replay", Path({root!r}), resume={resume})
print("complete", flush=True)
"""


def start_recording(root: Path, resume: bool) -> subprocess.Popen:
    code = RECORD.format(
        tests=str(Path(__file__).parent), rows=160 * 120, root=str(root), resume=resume
    )
    cache = {  # so that only the first process compiles
        "JAX_COMPILATION_CACHE_DIR": str(root.parent / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **cache})


@pytest.mark.slow
def test_a_killed_recording_leaves_nothing_and_resumes_exactly(tmp_path: Path) -> None:
    """SIGKILL in the middle, twice; what `resume` completes equals what was never interrupted."""
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    folder = broken / "tmaze.vlt" / "replay"
    work = folder.with_name("replay.recording")
    for number, segments in enumerate((2, 7)):
        process = start_recording(broken, resume=number > 0)
        deadline = time.monotonic() + 120
        while len(list((work / "segments").glob("*.npz"))) < segments:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert not folder.exists()
    with pytest.raises(OryxError, match="continue it with resume"):
        recipes.make("tmaze/replay", broken)
    for root in (broken, whole):
        process = start_recording(root, resume=root == broken)
        assert process.communicate(timeout=240)[0].decode().endswith("complete\n")
    ours, theirs = (vault.read(root / "tmaze.vlt" / "replay") for root in (broken, whole))
    assert ours.num_rows > 15_000
    assert ours.fingerprint() == theirs.fingerprint()
    assert not work.exists()
    kept = folder.with_name("replay.training")
    assert not (kept / "segments").exists()
    assert len(list((kept / "snapshots").glob("*.npz"))) == 12  # of 120 updates
    origin = ours.origin
    assert origin["command"] == "oryx data make tmaze/replay --rows 19200 --seed 0"
    assert (origin["environment"], origin["environment_version"]) == ("tmaze", 1)
    assert origin["config"]["num_envs"] == 4


def test_all_recipes_are_described() -> None:
    for recipe in tmaze.RECIPES.values():
        assert recipe.description
        assert callable(recipe.run)
