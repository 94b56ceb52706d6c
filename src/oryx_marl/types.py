"""The vocabulary of every other file: the axis legend, Spec, Observation, Step, Window.

Axis legend, never redefined elsewhere:

    B batch     T time      N agents     A actions (or action dimensions)
    O features  H heads     D width      K width of one head (D / H)
    S seeds     R logged rows (steps of all episodes, one after another)     E episodes
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from oryx_marl import limits
from oryx_marl.errors import OryxError

if TYPE_CHECKING:  # JAX takes seconds to import, and lists and checks of data do without it
    import jax


@dataclass(frozen=True)
class ActionSpace:
    """What one agent may do: one of `size` actions, or a box of `size` dimensions."""

    kind: Literal["discrete", "box"]
    size: int
    low: tuple[float, ...] = ()
    """Lower bounds of a box, one per dimension."""
    high: tuple[float, ...] = ()
    """Upper bounds of a box, one per dimension."""

    def __post_init__(self) -> None:
        limits.require("the action space", self.size, limits.ACTIONS, "actions")


@dataclass(frozen=True)
class Spec:
    """Everything a learner must know, so that no simulator is needed to train."""

    environment: str
    """Name of the environment family, or '' where the logs come from none that we know."""
    agents: tuple[str, ...]
    observation_sizes: tuple[int, ...]
    """True width of each agent's observation; arrays are padded to the widest."""
    action: ActionSpace
    episode_limit: int | None = None
    """Most steps an episode can have, or None where there is no bound."""
    state_size: int = 0
    """Width of the global state, 0 where there is none."""
    shared_reward: bool = True
    environment_config: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Keyword arguments that build the environment again."""

    def __post_init__(self) -> None:
        limits.require("the Spec", len(self.agents), limits.AGENTS_LOGGED, "agents")
        widest = max((*self.observation_sizes, self.state_size))
        limits.require("the Spec", widest, limits.FEATURES, "features")

    @property
    def num_agents(self) -> int:
        return len(self.agents)

    @property
    def observation_size(self) -> int:
        return max(self.observation_sizes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Spec":
        """The Spec that `to_dict` wrote."""
        try:
            action = dict(values["action"])
            bounds = {side: tuple(action.get(side, ())) for side in ("low", "high")}
            spec = Spec(
                **{
                    **values,
                    "agents": tuple(values["agents"]),
                    "observation_sizes": tuple(values["observation_sizes"]),
                    "action": ActionSpace(**{**action, **bounds}),
                }
            )
            spec._require_types()
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            told = repr(values)[: limits.TEXT]
            raise OryxError(f"this is not a valid spec: {error!r} in {told}") from error
        return spec

    def _require_types(self) -> None:
        """Raises unless sizes are whole numbers and names are texts."""
        sizes = (*self.observation_sizes, self.action.size, self.state_size)
        if any(type(size) is not int or size < 0 for size in sizes):
            raise ValueError("a size is no whole number")
        if not all(isinstance(name, str) for name in (*self.agents, self.environment)):
            raise ValueError("a name is no text")
        if len(self.agents) != len(self.observation_sizes) or not self.agents:
            raise ValueError(
                f"{len(self.agents)} agents have {len(self.observation_sizes)} observation_sizes"
            )
        if self.action.kind not in ("discrete", "box"):
            raise ValueError(f"action kind {self.action.kind!r}")
        if not isinstance(self.environment_config, Mapping):
            raise ValueError("environment_config is no table")
        if not isinstance(self.episode_limit, int | None):
            raise ValueError("episode_limit is no whole number")

    def misfits(self, other: "Spec") -> list[str]:
        """Why a policy made for this Spec cannot act under `other`; empty if it can."""
        pairs = {
            "number of agents": (self.num_agents, other.num_agents),
            "observation width": (self.observation_size, other.observation_size),
            "action kind": (self.action.kind, other.action.kind),
            "number of actions": (self.action.size, other.action.size),
        }
        return [f"{name}: {a} against {b}" for name, (a, b) in pairs.items() if a != b]


class Observation(NamedTuple):
    """What all agents see at one step; leading axes are added by time and batch."""

    features: "jax.Array"
    """[N, O], in the logged dtype."""
    action_mask: "jax.Array"
    """[N, A] bool: the actions each agent may take."""
    agent_mask: "jax.Array"
    """[N] bool: the agents that take part in this step."""
    reset: "jax.Array"
    """[] bool: this step begins an episode, so memory is zeroed before it."""
    step_count: "jax.Array"
    """[] int32: steps since the episode began."""
    last_rewards: "jax.Array | None" = None
    """[N] float32: rewards of the step before, 0 in the first; None where nobody tells."""

    def reorder(self, ids: "jax.Array") -> "Observation":
        """The same with the agents in the order of `ids` [N]."""
        return self._replace(
            features=self.features[..., ids, :],
            action_mask=self.action_mask[..., ids, :],
            agent_mask=self.agent_mask[..., ids],
            last_rewards=None if self.last_rewards is None else self.last_rewards[..., ids],
        )


class Step(NamedTuple):
    """What an environment answers; nothing resets by itself, so the last observation is kept."""

    observation: Observation
    rewards: "jax.Array"
    """[N] float32."""
    terminal: "jax.Array"
    """[N] bool: the task ended here; nothing follows."""
    truncated: "jax.Array"
    """[N] bool: the recording ended here; the task would have gone on."""
    state: "jax.Array | None" = None
    """[Spec.state_size] float32: the global state that goes with the observation, for training
    alone; None where there is none."""
    metrics: Mapping[str, "jax.Array"] = {}
    """[] each: what the environment reports of the episode so far, by name. Its value at the last
    step is the episode's."""

    @property
    def seen(self) -> Observation:
        """What policies are shown: the observation and the rewards that came with it."""
        return self.observation._replace(last_rewards=self.rewards)


