"""Datasets out of Vaults that flashbax or OG-MARL wrote, which carry no Spec."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Num

from oryx_marl.data._store import Store
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.types import ActionSpace, Spec

NEEDED = ("observations", "actions", "rewards", "terminals")


def read_foreign(store: Store, structure: Mapping[str, Any], name: str) -> Dataset:
    """A Dataset with OG-MARL's names; Spec and episodes are derived from what is there."""
    found = list(_leaf_names(structure))
    missing = [needed for needed in NEEDED if needed not in found]
    if missing:
        raise OryxError(
            f"the vault '{name}' has no {', '.join(missing)}; it has: {', '.join(found)}. "
            "Only vaults with OG-MARL's names can be opened"
        )
    rows = store.read_index()
    if rows < 1:
        raise OryxError(f"the vault '{name}' is empty: it has no logged step")
    arrays = {leaf: store.read_unknown(f"{leaf}.", rows) for leaf in found}
    observations, actions = arrays["observations"], arrays["actions"]
    if actions.ndim == 3 and actions.dtype.kind in "iu" and actions.shape[-1] == 1:
        actions = actions[..., 0]
    step = observations.shape[:2]
    terminals = _per_agent(arrays["terminals"], step)
    truncations = _per_agent(arrays.get("truncations", np.zeros(rows)), step)
    rewards = arrays["rewards"]
    legal, state = arrays.get("infos.legals"), arrays.get("infos.state")
    present = arrays.get("infos.present")
    spec = Spec(
        environment="",
        agents=tuple(f"agent_{index}" for index in range(step[1])),
        observation_sizes=(observations.shape[2],) * step[1],
        action=_derive_action_space(actions, legal),
        state_size=0 if state is None else state.shape[-1],
        shared_reward=bool((rewards == rewards[:, :1]).all()),
    )
    return Dataset(
        spec=spec,
        observations=observations,
        actions=actions,
        rewards=rewards,
        terminals=terminals,
        truncations=truncations,
        episode_starts=derive_episode_starts(terminals | truncations),
        legal=None if legal is None else legal != 0,
        present=None if present is None else present != 0,
        state=state,
        name=name,
        origin={"source": "a flashbax vault without a Spec"},
    )


def derive_episode_starts(ended: Bool[np.ndarray, "R N"]) -> Int[np.ndarray, "E"]:
    """Row 0, and each row after one at which the last agent of an episode has ended.

    An agent that ends early does not end the episode, whether its flag is then set once or in all
    rows that follow: the episode goes on until every agent's flag was set at least once since it
    began. So agents that come back to life within an episode cannot be told from two episodes.
    """
    starts, seen = [0], np.zeros(ended.shape[1], bool)
    for row in np.flatnonzero(ended.any(axis=1)):
        seen |= ended[row]
        if seen.all():
            starts.append(int(row) + 1)
            seen[:] = False
    return np.array([start for start in starts if start < len(ended)])


def _derive_action_space(
    actions: Num[np.ndarray, "R N *A"], legal: np.ndarray | None
) -> ActionSpace:
    """A box if the actions are vectors of floats, otherwise ids up to the largest known."""
    if actions.ndim == 3:
        if actions.dtype.kind != "f":
            raise OryxError(
                f"actions have shape {actions.shape} and type {actions.dtype}: several discrete "
                "actions per agent and step are not supported"
            )
        # Bounds are nowhere written: the usual ones, widened to what was logged.
        low = np.minimum(actions.min(axis=(0, 1)), -1.0)
        high = np.maximum(actions.max(axis=(0, 1)), 1.0)
        bounds = (tuple(map(float, low)), tuple(map(float, high)))
        return ActionSpace("box", actions.shape[-1], *bounds)
    size = int(actions.max()) + 1 if legal is None else legal.shape[-1]
    return ActionSpace("discrete", size)


def _per_agent(flags: np.ndarray, step: tuple[int, ...]) -> Bool[np.ndarray, "R N"]:
    """Flags as booleans, one per agent; one for all agents is given to each."""
    flags = flags != 0
    return np.broadcast_to(flags[:, None] if flags.ndim == 1 else flags, step).copy()


def _leaf_names(structure: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Names such as `observations` and `infos.legals` of a nested structure."""
    for key, value in structure.items():
        if isinstance(value, Mapping):
            yield from _leaf_names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
