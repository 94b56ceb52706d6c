"""Logged episodes, whole, as sequences of equal length: what clones and critics learn from.

The value that is estimated is the return over the first H steps of an episode, undiscounted: that
is what people read as its score. H is the time limit where episodes are cut off at it, so nothing
follows step H; an episode that was cut off before (censored) goes on in its final observation.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import put_on_device
from oryx_marl.types import Observation, Window

SHORTEST = 32
"""Steps of a sequence: short episodes share one."""
MOST_CENSORED = 0.1
"""Share of the episodes that may end before the horizon without an end of the task."""


@dataclass(frozen=True, eq=False)
class Horizon:
    """Over how many steps returns are counted."""

    steps: int
    terminated: Bool[np.ndarray, " E"]
    """Episodes in which the task itself ended, within the horizon or not."""
    censored: Bool[np.ndarray, " E"]
    """Episodes that were cut off before the horizon."""


def find_horizon(dataset: Dataset) -> Horizon:
    """The longest one before which at most a tenth of the episodes are cut off."""
    lengths = dataset.episode_lengths
    last = dataset.episode_starts + lengths - 1
    ended = dataset.terminals[last]
    absent = np.zeros_like(ended) if dataset.agent_mask is None else ~dataset.agent_mask[last]
    terminated = (ended | absent).all(axis=1) & ended.any(axis=1)
    cut = np.sort(lengths[~terminated])
    allowed = int(MOST_CENSORED * len(lengths))
    steps = int(cut[allowed]) if allowed < len(cut) else int(lengths.max())
    if dataset.spec.episode_limit is not None:
        steps = min(steps, dataset.spec.episode_limit)
    return Horizon(steps, terminated, ~terminated & (lengths < steps))


def returns_within(dataset: Dataset, horizon: Horizon) -> Float[np.ndarray, " E"]:
    """Return of each episode over the horizon, mean over agents."""
    rewards = dataset.rewards.mean(axis=1, dtype=np.float64)
    rewards = np.where(step_counts(dataset) < horizon.steps, rewards, 0)
    return np.add.reduceat(rewards, dataset.episode_starts)


def step_counts(dataset: Dataset) -> Int[np.ndarray, " R"]:
    """Steps since the episode began, of every row."""
    begun = np.repeat(dataset.episode_starts, dataset.episode_lengths)
    return np.arange(dataset.num_rows) - begun


class Sequences(NamedTuple):
    """Whole episodes one after another, [S, L, ...]; places that are no step have nobody in them.

    A censored episode has its final observation as one further step, without action or reward.
    """

    window: Window
    is_step: jax.Array
    """[S, L] bool: a logged step within the horizon."""
    team_rewards: jax.Array
    """[S, L] float32: mean over agents."""
    goes_on: jax.Array
    """[S, L] bool: the next place is the next step of the same episode, and its value counts."""
    has_target: jax.Array
    """[S, L] bool: what follows the step is known."""
    episode: jax.Array
    """[S, L] int32: number of the episode in the dataset; 0 where nobody is."""


class Packed(NamedTuple):
    """Sequences, and which episodes they hold."""

    sequences: Sequences
    fold: Int[np.ndarray, " S"]
    """Of all episodes of a sequence."""
    step: Int[np.ndarray, "S L"]
    """Step of the episode; -1 where there is none within the horizon."""
    horizon: Horizon


def pack(dataset: Dataset, horizon: Horizon, folds: Int[np.ndarray, " E"]) -> Packed:
    """All episodes in sequences, those of different folds apart."""
    can_go_on = dataset.final_observations is not None and dataset.action_mask is None
    extra = horizon.censored if can_go_on else np.zeros(dataset.num_episodes, bool)
    steps = np.minimum(dataset.episode_lengths, horizon.steps)
    length = max(SHORTEST, int((steps + extra).max()))
    places = _place(steps + extra, folds, length)
    shape = (int(places[:, 0].max()) + 1, length)
    rows, step = np.full(shape, -1), np.full(shape, -1)
    episode, final = np.zeros(shape, np.int32), np.zeros(shape, bool)
    sequence_fold = np.zeros(shape[0], int)
    for number, (sequence, first) in enumerate(places):
        inside = slice(first, first + steps[number])
        rows[sequence, inside] = dataset.episode_starts[number] + np.arange(steps[number])
        step[sequence, inside] = np.arange(steps[number])
        episode[sequence, first : first + steps[number] + extra[number]] = number
        if extra[number]:
            final[sequence, first + steps[number]] = True
        sequence_fold[sequence] = folds[number]
    return Packed(
        _gather(dataset, horizon, rows, step, episode, final), sequence_fold, step, horizon
    )


def _place(
    sizes: Int[np.ndarray, " E"], folds: Int[np.ndarray, " E"], length: int
) -> Int[np.ndarray, "E 2"]:
    """Sequence and first place of each episode, filled one after the other."""
    places = np.zeros((len(sizes), 2), int)
    newest = -1
    for fold in np.unique(folds):
        newest, filled = newest + 1, 0
        for number in np.flatnonzero(folds == fold):
            if filled + sizes[number] > length:
                newest, filled = newest + 1, 0
            places[number] = newest, filled
            filled += sizes[number]
    return places


def _gather(
    dataset: Dataset,
    horizon: Horizon,
    rows: Int[np.ndarray, "S L"],
    step: Int[np.ndarray, "S L"],
    episode: Int[np.ndarray, "S L"],
    final: Bool[np.ndarray, "S L"],
) -> Sequences:
    data = put_on_device(dataset)
    is_step = rows >= 0
    last = dataset.episode_starts + np.minimum(dataset.episode_lengths, horizon.steps) - 1
    at = jnp.asarray(np.where(is_step, rows, np.where(final, last[episode], 0)))
    features, here = data.observations[at], jnp.asarray(is_step[..., None])
    if dataset.final_observations is not None and final.any():
        after = jnp.asarray(dataset.final_observations[episode]).astype(features.dtype)
        features = jnp.where(jnp.asarray(final)[..., None, None], after, features)
    is_last = is_step & (rows == last[episode])
    cut = is_last & horizon.censored[episode]
    next_is_final = np.concatenate([final[:, 1:], np.zeros((len(final), 1), bool)], axis=1)
    goes_on = is_step & (~is_last | next_is_final)
    agent_mask = jnp.ones((*rows.shape, dataset.spec.num_agents), bool)
    if data.agent_mask is not None:
        agent_mask = data.agent_mask[at]
    mask = jnp.broadcast_to(data.every_action, (*agent_mask.shape, data.every_action.size))
    actions = data.actions[at]
    observation = Observation(
        features=features,
        action_mask=mask if data.action_mask is None else data.action_mask[at],
        agent_mask=agent_mask & (here | jnp.asarray(final)[..., None]),
        reset=jnp.asarray(step <= 0) & ~jnp.asarray(final),
        step_count=jnp.asarray(_count(step, final, dataset.episode_lengths[episode]), jnp.int32),
    )
    window = Window(
        observation=observation,
        actions=actions.astype(jnp.int32 if data.actions.ndim == 2 else jnp.float32),
        rewards=jnp.where(here, data.rewards[at], 0),
        terminal=here & data.terminals[at],
    )
    return Sequences(
        window=window,
        is_step=jnp.asarray(is_step),
        team_rewards=window.rewards.mean(axis=-1),
        goes_on=jnp.asarray(goes_on),
        has_target=jnp.asarray(is_step & (~cut | next_is_final)),
        episode=jnp.asarray(episode, jnp.int32),
    )


def _count(
    step: Int[np.ndarray, "S L"], final: Bool[np.ndarray, "S L"], lengths: Int[np.ndarray, "S L"]
) -> Int[np.ndarray, "S L"]:
    return np.where(final, lengths, np.maximum(step, 0))


def by_episode(
    packed: Packed, values: Float[np.ndarray, "S L"], num_episodes: int
) -> Float[np.ndarray, "E T"]:
    """Values of the logged steps as one row for each episode, 0 after its end."""
    found = np.zeros((num_episodes, packed.horizon.steps))
    inside = packed.step >= 0
    episode = np.asarray(packed.sequences.episode)
    found[episode[inside], packed.step[inside]] = values[inside]
    return found
