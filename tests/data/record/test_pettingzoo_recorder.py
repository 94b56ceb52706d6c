"""Any environment with PettingZoo's parallel interface is recorded while it is used."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oryx_marl.data import vault
from oryx_marl.data.record.pettingzoo import Recorder, record
from oryx_marl.envs import base, to_pettingzoo
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    spaces = pytest.importorskip("gymnasium.spaces")
    ParallelEnv = pytest.importorskip("pettingzoo").ParallelEnv


class Relay(ParallelEnv):
    """Three runners of unequal sight; runner k leaves after k + 2 steps, the last by the clock."""

    metadata: dict = {"name": "relay"}  # noqa: RUF012

    def __init__(self, has_masks: bool = True, is_box: bool = False) -> None:
        self.possible_agents = ["a", "b", "c"]
        self.agents: list[str] = []
        self._has_masks, self._is_box = has_masks, is_box

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 9, (self.possible_agents.index(agent) + 1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return (
            spaces.Box(-2, 2, (2,)) if self._is_box else spaces.Discrete(2 if agent == "a" else 3)
        )

    def state(self) -> np.ndarray:
        return np.array([self._step, 7.0], np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self._step, self.agents = 0, list(self.possible_agents)
        return self._see(self.agents), self._tell(self.agents)

    def step(self, actions: Any) -> Any:
        assert set(actions) == set(self.agents)
        before, self._step = self.agents, self._step + 1
        out = {agent: self._step >= place + 2 for place, agent in enumerate("abc")}
        self.agents = [agent for agent in before if not out[agent]]
        return (
            self._see(before),
            {agent: float(self._step) + (agent == "c") for agent in before},
            {agent: out[agent] and agent != "c" for agent in before},
            {agent: out[agent] and agent == "c" for agent in before},
            self._tell(before),
        )

    def _see(self, agents: list[str]) -> Any:
        shape = self.observation_space
        return {agent: np.full(shape(agent).shape, self._step, np.float32) for agent in agents}

    def _tell(self, agents: list[str]) -> Any:
        mask = np.array([1, 0], np.int8)
        return {a: {"action_mask": mask} if a == "a" and self._has_masks else {} for a in agents}


def act(observations: Any, infos: Any) -> Any:
    return {agent: 0 for agent in observations if agent in RELAY.agents}


RELAY = Relay()


def test_agents_come_and_go(tmp_path: Path) -> None:
    parts = record(RELAY, act, episodes=2, name="relay/one", seed=3)
    dataset = vault.read(vault.write_parts(parts, tmp_path / "relay"))
    assert dataset.spec.agents == ("a", "b", "c")
    assert dataset.spec.observation_sizes == (1, 2, 3)
    assert dataset.spec.action.size == 3
    assert not dataset.spec.shared_reward
    assert dataset.episode_starts.tolist() == [0, 4]
    assert dataset.agent_mask is not None
    assert dataset.agent_mask[:4].astype(int).tolist() == [
        [1, 1, 1],
        [1, 1, 1],
        [0, 1, 1],
        [0, 0, 1],
    ]
    assert dataset.terminals[1].tolist() == [True, False, False]
    assert dataset.truncations[3].tolist() == [True, True, True]
    assert dataset.rewards[2].tolist() == [0, 3, 4]
    assert dataset.observations[1].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert dataset.final_observations is not None
    assert dataset.final_observations[0, 2].tolist() == [4, 4, 4]
    assert dataset.action_mask is not None
    assert dataset.action_mask[0].tolist() == [[True, False, False], [True] * 3, [True] * 3]
    assert dataset.state is not None
    assert dataset.state[:4, 0].tolist() == [0, 1, 2, 3]


def test_masks_of_some_agents_for_some_steps() -> None:
    env = Relay()
    env.action_space = lambda agent: spaces.Discrete(2)  # type: ignore[method-assign]
    recorder = Recorder(env)
    recorder.reset()
    while recorder.agents:
        recorder.step(dict.fromkeys(recorder.agents, 0))
    (part,) = recorder.parts("relay/masks")
    assert part.action_mask is not None
    assert part.action_mask[:, 0].tolist() == [[True, False]] * 2 + [[True, False], [False, False]]
    assert part.action_mask[:, 2].all()


class Handover(Relay):
    """Runner a ends in the step in which c takes over."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self._step, self.agents = 0, ["a"]
        return self._see(["a"]), {}

    def step(self, actions: Any) -> Any:
        (runner,) = actions
        self._step, self.agents = self._step + 1, ["c"] if runner == "a" else []
        return self._see(["a", "c"]), {runner: 1.0}, {runner: True}, {runner: False}, {}


