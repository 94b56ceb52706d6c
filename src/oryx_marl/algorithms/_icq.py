"""Implicit-constraint Q-learning on given policies and action values: the loss that Oryx and others
share, and what can take the place of its parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from oryx_marl.algorithms.base import Metrics
from oryx_marl.ops import icq
from oryx_marl.ops.distributions import Distribution
from oryx_marl.ops.masked import masked_mean
from oryx_marl.ops.returns import Number, td_masks
from oryx_marl.ops.values import ActionValues
from oryx_marl.types import Window

Mask = Bool[Array, "B T N"]
Values = Float[Array, "B T N"]
PairMask = Bool[Array, "B Tm1 N"]
Pairs = Float[Array, "B Tm1 N"]
NextAction = Literal["logged", "expected"]
Baseline = Literal["expected", "expectile"]


@dataclass(frozen=True)
class ImplicitConstraint:
    """Autoregressive ICQ: log-likelihood weighted by advantage (Section 4, Theorem 1)."""

    imitates = True
    """Whether there is a policy loss, and the learned policy acts."""

    def values(
        self, q: ActionValues, policy: Distribution, window: Window, settings: "IcqSettings"
    ) -> Values:
        """What every step is worth to the step before it."""
        if settings.next_action == "expected":
            return q.expected(policy)
        return q.at(window.actions)

    def targets(
        self,
        rewards: Pairs,
        next_values: Pairs,
        mask: PairMask,
        bootstrap_mask: PairMask,
        settings: "IcqSettings",
    ) -> Pairs:
        """Regression targets of Q for the logged actions."""
        return icq.td_targets(
            rewards,
            next_values,
            mask,
            bootstrap_mask,
            settings.discount,
            settings.value_temperature,
            settings.td_lambda,
        )

    def weights(self, advantage: Values, labels: Mask, temperature: Number) -> Values:
        """Weight of each logged action in the policy loss."""
        return icq.batch_weights(advantage, labels, temperature)


class Cloning(ImplicitConstraint):
    """Behaviour cloning: all logged actions have the same weight."""

    def weights(self, advantage: Values, labels: Mask, temperature: Number) -> Values:
        return labels.astype(advantage.dtype)


class QLearning(ImplicitConstraint):
    """The paper's ablation without ICQ: max-Q targets, and a softmax over Q acts."""

    imitates = False

    def values(
        self, q: ActionValues, policy: Distribution, window: Window, settings: "IcqSettings"
    ) -> Values:
        return q.best(window.observation.action_mask)

    def targets(
        self,
        rewards: Pairs,
        next_values: Pairs,
        mask: PairMask,
        bootstrap_mask: PairMask,
        settings: "IcqSettings",
    ) -> Pairs:
        return rewards + settings.discount * jnp.where(bootstrap_mask, next_values, 0)


OBJECTIVES = {"icq": ImplicitConstraint(), "bc": Cloning(), "q_learning": QLearning()}


def own_advantage(own: Values, agent_mask: Mask) -> Values:
    """Every action is weighed by its own advantage (public code)."""
    return own


ADVANTAGES: dict[str, Callable[[Array, Array], Array]] = {
    "own": own_advantage,
    "cumulative": icq.cumulative_advantage,
}
"""What an action is weighed by, of the agents' own advantages in the order in which they choose."""


@dataclass(frozen=True)
class ExpectedBaseline:
    """Advantages are beside the expectation of Q under the policy (Section 4)."""

    def advantage(self, q: ActionValues, policy: Distribution, window: Window) -> Values:
        """The own advantage of every logged action."""
        return icq.own_advantage(q, policy, window.actions)

    def losses(
        self, critics: Sequence[Any], targets: Sequence[Any], policy: Distribution, window: Window
    ) -> Metrics:
        """By name, those of what is learned for it."""
        return {}


@dataclass(frozen=True)
class ExpectileBaseline(ExpectedBaseline):
    """Beside an expectile V of Q over the logged actions (implicit Q-learning, Kostrikov et al.,
    2022): no action of the policy is ever valued."""

    expectile: float

    def advantage(self, q: Any, policy: Distribution, window: Window) -> Values:
        return q.at(window.actions) - q.state_value

    def losses(
        self, critics: Sequence[Any], targets: Sequence[Any], policy: Distribution, window: Window
    ) -> Metrics:
        """V follows the least Q of the target network's critics."""
        q = reduce(jnp.minimum, [each.at(window.actions) for each in targets])
        mask = window.observation.agent_mask & policy.supports(window.actions)
        return {"value_loss": icq.expectile_loss(critics[0].state_value, q, mask, self.expectile)}


