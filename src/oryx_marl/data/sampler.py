"""Windows of a dataset that lies whole on the device: pure, jittable, no copy to the host."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.scales import feature_statistics, value_scale
from oryx_marl.errors import OryxError
from oryx_marl.types import FeatureStatistics, Observation, Window


class DeviceData(NamedTuple):
    """The arrays of a Dataset that the learners need, on one device, in their logged dtypes."""

    observations: jax.Array
    """[R, N, O]."""
    actions: jax.Array
    """[R, N] integers, or [R, N, A] floats."""
    rewards: jax.Array
    """[R, N] float32."""
    terminals: jax.Array
    """[R, N] bool."""
    action_mask: jax.Array | None
    """[R, N, A] bool, or None: everything is legal. An absent agent has at least one entry."""
    agent_mask: jax.Array | None
    """[R, N] bool, or None: everyone is present."""
    reset: jax.Array
    """[R] bool: this row begins an episode."""
    step_count: jax.Array
    """[R] int32: steps since the episode began."""
    state: jax.Array | None
    """[R, Spec.state_size], or None where none was logged."""
    returns_to_go: jax.Array | None
    """[R, N] float32: rewards until the episode's end, or None unless asked for."""
    feature_statistics: FeatureStatistics
    value_scale: jax.Array | None
    """[] float32: rewards are given out in units of it; None: as they were logged."""
    every_action: jax.Array
    """[A] bool, all true. Its length tells the number of actions where `legal` is None."""

    @property
    def num_rows(self) -> int:
        return self.observations.shape[0]


def check_length(rows: int, length: int) -> None:
    """Raises unless a window of `length` steps fits into `rows` logged steps."""
    if length < 1:
        raise OryxError(f"a window must have at least 1 step, not {length}")
    if rows < length:
        raise OryxError(
            f"the dataset has {rows} logged steps, but a window needs {length}; "
            "choose a shorter window (sequence_length) or add data"
        )


def put_on_device(
    dataset: Dataset,
    returns_to_go: bool = False,
    device: jax.Device | jax.sharding.Sharding | None = None,
    value_discount: float | None = None,
) -> DeviceData:
    """Copies the dataset to a device, or to several.

    64-bit numbers become the 32-bit ones that JAX computes with.
    Whether a window fits is checked by `sample_windows`.

    Args:
        dataset: what is copied.
        returns_to_go: whether windows come with these.
        device: where to.
        value_discount: if given, rewards are scaled so that returns with this discount have a
            root mean square of 1.
    """
    reset = np.zeros(dataset.num_rows, bool)
    reset[dataset.episode_starts] = True
    begun = np.repeat(dataset.episode_starts, dataset.episode_lengths)

    def put(array: np.ndarray | jax.Array) -> jax.Array:
        return jax.device_put(array, device)

    values = None if value_discount is None else value_scale(dataset, value_discount)

    return DeviceData(
        observations=put(narrow(dataset.observations)),
        actions=put(narrow_actions(dataset.actions, dataset.spec.action.kind)),
        rewards=put(dataset.rewards.astype(np.float32)),
        terminals=put(dataset.terminals),
        action_mask=None
        if dataset.action_mask is None
        else put(fill_masks(dataset.action_mask, dataset.agent_mask)),
        agent_mask=None if dataset.agent_mask is None else put(dataset.agent_mask),
        reset=put(reset),
        step_count=put((np.arange(dataset.num_rows) - begun).astype(np.int32)),
        state=None if dataset.state is None else put(narrow(dataset.state)),
        returns_to_go=put(_returns_to_go(dataset)) if returns_to_go else None,
        feature_statistics=jax.tree.map(put, feature_statistics(dataset)),
        value_scale=None if values is None else put(values),
        every_action=put(np.ones(dataset.spec.action.size, bool)),
    )


def sample_windows(data: DeviceData, key: PRNGKeyArray, batch_size: int, length: int) -> Window:
    """`batch_size` windows of `length` steps, [B, T, ...], starts uniform over the rows.

    Windows may cross episode borders: `reset` marks them. Features keep the logged dtype.
    """
    starts = draw_starts(data.num_rows, key, batch_size, length)
    # Else the compiler draws them again for every number that it reads.
    return take_windows(data, jax.lax.optimization_barrier(starts), length)


