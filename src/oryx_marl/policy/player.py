"""A trained policy in plain Python: shown what the agents see, it says what they do."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.envs.base import find_action_names
from oryx_marl.errors import OryxError
from oryx_marl.policy.acting import name_of, resolve, temperature_of
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.types import Observation

PerAgent = Mapping[str, Any] | Sequence[Any] | np.ndarray
"""One entry for each agent: by name, or in the order of `Player.spec.agents`."""


class Player:
    """Acts step by step and remembers, until `reset`, what it has seen and done.

    One Player plays one episode at a time: episodes that run side by side need a Player each. The
    first `act` compiles, which takes seconds.

    Attributes:
        spec: The Spec it was trained on: `spec.agents` are the names of the agents in their order,
            `spec.observation_sizes` their numbers of features.
        action_names: What the logs, or else a known environment, call each action, in the order of
            the action ids; None if neither does.

    Args:
        artifact: The policy.
        seed: Which of its seeds acts (default: the first).
        act: How it acts: "sampled" (drawn by the odds), "greedy" (the likeliest action) or a
            temperature between them, such as 0.25 (default: sampled; of continuous actions greedy).
        random_seed: Of the draws: the same number gives the same sequence of episodes.
    """

    def __init__(
        self,
        artifact: PolicyArtifact,
        seed: int | None = None,
        act: str | float | None = None,
        random_seed: int = 0,
    ) -> None:
        self.spec = artifact.spec
        act = resolve(act, artifact.spec.action)
        told: list[str] | None = artifact.origin.get("action_names")
        self.action_names: list[str] | None = told or find_action_names(artifact.spec)
        """What the logs, or else a known environment, call each action; None if neither does."""
        self._about = _describe(artifact, artifact.seeds[0] if seed is None else seed, act)
        weights = jax.tree.map(jnp.asarray, artifact.weights_of(seed))
        policy = artifact.algorithm.policy(weights)
        self._policy = policy.at_temperature(temperature_of(act))
        self._step = jax.jit(self._policy.step)
        self._key = jax.random.key(random_seed)
        self._carry, self._count, self._episode = self._policy.init(1), 0, 0

    def __repr__(self) -> str:
        return f"Player({self._about})"

    def reset(self) -> None:
        """Begins the next episode: nothing is remembered, and other random numbers are drawn.

        Before the first step of an episode it changes nothing, so a loop that resets before every
        episode and one that resets after every episode get the same sequence.
        """
        self._episode += self._count > 0
        self._carry, self._count = self._policy.init(1), 0

    def act(
        self,
        observations: PerAgent,
        action_mask: PerAgent | None = None,
        rewards: PerAgent | None = None,
    ) -> Any:
        """The action of each agent, by name if the observations are by name.

        Args:
            observations: Features of each agent, or what our PettingZoo environments show it:
                {"observation": features, "action_mask": mask}. Agents that are not named, or whose
                observation is None, are absent.
            action_mask: Which actions each agent may take (default: the mask beside its
                observation, else all).
            rewards: Of the step before, which some policies (MADT) want to know.

        Returns:
            Actions [N], numpy integers, or [N, A] floats of a box; by name a dict of those agents
            that are present. `action_names[int(action)]` is the word of an action.
        """
        seen, beside = self._split_masks(self._by_agent(observations, "observations"))
        given = self._by_agent(action_mask, "action_mask")
        masks = [
            one if one is not None else other for one, other in zip(given, beside, strict=True)
        ]
        agent_mask = np.array([each is not None for each in seen])
        told = [0.0 if each is None else float(each) for each in self._by_agent(rewards, "rewards")]
        shown = Observation(
            jnp.asarray(np.stack([self._features(i, each) for i, each in enumerate(seen)])),
            jnp.asarray(self._masks(masks, agent_mask)),
            jnp.asarray(agent_mask),
            jnp.asarray(self._count == 0),
            jnp.asarray(self._count, jnp.int32),
            jnp.asarray(told, jnp.float32),
        )
        batch = jax.tree.map(lambda x: x[None], shown)
        key = jax.random.fold_in(jax.random.fold_in(self._key, self._episode), self._count)
        self._carry, actions, _ = self._step(self._carry, batch, key)
        self._count += 1
        chosen = np.asarray(actions[0])
        if not isinstance(observations, Mapping):
            return chosen
        pairs = zip(self.spec.agents, chosen, agent_mask, strict=True)
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

    def _split_masks(self, seen: list[Any]) -> tuple[list[Any], list[Any]]:
        """Features and masks, where PettingZoo shows them together."""
        features: list[Any] = []
        masks: list[Any] = []
        for name, each in zip(self.spec.agents, seen, strict=True):
            if not isinstance(each, Mapping):
                features.append(each)
                masks.append(None)
                continue
            if "observation" not in each:
                raise OryxError(
                    f"the observation of {name} is a dict with {sorted(each)}; its features must "
                    'stand under "observation", and may have an "action_mask" beside them'
                )
            features.append(each["observation"])
            masks.append(each.get("action_mask"))
        return features, masks

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

    def _masks(self, given: list[Any], agent_mask: np.ndarray) -> np.ndarray:
        """Masks [N, A]; of absent agents, and of those of whom nothing is said, full."""
        masks = np.ones((self.spec.num_agents, self.spec.action.size), bool)
        for agent, each in enumerate(given):
            if each is None or not agent_mask[agent]:
                continue
            mask, name = np.asarray(each, bool), self.spec.agents[agent]
            if self.spec.action.kind == "box":
                raise OryxError(f"action_mask of {name}: actions of a box have no mask")
            if mask.shape != masks[agent].shape:
                raise OryxError(
                    f"action_mask of {name} must have {self.spec.action.size} entries, "
                    f"got shape {mask.shape}"
                )
            if not mask.any():
                raise OryxError(f"action_mask of {name} allows no action at all")
            masks[agent] = mask
        return masks


def _describe(artifact: PolicyArtifact, seed: int, act: str | float) -> str:
    """What acts, in one line."""
    update = artifact.origin.get("update")
    parts = [f"'{artifact.name}'", f"{artifact.spec.num_agents} agents"]
    parts += [] if update is None else [f"update {update:,}"]
    parts.append(f"seed {seed} of {len(artifact.seeds)}")
    return ", ".join([*parts, name_of(act)])