@dataclass(frozen=True)
class IcqSettings:
    """How values are learned and actions weighed; see the Config of Oryx."""

    discount: float = 0.99
    td_lambda: float = 0.0
    critic_weight: float = 1.0
    policy_temperature: float | None = 0.1
    """None: from the advantages of each batch."""
    value_temperature: float = 1000.0
    next_action: NextAction = "logged"
    advantage: Callable[[Array, Array], Array] = own_advantage
    objective: ImplicitConstraint = OBJECTIVES["icq"]
    baseline: ExpectedBaseline = ExpectedBaseline()


def icq_loss(
    policy: Distribution,
    critics: Sequence[ActionValues],
    targets: Sequence[ActionValues],
    window: Window,
    settings: IcqSettings,
) -> tuple[Float[Array, ""], Metrics]:
    """Critic and policy loss of a batch (Algorithm 1, lines 6 to 8, for all agents at once).

    Agents share weights, so one gradient step on the sum of their losses takes the place of the
    paper's loop over agents. Of several critics the least next value counts (clipped double
    Q-learning), and the mean of their advantages.

    Args:
        policy: π of every agent and step [B, T, N], given the actions of the agents before it.
        critics: Q of the online network for the same.
        targets: Q⁻ of the target network.
        window: logged steps, agents in the order in which they choose.
        settings: temperatures, discount, and what takes the place of each part.
    """
    observation, actions, objective = window.observation, window.actions, settings.objective
    mask, bootstrap_mask = td_masks(observation.agent_mask, window.terminal, observation.reset)
    values = (objective.values(each, policy, window, settings)[:, 1:] for each in targets)
    wanted = jax.lax.stop_gradient(
        objective.targets(
            window.rewards[:, :-1], reduce(jnp.minimum, values), mask, bootstrap_mask, settings
        )
    )
    taken = [each.at(actions) for each in critics]
    critic = _mean([icq.critic_loss(q[:, :-1], wanted, mask) for q in taken])
    q_taken = _mean(taken)
    errors = wanted - q_taken[:, :-1]
    own = _mean([settings.baseline.advantage(each, policy, window) for each in critics])
    advantage = settings.advantage(jax.lax.stop_gradient(own), observation.agent_mask)
    imitation, metrics = imitation_loss(policy, advantage, (wanted, errors), mask, window, settings)
    beside = settings.baseline.losses(critics, targets, policy, window)
    total = settings.critic_weight * sum(beside.values(), critic)
    if objective.imitates:
        total = total + imitation
    return total, metrics | beside | {
        "loss": total,
        "critic_loss": critic,
        "mean_q": masked_mean(q_taken, observation.agent_mask),
        "td_error": masked_mean(jnp.abs(errors), mask),
    }


def imitation_loss(
    policy: Distribution,
    advantage: Values,
    critic: tuple[Pairs, Pairs],
    mask: PairMask,
    window: Window,
    settings: IcqSettings,
) -> tuple[Float[Array, ""], Metrics]:
    """-w log π(a) over the logged actions that can be learned from.

    `critic` has its targets and its errors.
    """
    valid = window.observation.agent_mask & policy.supports(window.actions)
    # Forced actions teach nothing: among the others they would only thin out the loss.
    labels = valid & window.choice
    temperature: Number | None = settings.policy_temperature
    if temperature is None:
        temperature = icq.adaptive_temperature(advantage, labels, *critic, mask, settings.discount)
    weights = settings.objective.weights(advantage, labels, temperature)
    loss = icq.policy_loss(policy.log_prob(window.actions), weights, labels)
    metrics = {
        "policy_loss": loss,
        "effective_sample_size": icq.effective_sample_size(weights, labels),
        **policy.extremes(),
        "entropy": masked_mean(policy.entropy(), labels),
        "valid_label_share": valid.mean(),
    }
    if settings.policy_temperature is None:
        metrics["policy_temperature"] = jnp.asarray(temperature)
    return loss, metrics


def _mean(arrays: Sequence[Array]) -> Array:
    return reduce(jnp.add, arrays) / len(arrays)
