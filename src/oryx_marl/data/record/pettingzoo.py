"""Episodes recorded from any environment with PettingZoo's parallel interface.

    env = Recorder(make_env())          then use it as before: reset, step, reset, step ...
    vault.write_parts(env.parts("mine/first"), folder)

PettingZoo itself is not needed here. Agents may come and go; legal actions are taken from
`action_mask`, in the observation or in the infos, and the global state from `env.state()`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.data import catalog, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs.adapters import convert
from oryx_marl.errors import OryxError
from oryx_marl.types import Spec

PART_ROWS = 8_192
Act = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]
"""(observations, infos) by agent -> actions by agent."""


class Recorder:
    """An environment that remembers every episode that has ended; the rest passes through.

    With `environment` and `environment_config`, the name of an environment that we know and the
    keyword arguments that build it, policies learned from the recording can be scored.
    """

    def __init__(
        self,
        env: Any,
        environment: str = "",
        environment_config: Mapping[str, Any] | None = None,
    ) -> None:
        self._env = env
        self._layout = convert.read_layout(env)
        self._episodes: list[dict[str, np.ndarray]] = []
        self._steps: list[dict[str, np.ndarray]] = []
        self._now: convert.Seen | None = None
        self._state: np.ndarray | None = None
        self._is_shared = True
        config = dict(environment_config or {})
        self.spec = convert.make_spec(self._layout, environment, environment_config=config)
        self._has_masks = self._layout.has_unequal_actions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        """Begins an episode; one that was not finished counts as cut off."""
        self._close()
        observations, infos = self._env.reset(*arguments, **options)
        self._look(observations, infos)
        return observations, infos

    def step(self, actions: Mapping[Any, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Acts, and remembers what was seen, done and got."""
        if self._now is None:
            raise OryxError("an environment must be reset before its first step")
        before, layout = self._now, self._layout
        acted = convert.to_array(layout, actions)
        result = self._env.step(actions)
        observations, rewards, terminals, truncations, infos = result
        step = {
            "observations": before.features,
            "actions": acted,
            "rewards": convert.by_agent(layout, rewards, np.float32),
            "terminals": convert.by_agent(layout, terminals, np.bool_),
            "truncations": convert.by_agent(layout, truncations, np.bool_),
            "agent_mask": before.agent_mask,
            "action_mask": before.action_mask,
        }
        self._is_shared &= len(set(step["rewards"][before.agent_mask].tolist())) <= 1
        if self._state is not None:
            step["state"] = self._state
        self._steps.append(step)
        self._look(observations, infos)
        ended = step["terminals"] | step["truncations"]
        if convert.is_over(layout, ended, before.agent_mask, self._env.agents):
            self._close()
        return result

    def save(self, name: str, root: Path | None = None) -> Path:
        """Stores the episodes that have ended as the dataset of a name, such as mine/first."""
        return vault.write_parts(self.parts(name), catalog.new_folder(name, root))

    def parts(self, name: str) -> Iterator[Dataset]:
        """The episodes that have ended, some thousand steps at a time."""
        self._close()
        if not self._episodes:
            raise OryxError("nothing was recorded: reset the environment and step it first")
        names = set.intersection(*(set(episode) for episode in self._episodes))
        if all(episode["agent_mask"].all() for episode in self._episodes):
            names.remove("agent_mask")
        if not self._has_masks or self.spec.action.kind == "box":
            names.remove("action_mask")
        state_size = self._episodes[0]["state"].shape[1] if "state" in names else 0
        spec = replace(self.spec, state_size=state_size, shared_reward=self._is_shared)
        held: list[dict[str, np.ndarray]] = []
        for number, episode in enumerate(self._episodes):
            held.append({key: episode[key] for key in names})
            is_full = sum(len(one["rewards"]) for one in held) >= PART_ROWS
            if is_full or number == len(self._episodes) - 1:
                yield _join(held, spec, name)
                held = []

    def _close(self) -> None:
        """Puts the steps so far aside as an episode; who has not ended was cut off."""
        if not self._steps:
            return
        last = self._steps[-1]
        ends = convert.end_all(last["terminals"], last["agent_mask"])
        last["terminals"], last["truncations"] = ends
        names = set.intersection(*(set(step) for step in self._steps))
        episode = {name: np.stack([step[name] for step in self._steps]) for name in names}
        assert self._now is not None
        episode["final_observations"] = self._now.features[None]
        self._episodes.append(episode)
        self._steps, self._now = [], None

    def _look(self, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        self._now = convert.look(self._layout, observations, infos, self._env.agents)
        self._has_masks |= self._now.has_mask
        self._state = convert.read_state(self._env)


def record(
    env: Any,
    act: Act,
    episodes: int,
    name: str,
    seed: int | None = None,
    environment: str = "",
    environment_config: Mapping[str, Any] | None = None,
) -> list[Dataset]:
    """The parts of so many episodes in which `act` chooses; the rest as for `Recorder`."""
    recorder = Recorder(env, environment, environment_config)
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
