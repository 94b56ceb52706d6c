"""The toy game "meet" behind PettingZoo's parallel interface, in numpy alone: no JAX here."""

import sys
from typing import Any

import numpy as np
from gymnasium import spaces

AGENTS = ("left", "right")
LIMIT = 10
REACH = 0.5
"""How far an agent moves in one step, at most."""
NEAR = 0.1
"""How near its target an agent must be to be called near."""


class Meet:
    """Each agent has a position in [-1, 1] and a target; it is paid minus the distance to it.

    It sees both numbers; infos tell the share of agents that are near their targets.
    """

    metadata: dict = {"name": "meet"}  # noqa: RUF012
    render_mode = None

    def __init__(self) -> None:
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        draws = np.random.default_rng(seed).uniform(-1, 1, (2, len(AGENTS))).astype(np.float32)
        self._positions, self._targets = draws
        self._count, self.agents = 0, list(AGENTS)
        return self._see(), self._tell()

    def step(self, actions: Any) -> Any:
        moves = np.array([actions[agent][0] for agent in AGENTS], np.float32)
        self._positions = np.clip(self._positions + REACH * moves, -1, 1).astype(np.float32)
        self._count += 1
        is_over = self._count >= LIMIT
        rewards = dict(zip(AGENTS, (-self._distances()).tolist(), strict=True))
        self.agents = [] if is_over else list(AGENTS)
        ends = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, is_over)
        return self._see(), rewards, *ends, self._tell()

    def close(self) -> None:
        pass

    def _distances(self) -> np.ndarray:
        return np.abs(self._positions - self._targets)

    def _see(self) -> dict[str, np.ndarray]:
        seen = np.stack([self._positions, self._targets], axis=1)
        return dict(zip(AGENTS, seen, strict=True))

    def _tell(self) -> dict[str, dict]:
        near = self._distances() < NEAR
        return {agent: {"near": bool(x)} for agent, x in zip(AGENTS, near, strict=True)}


def parallel_env() -> Meet:
    """One environment."""
    return Meet()


class Informer(Meet):
    """Reports whether JAX is loaded in its process, and the process."""

    def _tell(self) -> dict[str, dict]:
        import os

        return {agent: {"jax": "jax" in sys.modules, "process": os.getpid()} for agent in AGENTS}


class Breaking(Meet):
    """Fails in its third step."""

    def step(self, actions: Any) -> Any:
        if self._count == 2:
            raise ValueError("the wheel came off")
        return super().step(actions)


class Dying(Meet):
    """Its process ends in the third step."""

    def step(self, actions: Any) -> Any:
        import os

        if self._count == 2:
            os._exit(3)
        return super().step(actions)


class Relay:
    """Three runners of unequal sight; runner k leaves after k + 2 steps, the last by the clock.

    Discrete actions begin with 1; 'a' has two of them, of which the second is illegal, the others
    have three. Whether the relay was won is told at the end alone.
    """

    metadata: dict = {"name": "relay"}  # noqa: RUF012

    def __init__(self) -> None:
        self.possible_agents = ["a", "b", "c"]
        self.agents: list[str] = []
        self.acted: list[dict] = []

    def observation_space(self, agent: str) -> Any:
        seen = spaces.Box(0, 99, (self.possible_agents.index(agent) + 1,), np.int16)
        mask = spaces.Box(0, 1, (3,), np.int8)
        return spaces.Dict({"observation": seen, "action_mask": mask}) if agent == "b" else seen

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2 if agent == "a" else 3, start=1)

    def state(self) -> np.ndarray:
        return np.array([self._count, self._seed], np.float64)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self._count, self._seed, self.agents = 0, seed, list(self.possible_agents)
        return self._see(self.agents), self._tell(self.agents)

    def step(self, actions: Any) -> Any:
        assert set(actions) == set(self.agents)
        self.acted.append(dict(actions))
        before, self._count = self.agents, self._count + 1
        out = {agent: self._count >= place + 2 for place, agent in enumerate("abc")}
        self.agents = [agent for agent in before if not out[agent]]
        return (
            self._see(before),
            {agent: float(self._count) + (agent == "c") for agent in before},
            {agent: out[agent] and agent != "c" for agent in before},
            {agent: out[agent] for agent in before},
            self._tell(before),
        )

    def close(self) -> None:
        self.is_closed = True

    def _see(self, agents: list[str]) -> Any:
        found: dict[str, Any] = {}
        for agent in agents:
            found[agent] = np.full(self.possible_agents.index(agent) + 1, self._count, np.int16)
            if agent == "b":
                mask = np.array([0, 1, 1], np.int8)
                found[agent] = {"observation": found[agent], "action_mask": mask}
        return found

    def _tell(self, agents: list[str]) -> Any:
        infos: dict[str, dict] = {agent: {"text": "x", "odd": np.nan} for agent in agents}
        if "a" in infos:
            infos["a"]["action_mask"] = np.array([1, 0], np.int8)
        if self._count == 2:
            infos["b"]["halfway"] = np.float32(7)
        if self._count == 4:
            infos["c"] |= {"won": True, "length": 99}
        return infos
