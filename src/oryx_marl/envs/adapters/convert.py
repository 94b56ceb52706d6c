"""PettingZoo's dicts by agent as arrays over all agents, and back.

Nothing here imports JAX or PettingZoo: worker processes and recorders use it.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oryx_marl.errors import OryxError

if TYPE_CHECKING:
    from oryx_marl.types import Spec

MASK = "action_mask"
"""Where legal actions are told, in an observation or in the infos."""
OBSERVATION = "observation"
"""Where the observation proper is, if observations are dicts."""


class Actions(NamedTuple):
    """What one agent may do, in plain values; see types.ActionSpace."""

    kind: str
    size: int
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    start: int = 0
    """Number of the first discrete action."""


class Layout(NamedTuple):
    """How the agents of an environment are laid out in arrays."""

    agents: tuple[Any, ...]
    """Their names, in the order of the arrays; PettingZoo allows any hashable."""
    observation_sizes: tuple[int, ...]
    dtype: np.dtype
    """Of the features of all agents."""
    actions: tuple[Actions, ...]
    """Of each agent."""
    common: Actions
    """Which holds those of all agents."""

    @property
    def has_unequal_actions(self) -> bool:
        """Whether some agent lacks actions that others have, so that masks are needed."""
        return len({own.size for own in self.actions}) > 1


class Seen(NamedTuple):
    """What all agents see at one step."""

    features: np.ndarray
    """[N, O], zeros behind what an agent has, and for those of whom nothing is said."""
    action_mask: np.ndarray
    """[N, A] bool, False for agents of whom nothing is said."""
    agent_mask: np.ndarray
    """[N] bool: those who act next."""
    has_mask: bool
    """Whether the environment gave a mask for some agent."""


def read_layout(env: Any, order: Sequence[str] = ()) -> Layout:
    """The layout of an environment with PettingZoo's parallel interface.

    Its agents stand in the given order, if that names the same ones.
    """
    agents = tuple(env.possible_agents)
    if {str(agent) for agent in agents} == set(order):
        agents = tuple(sorted(agents, key=lambda agent: order.index(str(agent))))
    if not agents:
        raise OryxError("the environment has no agents: its possible_agents are empty")
    spaces = [_strip(env.observation_space(agent), agent) for agent in agents]
    actions = tuple(_read_actions(env.action_space(agent), agent) for agent in agents)
    dtype = np.result_type(*(space.dtype for space in spaces))
    return Layout(
        agents,
        tuple(_size(space) for space in spaces),
        np.dtype(np.int8) if dtype.kind == "b" else dtype,
        actions,
        _join(actions),
    )


def make_spec(layout: Layout, environment: str = "", **others: Any) -> "Spec":
    """The Spec of a layout; `others` are fields of Spec."""
    from oryx_marl.types import ActionSpace, Spec  # imports JAX, which workers do without

    common = layout.common
    return Spec(
        environment=environment,
        agents=tuple(map(str, layout.agents)),
        observation_sizes=layout.observation_sizes,
        action=ActionSpace(common.kind, common.size, common.low, common.high),  # type: ignore[arg-type]
        **others,
    )


def look(
    layout: Layout,
    observations: Mapping[Any, Any],
    infos: Mapping[Any, Any],
    listed: Any,
) -> Seen:
    """Observations and masks by agent as arrays; `listed` are the agents that go on."""
    count, width = len(layout.agents), max(layout.observation_sizes)
    features = np.zeros((count, width), layout.dtype)
    action_mask = np.zeros((count, layout.common.size), bool)
    agent_mask = np.zeros(count, bool)
    has_mask = False
    for index, agent in enumerate(layout.agents):
        if agent not in observations:
            continue
        seen, mask = observations[agent], infos.get(agent, {}).get(MASK)
        if isinstance(seen, Mapping):
            seen, mask = seen[OBSERVATION], seen.get(MASK, mask)
        flat = np.asarray(seen).reshape(-1)
        if flat.size != layout.observation_sizes[index]:
            raise OryxError(
                f"agent {agent} sees {flat.size} numbers, but its observation space has "
                f"{layout.observation_sizes[index]}"
            )
        features[index, : flat.size] = flat
        own = layout.actions[index].size
        action_mask[index, :own] = True if mask is None else np.asarray(mask) != 0
        has_mask |= mask is not None
        agent_mask[index] = agent in listed
    return Seen(features, action_mask, agent_mask, has_mask)


def to_array(layout: Layout, actions: Mapping[Any, Any]) -> np.ndarray:
    """Actions by agent as [N] int32, counted from 0, or as [N, A] float32."""
    is_box, count = layout.common.kind == "box", len(layout.agents)
    shape = (count, layout.common.size) if is_box else (count,)
    found = np.zeros(shape, np.float32 if is_box else np.int32)
    for index, agent in enumerate(layout.agents):
        if agent in actions:
            found[index] = np.asarray(actions[agent]) - layout.actions[index].start
    return found


def to_dict(layout: Layout, actions: np.ndarray, listed: Any) -> dict[Any, Any]:
    """Actions [N] or [N, A] by agent, of those who go on; boxes are cut to each agent's own."""
    found = {}
    for index, agent in enumerate(layout.agents):
        if agent not in listed:
            continue
        own = layout.actions[index]
        if own.kind == "box":
            found[agent] = np.clip(actions[index], own.low, own.high).astype(np.float32)
        else:
            found[agent] = int(actions[index]) + own.start
    return found


