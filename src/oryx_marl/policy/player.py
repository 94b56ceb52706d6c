"""A trained policy in plain Python: shown what the agents see, it says what they do."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.envs.base import find_action_names
from oryx_marl.policy.acting import name_of, resolve, temperature_of
from oryx_marl.policy.arranging import PerAgent, arrange, name_actions
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.types import Observation


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
        features, masks, agent_mask, told = arrange(self.spec, observations, action_mask, rewards)
        shown = Observation(
            jnp.asarray(features),
            jnp.asarray(masks),
            jnp.asarray(agent_mask),
            jnp.asarray(self._count == 0),
            jnp.asarray(self._count, jnp.int32),
            jnp.asarray(told),
        )
        batch = jax.tree.map(lambda x: x[None], shown)
        key = jax.random.fold_in(jax.random.fold_in(self._key, self._episode), self._count)
        self._carry, actions, _ = self._step(self._carry, batch, key)
        self._count += 1
        return name_actions(self.spec, observations, agent_mask, np.asarray(actions[0]))


def _describe(artifact: PolicyArtifact, seed: int, act: str | float) -> str:
    """What acts, in one line."""
    update = artifact.origin.get("update")
    parts = [f"'{artifact.name}'", f"{artifact.spec.num_agents} agents"]
    parts += [] if update is None else [f"update {update:,}"]
    parts.append(f"seed {seed} of {len(artifact.seeds)}")
    return ", ".join([*parts, name_of(act)])
