"""MAT+ICQ: Oryx's loss on a transformer over agents, without memory (offline, discrete actions)."""

from dataclasses import dataclass, field

from jaxtyping import Array

from oryx_marl.algorithms._learner import require_discrete
from oryx_marl.algorithms._recurrent import InitialState
from oryx_marl.algorithms.oryx import AutoregressiveConfig, Oryx
from oryx_marl.networks.transformer import Transformer, TransformerConfig
from oryx_marl.types import Spec


@dataclass(frozen=True)
class Config(AutoregressiveConfig):
    """Settings of MAT+ICQ."""

    network: TransformerConfig = field(default_factory=TransformerConfig)


@dataclass(frozen=True)
class MatICQ(Oryx):
    """The learner: Oryx but for its trunk."""

    @property
    def initial_state(self) -> InitialState:
        return "zeros"  # there is nothing to carry

    def make_trunk(self, key: Array) -> Transformer:
        return Transformer(key, self.spec, self.config.network)


def make(config: Config, spec: Spec) -> MatICQ:
    """MAT+ICQ for data of this Spec."""
    require_discrete("MAT+ICQ", spec)
    return MatICQ(config, spec)