def by_agent(layout: Layout, values: Mapping[Any, Any], dtype: type) -> np.ndarray:
    """Numbers by agent as [N], 0 for those who have none."""
    return np.array([values.get(agent, 0) for agent in layout.agents], dtype)


def is_over(layout: Layout, ended: np.ndarray, agent_mask: np.ndarray, listed: Any) -> bool:
    """Whether an episode has ended; `ended` [N] by now, `agent_mask` [N] before the step.

    Whoever is still listed may have ended too, or has come just now and goes on.
    """
    goes_on = ~ended | ~agent_mask
    return not any(goes_on[layout.agents.index(agent)] for agent in listed)


def end_all(terminals: np.ndarray, agent_mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`terminals` and `truncations` [N] of an episode's last step: everybody ends, in one way.

    Whoever did not come to an end is cut off; agents that are gone end as those who were left.
    """
    terminals = terminals.copy()
    terminals[~agent_mask] = agent_mask.any() and terminals[agent_mask].all()
    return terminals, ~terminals


def read_state(env: Any) -> np.ndarray | None:
    """The global state, where the environment has one and can tell it now."""
    with contextlib.suppress(NotImplementedError, AttributeError, OryxError):
        return np.asarray(env.state()).reshape(-1)
    return None


def read_metrics(infos: Mapping[Any, Any], reserved: tuple[str, ...] = ()) -> dict[str, float]:
    """The plain finite numbers that infos report, by name: the mean over the agents that do."""
    found: dict[str, list[float]] = {}
    for info in infos.values():
        if not isinstance(info, Mapping):
            continue
        for name, value in info.items():
            if isinstance(name, str) and name not in reserved and _is_number(value):
                found.setdefault(name, []).append(float(value))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _is_number(value: Any) -> bool:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return isinstance(value, bool | int | float | np.number | np.bool_) and bool(np.isfinite(value))


def _strip(space: Any, agent: Any) -> Any:
    """The space of the observation proper, without that of the mask."""
    inner = getattr(space, "spaces", None)
    if not isinstance(inner, Mapping):
        return space
    if OBSERVATION not in inner:
        raise OryxError(
            f"agent {agent} sees a dict of {', '.join(map(str, inner))}; one entry must be "
            f"'{OBSERVATION}', or flatten the observations first"
        )
    return inner[OBSERVATION]


def _size(space: Any) -> int:
    if space.shape is None:
        raise OryxError(f"observations of the space {space} are not understood; flatten them first")
    return int(np.prod(space.shape, dtype=np.int64))


def _read_actions(space: Any, agent: Any) -> Actions:
    if isinstance(getattr(space, "n", None), int | np.integer) and space.shape == ():
        return Actions("discrete", int(space.n), start=int(getattr(space, "start", 0)))
    if hasattr(space, "low") and len(space.shape) == 1:
        low, high = (tuple(map(float, side)) for side in (space.low, space.high))
        return Actions("box", int(space.shape[0]), low, high)
    raise OryxError(f"agent {agent} acts in the space {space}, which is not understood")


def _join(actions: tuple[Actions, ...]) -> Actions:
    """The widest; ids that an agent does not have are illegal for it."""
    kinds = {own.kind for own in actions}
    sizes = {own.size for own in actions}
    if len(kinds) > 1 or (kinds == {"box"} and len(sizes) > 1):
        raise OryxError(
            "agents with several kinds of action, or boxes of several sizes, are not known"
        )
    if kinds == {"discrete"}:
        return Actions("discrete", max(sizes))
    low = tuple(min(bounds) for bounds in zip(*(own.low for own in actions), strict=True))
    high = tuple(max(bounds) for bounds in zip(*(own.high for own in actions), strict=True))
    return Actions("box", sizes.pop(), low, high)
