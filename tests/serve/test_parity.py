"""A served policy plays as the library's own player does, alone and in a batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from exports import SPECS, make_policy
from serving import Ask, Local, make_local

import oryx_marl_runtime
from oryx_marl.policy import export
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.player import Player

SMALL = {"width": 8, "num_heads": 2, "linear_width": 8, "recurrent_width": 8}
KINDS = {"oryx": ("oryx", "discrete"), "bc-box": ("bc", "box"), "madt": ("madt", "discrete")}


@pytest.fixture(scope="module", params=list(KINDS))
def policy(request: pytest.FixtureRequest) -> PolicyArtifact:
    name, kind = KINDS[request.param]
    return make_policy(name, SPECS[kind], SMALL)


@pytest.fixture(scope="module")
def local(policy: PolicyArtifact) -> Iterator[Local]:
    found = make_local(policy)
    yield found
    found.close()


def show(rng: np.random.Generator, spec: Any) -> dict[str, Any]:
    """Observations, masks and rewards of some of the agents, by name."""
    sizes = zip(spec.agents, spec.observation_sizes, strict=True)
    seen = {name: rng.normal(size=size).tolist() for name, size in sizes if rng.random() < 0.8}
    masks = {name: (rng.random(spec.action.size) < 0.6).tolist() for name in seen}
    masks = {name: mask for name, mask in masks.items() if any(mask) and rng.random() < 0.7}
    rewards = {name: rng.normal() for name in seen}
    is_box = spec.action.kind == "box"
    return {"observations": seen, "action_mask": None if is_box else masks, "rewards": rewards}


class Known:
    """The library's player, and the noise that it will draw."""

    def __init__(self, policy: PolicyArtifact, act: str | float, random_seed: int) -> None:
        self.player = Player(policy, act=act, random_seed=random_seed)
        self._draw = jax.jit(lambda key: self.player._policy.draw_noise(key, 1))
        self._scale = act if isinstance(act, float) else 1.0

    def noise(self) -> list[Any]:
        player = self.player
        key = jax.random.fold_in(jax.random.fold_in(player._key, player._episode), player._count)
        return (np.asarray(self._draw(key)[0]) / self._scale).tolist()  # which is scaled already


def same(known: Any, told: Any) -> None:
    assert list(told) == list(known)
    for name, action in known.items():
        np.testing.assert_allclose(told[name], action, rtol=1e-5, atol=1e-6)
        assert np.asarray(told[name]).dtype.kind == np.asarray(action).dtype.kind


def test_sessions_side_by_side_play_as_players_do(policy: PolicyArtifact, local: Local) -> None:
    """Different steps in one batch, absent agents, masks, rewards, resets, given the same noise."""
    rng = np.random.default_rng(0)
    ways = ["greedy", 0.5, "sampled"]
    known = [Known(policy, act, number) for number, act in enumerate(ways)]
    paths = [local.begin(act=act) for act in ways]
    for turn in range(24):
        asked, expected = [], []
        for path, each in zip(paths, known, strict=True):
            if rng.random() < 0.3:
                continue
            if rng.random() < 0.15:
                each.player.reset()
                assert local.ask("POST", f"{path}/reset").status == 200
            shown = show(rng, policy.spec)
            noise = each.noise()
            asked.append(Ask("POST", f"{path}/act", {**shown, "noise": noise}))
            expected.append(each.player.act(**shown))
        for told, actions in zip(local.ask_all(asked), expected, strict=True):
            assert told.status == 200, (turn, told.body)
            same(actions, told.about["actions"])


def test_the_state_in_the_request_is_as_good_as_a_session(
    policy: PolicyArtifact, local: Local
) -> None:
    rng = np.random.default_rng(1)
    player, state = Known(policy, 0.5, 0), {}
    for step in range(12):
        shown, noise = show(rng, policy.spec), player.noise()
        told = local.ask("POST", "/v1/act", {**shown, **state, "noise": noise, "act": 0.5})
        assert told.about["step"] == step
        same(player.player.act(**shown), told.about["actions"])
        state = {"state": told.about["state"]}


def test_observations_in_the_order_of_the_agents(policy: PolicyArtifact, local: Local) -> None:
    seen = [[0.5] * 5, None, [1, -1, 0, 2]]
    player = Player(policy, act="greedy")
    told = local.ask("POST", f"{local.begin(act='greedy')}/act", {"observations": seen})
    np.testing.assert_allclose(told.about["actions"], player.act(seen), rtol=1e-5, atol=1e-6)


def test_a_batch_changes_no_answer(policy: PolicyArtifact, local: Local) -> None:
    """Seven sessions, four at most in a batch, then one after the other: the same actions."""
    rng = np.random.default_rng(2)
    shown = [[show(rng, policy.spec) for _ in range(7)] for _ in range(5)]
    together = [local.begin(random_seed=number) for number in range(7)]
    alone = [local.begin(random_seed=number) for number in range(7)]
    for turn in shown:
        pairs = zip(together, turn, strict=True)
        batch = local.ask_all([Ask("POST", f"{path}/act", each) for path, each in pairs])
        for path, each, told in zip(alone, turn, batch, strict=True):
            same(local.ask("POST", f"{path}/act", each).about["actions"], told.about["actions"])
    for path in (*together, *alone):
        assert local.ask("DELETE", path).status == 204


def test_numbers_that_overflow_harm_their_own_session_alone(
    policy: PolicyArtifact, local: Local
) -> None:
    fine = {"observations": [[1.0] * 5, [1.0] * 3, [1.0] * 4]}
    huge = {"observations": [[3e38] * 5, [-3e38] * 3, [3e38] * 4]}
    victim, twin, attacker = (local.begin(random_seed=5) for _ in range(3))
    for _ in range(3):
        alone = local.ask("POST", f"{twin}/act", fine).about["actions"]
        told = local.ask_all(
            [Ask("POST", f"{attacker}/act", huge), Ask("POST", f"{victim}/act", fine)]
        )
        assert told[1].about["actions"] == alone
        assert told[0].status in (200, 422)
        if told[0].status == 422:
            assert told[0].code == "not_a_number"
    step = local.ask("GET", attacker).about["step"]  # nothing of it is kept
    assert local.ask("POST", f"{attacker}/act", {**fine, "step": step}).status == 200


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_random_numbers_are_those_of_the_runtime(tmp_path: Path, kind: str) -> None:
    """A session with a random seed plays as the exported policy does with it."""
    policy = make_policy("bc", SPECS[kind], SMALL)
    folder = export.write(policy, tmp_path / "onnx", "onnx")
    theirs = oryx_marl_runtime.load(folder, act="sampled", random_seed=9)
    local = make_local(policy)
    path = local.begin(act="sampled", random_seed=9)
    for _ in range(3):
        theirs.reset()
        local.ask("POST", f"{path}/reset")
        for _ in range(5):
            seen = {"ant": [0.0] * 5, "cat": [0.0] * 4}
            told = local.ask("POST", f"{path}/act", {"observations": seen}).about["actions"]
            for name, action in theirs.act(seen).items():
                np.testing.assert_allclose(told[name], action, atol=1e-4)
    local.close()
