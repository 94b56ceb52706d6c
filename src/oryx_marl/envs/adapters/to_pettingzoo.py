"""Our environments behind PettingZoo's parallel API."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from oryx_marl.envs.base import Env
from oryx_marl.errors import OryxError
from oryx_marl.types import Step

RENDER_MODES = ("rgb_array", "ansi")


class NoStateError(OryxError, NotImplementedError):
    """What PettingZoo's environments raise that have no global state."""


@lru_cache(maxsize=16)
def _compile(env: Env) -> tuple[Any, Any]:
    """Reset and step, compiled once for all environments that are equal."""
    return jax.jit(env.reset), jax.jit(env.step)


class PettingZoo(ParallelEnv):
    """One episode at a time, compiled, with agents by name.

    An observation is {"observation": features, "action_mask": int8, 1 where an action is legal};
    continuous actions have no mask. Agents leave when they are terminated or truncated. What the
    environment reports as metrics is in the infos of every agent.
    """

    def __init__(self, env: Env, render_mode: str | None = None) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise OryxError(
                f"render_mode must be one of {', '.join(RENDER_MODES)}, got '{render_mode}'"
            )
        self.env = env
        self.render_mode = render_mode
        self.metadata = {"name": env.name, "render_modes": [*RENDER_MODES]}
        self.possible_agents = [*env.spec.agents]
        self.agents: list[str] = []
        self._reset, self._step = _compile(env)
        self._last: Any = None
        self._key = jax.random.key(np.random.SeedSequence().generate_state(1)[0])
        dtype = jax.eval_shape(env.reset, self._key)[1].observation.features.dtype
        self._observation_spaces = {
            agent: self._make_observation_space(size, dtype)
            for agent, size in zip(env.spec.agents, env.spec.observation_sizes, strict=True)
        }
        self._action_spaces = {agent: self._make_action_space() for agent in env.spec.agents}

    def observation_space(self, agent: str) -> spaces.Space:
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict]]:
        """A new episode; with a seed always the same, without one the next of a stream."""
        del options  # there are none
        if seed is not None:
            self._key = jax.random.key(seed)
        self.agents = [*self.possible_agents]
        self._state, step = self._reset(self._next_key())
        self._last = jax.device_get(step)
        return self._observe(self._last), self._inform(self._last)

    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Everybody acts; for agents that have left any legal action is taken."""
        last = self._require_reset()
        if not self.agents:
            return {}, {}, {}, {}, {}
        space = self.env.spec.action
        if space.kind == "discrete":
            chosen = last.observation.action_mask.argmax(axis=-1).astype(np.int32)
        else:
            chosen = np.zeros((len(self.possible_agents), space.size), np.float32)
        if missing := [agent for agent in self.agents if agent not in actions]:
            raise OryxError(f"there is no action of {', '.join(missing)}")
        for agent, action in actions.items():
            if agent not in self.possible_agents:
                known = ", ".join(self.possible_agents)
                raise OryxError(f"there is no agent '{agent}'; there are: {known}")
            if agent in self.agents:
                chosen[self.possible_agents.index(agent)] = self._check_action(agent, action)
        self._state, step = self._step(self._state, jnp.asarray(chosen), self._next_key())
        self._last = jax.device_get(step)
        rewards = self._by_agent(self._last.rewards)
        terminations = self._by_agent(self._last.terminal)
        truncations = self._by_agent(self._last.truncated)
        seen: dict[str, Any] = self._observe(self._last)
        infos = self._inform(self._last)
        self.agents = [a for a in self.agents if not (terminations[a] or truncations[a])]
        return seen, rewards, terminations, truncations, infos

    def state(self) -> np.ndarray:
        """The global state, for training alone."""
        state = self._require_reset().state
        if state is None:
            raise NoStateError(f"environment '{self.env.name}' has no global state")
        return state

    def render(self) -> np.ndarray | str | None:
        if self.render_mode is None:
            return None
        draw = self.env.render_rgb if self.render_mode == "rgb_array" else self.env.render_text
        return draw(self._state)

    def close(self) -> None:
        """Nothing is open."""

    def _require_reset(self) -> Any:
        """The last step, in arrays of numpy."""
        if self._last is None:
            raise OryxError("no episode has begun; call reset() first")
        return self._last

    def _check_action(self, agent: str, action: Any) -> np.ndarray:
        """An action of the agent's space, as an array; JAX's and torch's arrays are fine too."""
        space, found = self.action_space(agent), np.asarray(action)
        if isinstance(space, spaces.Box):
            found = found.astype(np.float32)
        if not space.contains(found):
            raise OryxError(f"{action} is no action of {agent}; its actions are {space}")
        return found

    def _next_key(self) -> jax.Array:
        self._key, key = jax.random.split(self._key)
        return key

    def _by_agent(self, values: np.ndarray) -> dict[str, Any]:
        """Plain numbers of the agents that are still here."""
        return {
            agent: value.item()
            for agent, value in zip(self.possible_agents, values, strict=True)
            if agent in self.agents
        }

    def _observe(self, step: Step) -> dict[str, Any]:
        found = {}
        for index, agent in enumerate(self.possible_agents):
            if agent not in self.agents:
                continue
            size = self.env.spec.observation_sizes[index]
            found[agent] = {"observation": step.observation.features[index, :size]}
            if self.env.spec.action.kind == "discrete":
                found[agent]["action_mask"] = step.observation.action_mask[index].astype(np.int8)
        return found

    def _inform(self, step: Step) -> dict[str, dict]:
        """The environment's metrics, the same for every agent that is still here."""
        metrics = {name: value.item() for name, value in step.metrics.items()}
        return {agent: dict(metrics) for agent in self.agents}

    def _make_observation_space(self, size: int, dtype: Any) -> spaces.Space:
        low, high = self.env.feature_range
        seen = spaces.Box(dtype.type(low), dtype.type(high), (size,), dtype.type)
        parts: dict[str, spaces.Space] = {"observation": seen}
        if self.env.spec.action.kind == "discrete":
            parts["action_mask"] = spaces.Box(0, 1, (self.env.spec.action.size,), np.int8)
        return spaces.Dict(parts)

    def _make_action_space(self) -> spaces.Space:
        action = self.env.spec.action
        if action.kind == "discrete":
            return spaces.Discrete(action.size)
        return spaces.Box(np.array(action.low, np.float32), np.array(action.high, np.float32))
