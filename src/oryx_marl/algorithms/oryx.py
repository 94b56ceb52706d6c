"""Oryx: an autoregressive sequence model over agents and time, trained by implicit-constraint
Q-learning (offline, discrete actions)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms._autoregressive import Trunk, autoregressive_policy
from oryx_marl.algorithms._icq import ADVANTAGES, OBJECTIVES, IcqSettings, icq_loss
from oryx_marl.algorithms._learner import (
    LearnerState,
    OfflineConfig,
    OfflineLearner,
    require_discrete,
)
from oryx_marl.algorithms._split import over_batch
from oryx_marl.algorithms.base import Metrics, Policy
from oryx_marl.errors import OryxError
from oryx_marl.networks.heads import PolicyHead
from oryx_marl.networks.layers import Head
from oryx_marl.networks.sable import NetworkConfig, Sable
from oryx_marl.ops.distributions import Distribution, categorical
from oryx_marl.ops.values import DiscreteValues
from oryx_marl.types import ActionSpace, Observation, Spec, Window


@dataclass(frozen=True)
class AutoregressiveConfig(OfflineConfig):
    """Settings of ICQ for agents that choose one after the other."""

    batch_parts: int = 0
    """Parts in which the networks see a batch, to save memory (0: as few as fit); same results."""
    sequence_length: int = 20
    """Steps per window; 2 is the paper's ablation of memory."""
    discount: float = 0.99
    """γ: how much the next step's value counts."""
    td_lambda: float = 0.9
    """λ of TD(λ) targets: 0 is one step (paper), 1 goes to the end of the window."""
    tau: float = 0.005
    """Share by which the target network moves to the trained weights at each update."""
    act_with_ema: bool = True
    """Act with the target network, an exponential moving average, not with the newest weights."""
    critic_weight: float = 1.0
    """Weight of the critic's loss beside the policy's."""
    policy_temperature: float = 0.1
    """α of the policy loss. Low: only the best logged actions have weight. High: cloning."""
    value_temperature: float = 1000.0
    """α of the critic's target (Eq. 3). Low values inflate Q; at 1000 the weights are all 1."""
    advantage: Literal["cumulative", "own"] = "cumulative"
    """Weigh an action by the advantage of all agents up to it (paper) or its own (public code)."""
    objective: Literal["icq", "bc", "q_learning"] = "icq"
    """ICQ; behaviour cloning; or Q-learning that acts on Q alone (the ablation without ICQ)."""
    memory: bool = True
    """Off: every step is seen as if it were the first, in training and acting."""
    memory_when_acting: bool = True
    """Off: every step is seen as if it were the first, when acting alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence_length < 2:
            raise OryxError(f"sequence_length must be at least 2, got {self.sequence_length}")
        if self.batch_parts < 0 or (self.batch_parts and self.batch_size % self.batch_parts):
            raise OryxError(
                f"batch_parts must divide batch_size ({self.batch_size}), got {self.batch_parts}; "
                "0 chooses by the memory there is"
            )

    @property
    def acts_greedily(self) -> bool:
        """Q-learning takes the action of the highest value; a learned policy is sampled."""
        return self.objective == "q_learning"

    @property
    def icq(self) -> IcqSettings:
        """What the loss takes of them."""
        return IcqSettings(
            self.discount,
            self.td_lambda,
            self.critic_weight,
            self.policy_temperature,
            self.value_temperature,
            ADVANTAGES[self.advantage],
            OBJECTIVES[self.objective],
        )


@dataclass(frozen=True)
class Config(AutoregressiveConfig):
    """Settings of Oryx; the defaults were chosen on T-Maze."""

    network: NetworkConfig = field(default_factory=NetworkConfig)


class Network(eqx.Module):
    """A trunk with a policy head and a Q head on the decoder."""

    trunk: Trunk
    policy_head: PolicyHead
    q_head: Head

    def __init__(self, keys: Array, trunk: Trunk, width: int, space: ActionSpace) -> None:
        self.trunk = trunk
        self.policy_head = PolicyHead(keys[0], width, space)
        self.q_head = Head(keys[1], width, space.size)

    def __call__(
        self, observation: Observation, actions: Int[Array, "*B T N"], ids: Int[Array, " N"]
    ) -> tuple[Float[Array, "*B T N A"], Float[Array, "*B T N A"]]:
        """Outputs of both heads, given the logged actions of the agents before."""
        _, features = self.trunk(observation, actions, ids)
        return self.policy_head(features), self.q_head(features)


Forward = Callable[[Observation, Array, Array], tuple[Array, Array]]
"""`(observation [B, T, ...], actions [B, T, N], ids [N]) -> outputs of both heads [B, T, N, A]`."""


def loss(
    network: Forward,
    target: Forward,
    window: Window,
    ids: Int[Array, " N"],
    config: AutoregressiveConfig,
) -> tuple[Float[Array, ""], Metrics]:
    """Critic and policy loss of a batch [B, T, N] (Algorithm 1); agents in the order of `ids`."""
    observation, actions = window.observation, window.actions
    seen = observation if config.memory else _forget(observation)
    logits, q = network(seen, actions, ids)
    _, target_q = target(seen, actions, ids)
    policy = categorical(logits, observation.action_mask)
    return icq_loss(policy, DiscreteValues(q), DiscreteValues(target_q), window, config.icq)


def _forget(observation: Observation) -> Observation:
    return observation._replace(reset=jnp.ones_like(observation.reset))


@dataclass(frozen=True)
class Oryx(OfflineLearner):
    """The learner; see algorithms/base.py for what each method promises."""

    @property
    def batch_parts(self) -> int:
        return self.config.batch_parts

    def make_network(self, key: Array) -> Network:
        keys = jax.random.split(key, 3)
        trunk = self.make_trunk(keys[0])
        return Network(keys[1:], trunk, self.config.network.width, self.spec.action)

    def make_trunk(self, key: Array) -> Trunk:
        return Sable(key, self.spec, self.config.network)

    def loss(
        self, network: Network, target: Network, window: Window, key: Array
    ) -> tuple[Float[Array, ""], Metrics]:
        """One joint step for all agents, in a random order of the agents."""
        ids = jax.lax.optimization_barrier(jax.random.permutation(key, self.spec.num_agents))
        cut, cut_target = self._in_parts(network), self._in_parts(target)
        return loss(cut, cut_target, window.reorder(ids), ids, self.config)

    def _in_parts(self, network: Network) -> Forward:
        def forward(observation: Observation, actions: Array, ids: Array) -> tuple[Array, Array]:
            def run(weights: tuple[Network, Array], batch: tuple[Observation, Array]) -> Any:
                return weights[0](*batch, weights[1])

            parts = max(self.config.batch_parts, 1)
            return over_batch(run, parts, (network, ids), (observation, actions))

        return forward

    def move_target(self, network: Network, target: Network, count: Int[Array, ""]) -> Network:
        return optax.incremental_update(network, target, self.config.tau)

    def weights(self, state: LearnerState) -> Network:
        return state.target if self.config.act_with_ema else state.network

    def distribution(
        self, weights: Network, window: Window, carry: Any = None
    ) -> tuple[Distribution, Any]:
        observation, ids = window.observation, jnp.arange(self.spec.num_agents)
        seen = observation if self.config.memory else _forget(observation)
        if carry is None:
            _, features = weights.trunk(seen, window.actions, ids)
        else:
            _, features, carry = weights.trunk.resume(seen, window.actions, ids, carry)
        return self._acting(weights, features, observation.action_mask), carry

    def _acting(self, network: Network, features: Array, mask: Array) -> Distribution:
        """What actions are drawn from."""
        config, head = self.config, network.policy_head
        policy = head.distribution(head(features), mask)
        q = network.q_head(features)
        return config.icq.objective.acting(policy, q, mask, config.policy_temperature)

    def policy(self, weights: Network) -> Policy:
        network, config = weights, self.config

        def choose(features: Array, mask: Array, noise: Array) -> tuple[Array, Distribution]:
            found = self._acting(network, features, mask)
            return found.sample(noise), found

        def act(carry: Any, observation: Observation, noise: Array) -> tuple[Any, Array, Any]:
            """Actions, and the distributions they come from."""
            remembers = config.memory and config.memory_when_acting
            seen = observation if remembers else _forget(observation)
            acted = jax.vmap(lambda c, o, n: network.trunk.act(c, o, choose, n))(carry, seen, noise)
            return acted.recurrent_state, acted.actions, acted.info

        return autoregressive_policy(network.trunk, act, self.spec)


def make(config: Config, spec: Spec) -> Oryx:
    """Oryx for data of this Spec."""
    require_discrete("Oryx", spec)
    return Oryx(config, spec)
