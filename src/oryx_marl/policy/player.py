"""A trained policy in plain Python: shown what the agents see, it says what they do."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl import experiment
from oryx_marl.errors import OryxError
from oryx_marl.types import Observation

PerAgent = Mapping[str, Any] | Sequence[Any] | np.ndarray
"""One entry for each agent: by name, or in the order of `Player.spec.agents`."""


class Player:
    """Acts step by step and remembers, until `reset`, what it has seen and done."""

    def __init__(
        self, loaded: experiment.Loaded, which: str, seed: int, greedy: bool, random_seed: int
    ) -> None:
        self.spec = loaded.spec
        self.action_names: list[str] | None = loaded.config.get("action_names")
        """What the logs called each action, where they had words for them."""
        numbers = loaded.config["seeds"]
        if seed not in numbers:
            raise OryxError(f"this run has no seed {seed}; it has {numbers}")
        state = loaded.state
        stacked = state.best if which == "best" else loaded.algorithm.weights(state.learners)
        weights = jax.tree.map(lambda x: jnp.asarray(x[numbers.index(seed)]), stacked)
        self._policy = loaded.algorithm.policy(weights, greedy)
        self._step = jax.jit(self._policy.step)
        self._key = jax.random.key(random_seed)
        self.reset()

    def reset(self) -> None:
        """An episode begins: nothing is remembered."""
        self._memory, self._count = self._policy.init(1), 0

    def act(
        self,
        observation: PerAgent,
        legal: PerAgent | None = None,
        rewards: PerAgent | None = None,
    ) -> Any:
        """The action of each agent, by name if the observation is by name.

        Agents that are not named, or whose observation is None, are absent. `legal` says which
        actions may be taken (default: all); `rewards` are those of the step before, which some
        policies (MADT) want to know.
        """
        seen = self._by_agent(observation, "observation")
        present = np.array([each is not None for each in seen])
        features = np.stack([self._features(i, each) for i, each in enumerate(seen)])
        allowed = self._legal(legal, present)
        told = [0.0 if each is None else float(each) for each in self._by_agent(rewards, "rewards")]
        shown = Observation(
            jnp.asarray(features),
            jnp.asarray(allowed),
            jnp.asarray(present),
            jnp.asarray(self._count == 0),
            jnp.asarray(self._count, jnp.int32),
            jnp.asarray(told, jnp.float32),
        )
        batch = jax.tree.map(lambda x: x[None], shown)
        key = jax.random.fold_in(self._key, self._count)
        self._memory, actions, _ = self._step(self._memory, batch, key)
        self._count += 1
        chosen = np.asarray(actions[0])
        if not isinstance(observation, Mapping):
            return chosen
        pairs = zip(self.spec.agents, chosen, present, strict=True)
        return {name: action for name, action, is_here in pairs if is_here}

    def _by_agent(self, values: PerAgent | None, what: str) -> list[Any]:
        """One entry per agent, None for those of whom nothing is said."""
        agents = self.spec.agents
        if values is None:
            return [None] * len(agents)
        if isinstance(values, Mapping):
            if unknown := set(values) - set(agents):
                raise OryxError(f"{what}: there is no agent {sorted(unknown)}, only {list(agents)}")
            return [values.get(name) for name in agents]
        if len(values) != len(agents):
            raise OryxError(
                f"{what} must have one entry for each of {len(agents)} agents, got {len(values)}"
            )
        return list(values)

    def _features(self, agent: int, values: Any) -> np.ndarray:
        """Features of an agent, filled up with zeros to those of the agent that has most."""
        padded = np.zeros(self.spec.observation_size, np.float32)
        if values is None:
            return padded
        given = np.asarray(values, np.float32)
        sizes = {self.spec.observation_sizes[agent], self.spec.observation_size}
        if given.ndim != 1 or len(given) not in sizes:
            raise OryxError(
                f"the observation of {self.spec.agents[agent]} must have "
                f"{self.spec.observation_sizes[agent]} numbers, got shape {given.shape}"
            )
        if not np.all(np.isfinite(given)):
            raise OryxError(
                f"the observation of {self.spec.agents[agent]} has numbers that are "
                f"not finite: {given.tolist()}"
            )
        padded[: len(given)] = given
        return padded

    def _legal(self, legal: PerAgent | None, present: np.ndarray) -> np.ndarray:
        """Masks [N, A]; of absent agents, and of those of whom nothing is said, full."""
        masks = np.ones((self.spec.num_agents, self.spec.action.size), bool)
        for agent, given in enumerate(self._by_agent(legal, "legal")):
            if given is None or not present[agent]:
                continue
            mask, name = np.asarray(given, bool), self.spec.agents[agent]
            if mask.shape != masks[agent].shape:
                raise OryxError(
                    f"legal of {name} must have {self.spec.action.size} entries, "
                    f"got shape {mask.shape}"
                )
            if not mask.any():
                raise OryxError(f"legal of {name} allows no action at all")
            masks[agent] = mask
        return masks


def load(
    run: str | Path,
    which: Literal["last", "best"] = "last",
    seed: int | None = None,
    greedy: bool = False,
    random_seed: int = 0,
) -> Player:
    """The policy of a run: of its last weights or of its best evaluation, and of one of its seeds
    (default: the first). With `greedy` the likeliest action, else one drawn by the odds."""
    loaded = experiment.load(Path(run))
    if which not in ("last", "best"):
        raise OryxError(f"which must be 'last' or 'best', got {which!r}")
    first = loaded.config["seeds"][0]
    return Player(loaded, which, first if seed is None else seed, greedy, random_seed)
