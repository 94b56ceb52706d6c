"""Oryx: an autoregressive sequence model over agents and time, trained by implicit-constraint
Q-learning (offline, any kind of action)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms._autoregressive import Trunk, autoregressive_policy
from oryx_marl.algorithms._icq import (
    ADVANTAGES,
    OBJECTIVES,
    Baseline,
    ExpectedBaseline,
    ExpectileBaseline,
    IcqSettings,
    NextAction,
    icq_loss,
)
from oryx_marl.algorithms._learner import require_discrete
from oryx_marl.algorithms._recurrent import InitialState, RecurrentConfig, RecurrentLearner
from oryx_marl.algorithms._split import over_batch
from oryx_marl.algorithms.base import Metrics, Policy
from oryx_marl.config import added
from oryx_marl.errors import OryxError
from oryx_marl.networks.heads import PolicyHead, family
from oryx_marl.networks.q_heads import QHead, make_q_head
from oryx_marl.networks.sable import NetworkConfig, Sable
from oryx_marl.ops.distributions import Actions, Distribution, categorical
from oryx_marl.ops.values import ActionValues
from oryx_marl.types import ActionSpace, Observation, Spec, Window

ACTING_ON_Q = 0.1
"""Temperature of acting on Q alone, where none is given."""


@dataclass(frozen=True)
class AutoregressiveConfig(RecurrentConfig):
    """Settings of ICQ for agents that choose one after the other."""

    batch_parts: int = 0
    """Parts in which the networks see a batch, to save memory (0: as few as fit); same results."""
    sequence_length: int = 20
    """Steps per window; 2 is the paper's ablation of memory."""
    discount: float = 0.99
    """γ: how much the next step's value counts."""
    td_lambda: float = 0.9
    """λ of TD(λ) targets: 0 is one step (paper), 1 goes to the end of the window."""
    act_with_ema: bool = True
    """Act with the target network, an exponential moving average, not with the newest weights."""
    critic_weight: float = 1.0
    """Weight of the critic's loss beside the policy's."""
    scale_values: bool = added(True, before=False)
    """Scale rewards so that logged returns have a root mean square of 1."""
    policy_temperature: float | None = None
    """α of the policy loss. Low: only the best logged actions have weight. High: cloning. Unset: it
    follows the spread of the advantages (paper: 0.1 to 10, by hand for each dataset)."""
    value_temperature: float = 1000.0
    """α of the critic's target (Eq. 3); values inflate below 1000, where the weights are all 1."""
    next_action: NextAction = "logged"
    """Whose value a target builds on: the next logged action (paper), or that expected of π."""
    num_critics: int = 1
    """Heads for Q; of several, the least next value counts."""
    num_action_samples: int = 8
    """Actions of the policy over which Q is averaged in a box; exact for discrete actions."""
    baseline: Baseline = added("expected", before="expected")
    """What an action's value is compared with: that expected of π (paper), or an expectile V of the
    logged actions' values, which is learned beside Q (implicit Q-learning)."""
    expectile: float = 0.7
    """Of V: ½ is the mean over the logged actions, nearer to 1 the best of them."""
    advantage: Literal["cumulative", "own"] = "own"
    """Weigh an action by the advantage of all agents up to it (paper) or its own (public code)."""
    objective: Literal["icq", "bc", "q_learning"] = "icq"
    """ICQ; behaviour cloning; or Q-learning that acts on Q alone (the ablation without ICQ)."""
    memory: bool = True
    """Off: every step is seen as if it were the first, in training and acting."""
    memory_when_acting: bool = True
    """Off: every step is seen as if it were the first, when acting alone."""
    permute_agents: bool = added(False, before=True)
    """Learn in a new random order of the agents at every update (paper), not in that of acting."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence_length < 2:
            raise OryxError(f"sequence_length must be at least 2, got {self.sequence_length}")
        if self.num_action_samples < 1:
            raise OryxError(f"num_action_samples must be at least 1, got {self.num_action_samples}")
        if not 0 < self.expectile < 1:
            raise OryxError(f"expectile must be between 0 and 1, got {self.expectile}")
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
            self.next_action,
            ADVANTAGES[self.advantage],
            OBJECTIVES[self.objective],
            ExpectileBaseline(self.expectile) if self.has_value else ExpectedBaseline(),
        )

    @property
    def has_value(self) -> bool:
        """Whether V is learned."""
        return self.baseline == "expectile"


@dataclass(frozen=True)
class Config(AutoregressiveConfig):
    """Settings of Oryx; the defaults were chosen on T-Maze."""

    network: NetworkConfig = field(default_factory=NetworkConfig)


class Network(eqx.Module):
    """A trunk with a policy head and a Q head on the decoder."""

    trunk: Trunk
    policy_head: PolicyHead
    q_head: QHead
    """Of all critics."""

    def __init__(
        self,
        keys: Array,
        trunk: Trunk,
        width: int,
        space: ActionSpace,
        num_critics: int = 1,
        has_value: bool = False,
    ) -> None:
        self.trunk = trunk
        self.policy_head = PolicyHead(keys[0], width, space)
        self.q_head = make_q_head(keys[1], width, space, num_critics, has_value)

    def __call__(
        self, observation: Observation, actions: Actions, ids: Int[Array, " N"]
    ) -> tuple[Float[Array, "*B T N P"], Float[Array, "*B T N Q"]]:
        """Outputs of both heads, given the logged actions of the agents before."""
        return self.resume(observation, actions, ids, None)[:2]

    def resume(
        self,
        observation: Observation,
        actions: Actions,
        ids: Int[Array, " N"],
        state: Any,
    ) -> tuple[Float[Array, "*B T N P"], Float[Array, "*B T N Q"], Any]:
        """The same from a recurrent state on, and the state after it; None: from an empty one."""
        if state is None:
            _, features = self.trunk(observation, actions, ids)
        else:
            _, features, state = self.trunk.resume(observation, actions, ids, state)
        return self.policy_head(features), self.q_head(features), state


class Carry(NamedTuple):
    """What is known at the start of a window, [B, ...]."""

    network: Any
    """Recurrent state of the online network."""
    target: Any
    """The same of the target network."""
    actions: Array
    """Of the step before, agents in their own order."""
    agent_mask: Array
    """Of the step before."""


Forward = Callable[
    [Observation, Array, Array, Any], tuple[Distribution, Sequence[ActionValues], Any]
]
"""`(observation [B, T, ...], actions [B, T, N, ...], ids [N], state) -> the policy, the values of
all critics [B, T, N], and the recurrent state after them`; None: from an empty state."""


def loss(
    network: Forward,
    target: Forward,
    window: Window,
    ids: Int[Array, " N"],
    config: AutoregressiveConfig,
    states: tuple[Any, Any] = (None, None),
) -> tuple[Float[Array, ""], tuple[Metrics, tuple[Any, Any]]]:
    """Critic and policy loss of a batch [B, T, N] (Algorithm 1); agents in the order of `ids`.

    `states` are recurrent states of the two networks before the windows; those after come back.
    """
    observation, actions = window.observation, window.actions
    seen = observation if config.memory else _forget(observation)
    policy, critics, state = network(seen, actions, ids, states[0])
    _, targets, target_state = target(seen, actions, ids, states[1])
    total, metrics = icq_loss(policy, critics, targets, window, config.icq)
    return total, (metrics, (state, target_state))


def _forget(observation: Observation) -> Observation:
    return observation._replace(reset=jnp.ones_like(observation.reset))


@dataclass(frozen=True)
class Oryx(RecurrentLearner):
    """The learner; see algorithms/base.py for what each method promises."""

    @property
    def batch_parts(self) -> int:
        return self.config.batch_parts

    def make_network(self, key: Array) -> Network:
        keys, config = jax.random.split(key, 3), self.config
        size = config.network.width, self.spec.action, config.num_critics
        return Network(keys[1:], self.make_trunk(keys[0]), *size, config.has_value)

    def make_trunk(self, key: Array) -> Trunk:
        return Sable(key, self.spec, self.config.network)

    @property
    def initial_state(self) -> InitialState:
        return self.config.initial_state if self.config.memory else "zeros"

    def init_carry(self, network: Network, target: Network) -> Carry:
        agents, state = self.spec.num_agents, network.trunk.init_state()
        actions = family(self.spec.action).zeros((agents,))
        return Carry(state, state, actions, jnp.zeros(agents, bool))

    def sequence_loss(
        self, network: Network, target: Network, window: Window, carry: Carry | None, key: Array
    ) -> tuple[Float[Array, ""], tuple[Metrics, Carry | None]]:
        """One joint step for all agents."""
        ids = jnp.arange(self.spec.num_agents)
        if self.config.permute_agents:
            ids = jax.lax.optimization_barrier(jax.random.permutation(key, ids))
        noise = self._draw_noise(window, key)
        cut, cut_target = self._in_parts(network, noise), self._in_parts(target, noise)
        states: tuple[Any, Any] = (None, None)
        if carry is not None and self.config.permute_agents:
            states = self._reorder(network, carry, ids)
        elif carry is not None:
            states = carry.network, carry.target
        total, (metrics, states) = loss(
            cut, cut_target, window.reorder(ids), ids, self.config, states
        )
        if carry is None:
            return total, (metrics, None)
        last_actions, last_mask = window.actions[:, -1], window.observation.agent_mask[:, -1]
        return total, (metrics, Carry(states[0], states[1], last_actions, last_mask))

    def _reorder(self, network: Network, carry: Carry, ids: Int[Array, " N"]) -> tuple[Any, Any]:
        """Recurrent states of both networks, for agents in another order than before."""
        last = carry.actions[:, ids], carry.agent_mask[:, ids]
        remember = network.trunk.remember_last
        return remember(carry.network, *last), remember(carry.target, *last)

    def _draw_noise(self, window: Window, key: Array) -> Float[Array, "K B T N A"] | None:
        """Of the actions over which Q is averaged; None where it is summed over all of them."""
        if self.spec.action.kind == "discrete":
            return None
        shape = (self.config.num_action_samples, *window.rewards.shape)
        return family(self.spec.action).draw_noise(jax.random.fold_in(key, 2), shape)

    def _in_parts(self, network: Network, noise: Array | None) -> Forward:
        def forward(
            observation: Observation, actions: Array, ids: Array, state: Any
        ) -> tuple[Distribution, Sequence[ActionValues], Any]:
            def run(weights: tuple[Network, Array], batch: tuple[Observation, Array, Any]) -> Any:
                network, ids = weights
                observation, actions, state = batch
                return network.resume(observation, actions, ids, state)

            parts = max(self.config.batch_parts, 1)
            outputs, q, state = over_batch(
                run, parts, (network, ids), (observation, actions, state)
            )
            policy = network.policy_head.distribution(outputs, observation.action_mask)
            return policy, network.q_head.values(q, noise), state

        return forward

    def move_target(self, network: Network, target: Network, count: Int[Array, ""]) -> Network:
        return optax.incremental_update(network, target, self.config.tau)

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
        if config.icq.objective.imitates:
            return policy
        q = network.q_head(features)[..., : self.spec.action.size]
        return categorical(q / (config.policy_temperature or ACTING_ON_Q), mask)

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
    if config.objective == "q_learning":
        require_discrete("Oryx with objective=q_learning", spec)
    return Oryx(config, spec)
