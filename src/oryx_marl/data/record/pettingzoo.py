"""Episodes recorded from any environment with PettingZoo's parallel interface.

    env = Recorder(make_env())          then use it as before: reset, step, reset, step ...
    vault.write_parts(env.parts("mine/first"), folder)

PettingZoo itself is not needed here. Agents may come and go; legal actions are taken from
`action_mask`, in the observation or in the infos, and the global state from `env.state()`.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec

MASK = "action_mask"
PART_ROWS = 8_192
Act = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]
"""(observations, infos) by agent -> actions by agent."""


class _Seen(NamedTuple):
    """What all agents see at one step."""

    features: np.ndarray
    legal: np.ndarray
    present: np.ndarray
    state: np.ndarray | None


class Recorder:
    """An environment that remembers every episode that has ended; the rest passes through."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._agents = tuple(env.possible_agents)
        self._index = {agent: index for index, agent in enumerate(self._agents)}
        self._seen_spaces = {agent: _strip(env.observation_space(agent)) for agent in self._agents}
        self._actions = {agent: _action_space(agent, env) for agent in self._agents}
        self._episodes: list[dict[str, np.ndarray]] = []
        self._steps: list[dict[str, np.ndarray]] = []
        self._now: _Seen | None = None
        self._is_shared = True
        self.spec = Spec(
            environment="",
            agents=tuple(map(str, self._agents)),
            observation_sizes=tuple(_size(space) for space in self._seen_spaces.values()),
            action=_common_space(self._actions),
        )
        self._has_masks = len({space.size for space in self._actions.values()}) > 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        """Begins an episode; one that was not finished counts as cut off."""
        self._close(is_cut_off=True)
        observations, infos = self._env.reset(*arguments, **options)
        self._now = self._look(observations, infos)
        return observations, infos

    def step(self, actions: Mapping[Any, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Acts, and remembers what was seen, done and got."""
        if self._now is None:
            raise OryxError("an environment must be reset before its first step")
        before, acted = self._now, self._act(actions)
        result = self._env.step(actions)
        observations, rewards, terminals, truncations, infos = result
        gone = ~before.present
        step = {
            "observations": before.features,
            "actions": acted,
            "rewards": self._by_agent(rewards, np.float32),
            "terminals": self._by_agent(terminals, np.bool_),
            "truncations": self._by_agent(truncations, np.bool_),
            "present": before.present,
            "legal": before.legal,
        }
        here = before.present
        self._is_shared &= len(set(step["rewards"][here].tolist())) <= 1
        if before.state is not None:
            step["state"] = before.state
        self._steps.append(step)
        self._now = self._look(observations, infos)
        # Whoever is still listed has ended too, or came just now and goes on.
        goes_on = ~(step["terminals"] | step["truncations"]) | gone
        if not any(goes_on[self._index[agent]] for agent in self._env.agents):
            self._close(is_cut_off=False)
        return result

    def parts(self, name: str) -> Iterator[Dataset]:
        """The episodes that have ended, some thousand steps at a time."""
        self._close(is_cut_off=True)
        if not self._episodes:
            raise OryxError("nothing was recorded: reset the environment and step it first")
        names = set.intersection(*(set(episode) for episode in self._episodes))
        if all(episode["present"].all() for episode in self._episodes):
            names.remove("present")
        if not self._has_masks or self.spec.action.kind == "box":
            names.remove("legal")
        state_size = self._episodes[0]["state"].shape[1] if "state" in names else 0
        spec = replace(self.spec, state_size=state_size, shared_reward=self._is_shared)
        held: list[dict[str, np.ndarray]] = []
        for number, episode in enumerate(self._episodes):
            held.append({key: episode[key] for key in names})
            is_full = sum(len(one["rewards"]) for one in held) >= PART_ROWS
            if is_full or number == len(self._episodes) - 1:
                yield _join(held, spec, name)
                held = []

    def _close(self, is_cut_off: bool) -> None:
        """Puts the steps so far aside as an episode."""
        if not self._steps:
            return
        last = self._steps[-1]
        if is_cut_off:
            last["truncations"] = last["truncations"] | ~last["terminals"]
        for name in ("terminals", "truncations"):  # who is gone ends as those who are left
            last[name][~last["present"]] = last[name][last["present"]].all()
        names = set.intersection(*(set(step) for step in self._steps))
        episode = {name: np.stack([step[name] for step in self._steps]) for name in names}
        assert self._now is not None
        episode["final_observations"] = self._now.features[None]
        self._episodes.append(episode)
        self._steps, self._now = [], None

    def _look(self, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> _Seen:
        dtype = np.result_type(*(space.dtype for space in self._seen_spaces.values()))
        dtype = np.dtype(np.int8) if dtype.kind == "b" else dtype
        features = np.zeros((len(self._agents), self.spec.observation_size), dtype)
        legal = np.zeros((len(self._agents), self.spec.action.size), bool)
        present = np.zeros(len(self._agents), bool)
        for agent, seen in observations.items():
            index, mask = self._index[agent], infos.get(agent, {}).get(MASK)
            if isinstance(seen, Mapping):
                seen, mask = seen["observation"], seen.get(MASK, mask)
            flat = np.asarray(seen).reshape(-1)
            features[index, : flat.size] = flat
            own = self._actions[agent].size
            legal[index, :own] = True if mask is None else np.asarray(mask) != 0
            self._has_masks |= mask is not None
            present[index] = agent in self._env.agents
        return _Seen(features, legal, present, self._read_state())

    def _act(self, actions: Mapping[Any, Any]) -> np.ndarray:
        space, agents = self.spec.action, len(self._agents)
        is_box = space.kind == "box"
        shape = (agents, space.size) if is_box else (agents,)
        acted = np.zeros(shape, np.float32 if is_box else np.int32)
        for agent, action in actions.items():
            start = 0 if is_box else getattr(self._env.action_space(agent), "start", 0)
            acted[self._index[agent]] = np.asarray(action) - start
        return acted

    def _by_agent(self, values: Mapping[Any, Any], dtype: type) -> np.ndarray:
        array: np.ndarray = np.zeros(len(self._agents), dtype)
        for agent, value in values.items():
            array[self._index[agent]] = value
        return array

    def _read_state(self) -> np.ndarray | None:
        """The global state, where the environment has one and can tell it now."""
        with contextlib.suppress(NotImplementedError, AttributeError):
            return np.asarray(self._env.state()).reshape(-1)
        return None


def record(env: Any, act: Act, episodes: int, name: str, seed: int | None = None) -> list[Dataset]:
    """The parts of so many episodes in which `act` chooses."""
    recorder = Recorder(env)
    for number in range(episodes):
        observations, infos = recorder.reset(seed=None if seed is None else seed + number)
        while recorder.agents:
            observations, _, _, _, infos = recorder.step(act(observations, infos))
    return list(recorder.parts(name))


def _join(episodes: list[dict[str, np.ndarray]], spec: Spec, name: str) -> Dataset:
    lengths = [len(episode["rewards"]) for episode in episodes]
    arrays: dict[str, Any] = {
        key: np.concatenate([episode[key] for episode in episodes]) for key in episodes[0]
    }
    arrays["episode_starts"] = np.append(0, np.cumsum(lengths)[:-1])
    return Dataset(spec=spec, name=name, origin={"source": "a PettingZoo recorder"}, **arrays)


def _strip(space: Any) -> Any:
    """The space of the observation proper, without that of the mask."""
    inner = getattr(space, "spaces", None)
    return inner["observation"] if isinstance(inner, Mapping) else space


def _size(space: Any) -> int:
    if space.shape is None:
        raise OryxError(f"observations of the space {space} are not understood; flatten them first")
    return int(np.prod(space.shape, dtype=np.int64))


def _action_space(agent: Any, env: Any) -> ActionSpace:
    space = env.action_space(agent)
    if isinstance(getattr(space, "n", None), int | np.integer) and space.shape == ():
        return ActionSpace("discrete", int(space.n))
    if hasattr(space, "low") and len(space.shape) == 1:
        bounds = (tuple(map(float, side)) for side in (space.low, space.high))
        return ActionSpace("box", int(space.shape[0]), *bounds)
    raise OryxError(f"agent {agent} acts in the space {space}, which is not understood")


def _common_space(spaces: Mapping[Any, ActionSpace]) -> ActionSpace:
    """The widest; ids that an agent does not have are illegal for it."""
    kinds = {space.kind for space in spaces.values()}
    sizes = {space.size for space in spaces.values()}
    if len(kinds) > 1 or (kinds == {"box"} and len(sizes) > 1):
        raise OryxError(
            "agents with several kinds of action, or boxes of several sizes, are not known"
        )
    return max(spaces.values(), key=lambda space: space.size)