def test_who_comes_later_goes_on() -> None:
    env = Recorder(Handover())
    env.reset()
    env.step({"a": 0})
    env.step({"c": 0})
    (part,) = env.parts("relay/late")
    assert part.num_episodes == 1
    assert part.agent_mask is not None
    assert part.agent_mask.tolist() == [[True, False, False], [False, False, True]]
    assert part.terminals.tolist() == [[True, False, False], [True, True, True]]


def test_continuous_actions_and_an_unfinished_episode() -> None:
    env = Recorder(Relay(has_masks=False, is_box=True))
    env.reset()
    env.step({agent: np.array([0.5, -2]) for agent in "abc"})
    env.reset()
    env.step({agent: np.zeros(2) for agent in "abc"})
    (part,) = env.parts("relay/two")
    assert part.spec.action.kind == "box"
    assert part.spec.action.high == (2.0, 2.0)
    assert part.action_mask is None
    assert part.agent_mask is None
    assert part.actions[0].tolist() == [[0.5, -2.0]] * 3
    assert part.truncations.all()
    assert part.num_episodes == 2


def test_the_environment_is_named_so_that_data_can_be_scored(tmp_path: Path) -> None:
    env = to_pettingzoo("tmaze")
    recorder = Recorder(env, environment="tmaze", environment_config={"time_limit": 20})
    seen, _ = recorder.reset(seed=0)
    while recorder.agents:
        chosen = {agent: int(seen[agent]["action_mask"].argmax()) for agent in recorder.agents}
        seen, *_ = recorder.step(chosen)
    vault.write_parts(recorder.parts("maze/mine"), tmp_path / "mine")
    spec = vault.read(tmp_path / "mine").spec
    assert base.make(spec) == TMaze()
    assert not base.make(spec).spec.misfits(spec)
    assert Recorder(env).spec.environment == ""


class Halves(Relay):
    """In the last step one agent has ended, the other is cut off, and the third is long gone."""

    def step(self, actions: Any) -> Any:
        seen, rewards, ends, cuts, infos = super().step(actions)
        if self._step == 3:
            ends, cuts = {"b": True, "c": False}, {"b": True, "c": True}
            self.agents = []
        return seen, rewards, ends, cuts, infos


def test_everybody_ends_in_one_way() -> None:
    recorder = Recorder(Halves())
    recorder.reset()
    while recorder.agents:
        recorder.step(dict.fromkeys(recorder.agents, 0))
    (part,) = recorder.parts("relay/halves")
    assert part.num_rows == 3
    assert part.terminals[-1].tolist() == [False, True, False]
    assert part.truncations[-1].tolist() == [True, False, True]


def test_bounds_hold_the_actions_of_all_agents() -> None:
    env = Relay(has_masks=False)
    env.action_space = lambda agent: spaces.Box(-ord(agent), 1, (2,))  # type: ignore[method-assign]
    assert Recorder(env).spec.action.low == (-99.0, -99.0)


def test_what_cannot_be_recorded_is_named() -> None:
    with pytest.raises(OryxError, match="nothing was recorded"):
        list(Recorder(Relay()).parts("a/b"))
    with pytest.raises(OryxError, match="must be reset"):
        Recorder(Relay()).step({})
    odd = Relay()
    odd.action_space = lambda agent: SimpleNamespace(shape=(2, 2))  # type: ignore[method-assign]
    with pytest.raises(OryxError, match="agent a acts in the space"):
        Recorder(odd)
    odd.action_space = lambda agent: spaces.Box(-1, 1, (1 + (agent == "a"),))  # type: ignore[method-assign]
    with pytest.raises(OryxError, match="boxes of several sizes"):
        Recorder(odd)
    odd = Relay()
    odd.observation_space = lambda agent: spaces.Dict({"eyes": spaces.Discrete(2)})  # type: ignore[method-assign]
    with pytest.raises(OryxError, match="a sees a dict of eyes; one entry must be 'observation'"):
        Recorder(odd)
