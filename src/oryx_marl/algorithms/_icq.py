"""Implicit-constraint Q-learning on given policies and action values: the loss that Oryx and others
share, and what can take the place of its parts."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from oryx_marl.algorithms.base import Metrics
from oryx_marl.ops import icq
from oryx_marl.ops.distributions import Distribution, categorical
from oryx_marl.ops.masked import masked_mean
from oryx_marl.ops.returns import td_masks
from oryx_marl.ops.values import ActionValues
from oryx_marl.types import Window

Mask = Bool[Array, "B T N"]
PairMask = Bool[Array, "B Tm1 N"]


@dataclass(frozen=True)
class ImplicitConstraint:
    """Autoregressive ICQ: log-likelihood weighted by advantage (Section 4, Theorem 1)."""

    imitates = True
    """Whether there is a policy loss."""

    def targets(
        self,
        target_q: ActionValues,
        window: Window,
        mask: PairMask,
        bootstrap_mask: PairMask,
        settings: "IcqSettings",
    ) -> Float[Array, "B Tm1 N"]:
        """Regression targets of Q for the logged actions."""
        return icq.td_targets(
            window.rewards[:, :-1],
            target_q.at(window.actions)[:, 1:],
            mask,
            bootstrap_mask,
            settings.discount,
            settings.value_temperature,
            settings.td_lambda,
        )

    def weights(
        self, advantage: Float[Array, "B T N"], labels: Mask, temperature: float
    ) -> Float[Array, "B T N"]:
        """Weight of each logged action in the policy loss."""
        return icq.batch_weights(advantage, labels, temperature)

    def acting(
        self, policy: Distribution, q: Array, mask: Array, temperature: float
    ) -> Distribution:
        """The distribution that actions are sampled from."""
        return policy


class Cloning(ImplicitConstraint):
    """Behaviour cloning: all logged actions have the same weight."""

    def weights(
        self, advantage: Float[Array, "B T N"], labels: Mask, temperature: float
    ) -> Float[Array, "B T N"]:
        return labels.astype(advantage.dtype)


class QLearning(ImplicitConstraint):
    """The paper's ablation without ICQ: max-Q targets, and acting by a softmax over Q."""

    imitates = False

    def targets(
        self,
        target_q: ActionValues,
        window: Window,
        mask: PairMask,
        bootstrap_mask: PairMask,
        settings: "IcqSettings",
    ) -> Float[Array, "B Tm1 N"]:
        best = target_q.best(window.observation.action_mask)[:, 1:]
        return window.rewards[:, :-1] + settings.discount * jnp.where(bootstrap_mask, best, 0)

    def acting(
        self, policy: Distribution, q: Array, mask: Array, temperature: float
    ) -> Distribution:
        return categorical(q / temperature, mask)


OBJECTIVES = {"icq": ImplicitConstraint(), "bc": Cloning(), "q_learning": QLearning()}


def own_advantage(own: Float[Array, "B T N"], agent_mask: Mask) -> Float[Array, "B T N"]:
    """Every action is weighed by its own advantage (public code)."""
    return own


ADVANTAGES: dict[str, Callable[[Array, Array], Array]] = {
    "own": own_advantage,
    "cumulative": icq.cumulative_advantage,
}
"""What an action is weighed by, of the agents' own advantages in the order in which they choose."""


@dataclass(frozen=True)
class IcqSettings:
    """How values are learned and actions weighed; see the Config of Oryx."""

    discount: float = 0.99
    td_lambda: float = 0.0
    critic_weight: float = 1.0
    policy_temperature: float = 0.1
    value_temperature: float = 1000.0
    advantage: Callable[[Array, Array], Array] = own_advantage
    objective: ImplicitConstraint = OBJECTIVES["icq"]


def icq_loss(
    policy: Distribution,
    q: ActionValues,
    target_q: ActionValues,
    window: Window,
    settings: IcqSettings,
) -> tuple[Float[Array, ""], Metrics]:
    """Critic and policy loss of a batch (Algorithm 1, lines 6 to 8, for all agents at once).

    Agents share weights, so one gradient step on the sum of their losses takes the place of the
    paper's loop over agents.

    Args:
        policy: π of every agent and step [B, T, N], given the actions of the agents before it.
        q: Q of the online network for the same.
        target_q: Q⁻ of the target network.
        window: logged steps, agents in the order of the permutation.
        settings: temperatures, discount, and what takes the place of each part.
    """
    observation, actions, objective = window.observation, window.actions, settings.objective
    q_taken = q.at(actions)

    mask, bootstrap_mask = td_masks(observation.agent_mask, window.terminal, observation.reset)
    targets = objective.targets(target_q, window, mask, bootstrap_mask, settings)
    critic = icq.critic_loss(q_taken[:, :-1], targets, mask)

    # Logged actions under a false mask are no labels: log π is -inf there, and even masked with a
    # large finite number they drive the logits away without bound (docs, differences).
    labels = observation.agent_mask & policy.supports(actions)
    own = icq.own_advantage(q, policy, actions)
    advantage = settings.advantage(own, observation.agent_mask)
    weights = objective.weights(advantage, labels, settings.policy_temperature)
    imitation = icq.policy_loss(policy.log_prob(actions), weights, labels)

    total = settings.critic_weight * critic
    if objective.imitates:
        total = total + imitation
    return total, {
        "loss": total,
        "critic_loss": critic,
        "policy_loss": imitation,
        "effective_sample_size": icq.effective_sample_size(weights, labels),
        "max_logit": policy.largest_parameter(),
        "entropy": masked_mean(policy.entropy(), labels),
        "mean_q": masked_mean(q_taken, observation.agent_mask),
        "td_error": masked_mean(jnp.abs(targets - q_taken[:, :-1]), mask),
        "valid_label_share": labels.mean(),
    }
