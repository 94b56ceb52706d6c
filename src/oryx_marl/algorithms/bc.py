"""BC: behaviour cloning with a recurrent network, every agent by itself (offline, any kind of
action)."""

from dataclasses import dataclass

from jaxtyping import Array, Float

from oryx_marl.algorithms._independent import IndependentConfig, IndependentLearner
from oryx_marl.algorithms.base import Metrics
from oryx_marl.networks.heads import family
from oryx_marl.networks.recurrent import RecurrentNetwork
from oryx_marl.ops.distributions import Distribution
from oryx_marl.ops.masked import masked_mean
from oryx_marl.types import Spec, Window


@dataclass(frozen=True)
class Config(IndependentConfig):
    """Settings of behaviour cloning."""


def bc_loss(policy: Distribution, window: Window) -> tuple[Float[Array, ""], Metrics]:
    """-log π(a) over the rows with a choice whose logged action can be learned from."""
    actions = window.actions
    valid = window.observation.agent_mask & policy.supports(actions)
    labels = valid & window.choice
    total = masked_mean(-policy.log_prob(actions), labels)
    return total, {
        "loss": total,
        **policy.extremes(),
        "entropy": masked_mean(policy.entropy(), labels),
        "valid_label_share": valid.mean(),
    }


@dataclass(frozen=True)
class BC(IndependentLearner):
    """The learner."""

    def make_network(self, key: Array) -> RecurrentNetwork:
        outputs = family(self.spec.action).num_outputs
        return RecurrentNetwork(key, self.spec, self.config.network, outputs)

    def networks(
        self, network: RecurrentNetwork, target: RecurrentNetwork
    ) -> tuple[RecurrentNetwork]:
        return (network,)

    def outputs_loss(
        self,
        network: RecurrentNetwork,
        target: RecurrentNetwork,
        outputs: Float[Array, "1 B T N K"],
        window: Window,
    ) -> tuple[Float[Array, ""], Metrics]:
        mask = window.observation.action_mask
        return bc_loss(family(self.spec.action).distribution(outputs[0], mask), window)


def make(config: Config, spec: Spec) -> BC:
    """Behaviour cloning for data of this Spec."""
    return BC(config, spec)