class FeatureStatistics(NamedTuple):
    """Of each observed feature, over the logged steps of all present agents."""

    mean: "jax.Array"
    """[O] float32."""
    std: "jax.Array"
    """[O] float32; 1 for features that never change."""


class Window(NamedTuple):
    """T consecutive logged steps, [T, ...] each or [B, T, ...]; may cross episode borders."""

    observation: Observation
    actions: "jax.Array"
    """[T, N] int32, or [T, N, A] float32."""
    rewards: "jax.Array"
    """[T, N] float32."""
    terminal: "jax.Array"
    """[T, N] bool."""
    state: "jax.Array | None" = None
    """[T, Spec.state_size] global state, or None where none was logged."""
    returns_to_go: "jax.Array | None" = None
    """[T, N] float32: rewards until the episode's end, this step's included; None unless asked
    for."""
    feature_statistics: FeatureStatistics | None = None
    """Of the whole dataset, without axes of steps; None if unknown."""

    @property
    def choice(self) -> "jax.Array":
        """[T, N] bool: more than one action is available."""
        is_box = self.actions.ndim > self.rewards.ndim
        return (self.observation.action_mask.sum(axis=-1) > 1) | is_box

    def reorder(self, ids: "jax.Array") -> "Window":
        """The same with the agents in the order of `ids` [N]."""
        # Box actions have an axis of their own behind that of the agents.
        is_box = self.actions.ndim > self.rewards.ndim
        return Window(
            self.observation.reorder(ids),
            self.actions[..., ids, :] if is_box else self.actions[..., ids],
            self.rewards[..., ids],
            self.terminal[..., ids],
            self.state,
            None if self.returns_to_go is None else self.returns_to_go[..., ids],
            self.feature_statistics,
        )


class Experience(NamedTuple):
    """What a policy met in B environments over T steps, with what it knew; [B, T, ...] each."""

    window: Window
    truncated: "jax.Array"
    """[B, T, N] bool."""
    info: Any
    """What the policy said about each of its steps, [B, T, ...]."""
    carry: Any
    """The policy's memory before the first step, [B, ...]."""
    bootstrap_observation: Observation
    """What is seen after the last step, [B, ...]; a new episode's first where one ended."""
    bootstrap_info: Any
    """What the policy says there, [B, ...]."""