def draw_starts(rows: int, key: PRNGKeyArray, batch_size: int, length: int) -> Int[Array, " B"]:
    """The rows at which the windows of `sample_windows` begin."""
    check_length(rows, length)
    return jax.random.randint(key, (batch_size,), 0, rows - length + 1)


def consecutive_windows(
    data: DeviceData, key: PRNGKeyArray, number: jax.Array, batch_size: int, length: int
) -> Window:
    """`batch_size` windows of `length` steps, each of which goes on where it ended in batch
    `number` - 1.

    They begin at rows drawn by the key alone, uniformly, and go through the log again and again.
    """
    rows = consecutive_rows(data.num_rows, key, number, batch_size, length)
    return take_rows(data, jax.lax.optimization_barrier(rows))


def consecutive_rows(
    rows: int, key: PRNGKeyArray, number: jax.Array, batch_size: int, length: int
) -> Int[Array, "B T"]:
    """The rows of the windows of `consecutive_windows`."""
    check_length(rows, length)
    firsts = jax.random.randint(key, (batch_size, 1), 0, rows).astype(jnp.uint32)
    done = (number.astype(jnp.uint32) * length) % rows
    found = (firsts + done + jnp.arange(length, dtype=jnp.uint32)) % rows
    return found.astype(jnp.int32)


def take_rows(data: DeviceData, rows: Int[Array, "B T"]) -> Window:
    """The windows [B, T, ...] of the given rows."""
    return _make_window(data, lambda array: array[rows])


def take_windows(data: DeviceData, starts: jax.Array, length: int) -> Window:
    """The windows [B, T, ...] that begin at the given rows."""
    return _make_window(
        data,
        lambda array: jax.vmap(lambda at: jax.lax.dynamic_slice_in_dim(array, at, length))(starts),
    )


def _make_window(data: DeviceData, take: Callable[[jax.Array], jax.Array]) -> Window:
    """What `take` finds in each array, [B, T, ...]."""
    features, actions = take(data.observations), take(data.actions)
    agents = features.shape[:-1]
    everything = jnp.broadcast_to(data.every_action, (*agents, data.every_action.size))
    is_discrete = data.actions.ndim == 2
    rewards = take(data.rewards)
    if data.value_scale is not None:
        rewards = rewards / data.value_scale
    return Window(
        observation=Observation(
            features=features,
            action_mask=everything if data.action_mask is None else take(data.action_mask),
            agent_mask=jnp.ones(agents, bool) if data.agent_mask is None else take(data.agent_mask),
            reset=take(data.reset),
            step_count=take(data.step_count),
        ),
        actions=actions.astype(jnp.int32 if is_discrete else jnp.float32),
        rewards=rewards,
        terminal=take(data.terminals),
        state=None if data.state is None else take(data.state),
        returns_to_go=None if data.returns_to_go is None else take(data.returns_to_go),
        feature_statistics=data.feature_statistics,
    )


def _returns_to_go(dataset: Dataset) -> np.ndarray:
    """Rewards from each row to the end of its episode, [R, N]."""
    before = np.zeros((dataset.num_rows + 1, dataset.spec.num_agents))
    np.cumsum(dataset.rewards, axis=0, dtype=np.float64, out=before[1:])
    ends = np.repeat(dataset.episode_starts + dataset.episode_lengths, dataset.episode_lengths)
    return (before[ends] - before[:-1]).astype(np.float32)


def narrow(values: np.ndarray) -> np.ndarray:
    """64-bit numbers as float32, since JAX would wrap large integers without a word."""
    return values.astype(np.float32) if values.dtype.itemsize > 4 else values


def narrow_actions(actions: np.ndarray, kind: str) -> np.ndarray:
    """Action ids in their dtype if it is a small integer, as int32 otherwise."""
    if kind == "box":
        return narrow(actions)
    is_small_integer = actions.dtype.kind in "iu" and actions.dtype.itemsize <= 2
    return actions if is_small_integer else actions.astype(np.int32)


def fill_masks(action_mask: np.ndarray, agent_mask: np.ndarray | None) -> np.ndarray:
    """Empty masks of absent agents become full: a softmax over no action at all is NaN."""
    if agent_mask is None:
        return action_mask
    is_empty = ~agent_mask & ~action_mask.any(axis=-1)
    return action_mask | is_empty[..., None]
