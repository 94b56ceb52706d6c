"""How well a policy predicts logged actions that it has not learned from.

All that can be known without an environment: a high action accuracy means that the policy does what
was done, not that it does well.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from oryx_marl.algorithms.base import Algorithm
from oryx_marl.data import view as views
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import DeviceData, put_on_device, take_rows
from oryx_marl.data.split import Split
from oryx_marl.data.stats import find_agent_mask
from oryx_marl.eval import metrics
from oryx_marl.networks.heads import LOG_STD_RANGE
from oryx_marl.ops.distributions import Distribution, SquashedNormal, unsquash
from oryx_marl.parallel import devices
from oryx_marl.parallel.seeds import over_seeds
from oryx_marl.types import Window

BOUNDED = {"action_accuracy": "action accuracy rate"}
"""Scores that are rates, for `summarise`: no interval goes beyond 0 and 1."""


def score(algorithm: Algorithm, weights: Any, split: Split[Dataset]) -> dict[str, Any]:
    """Mean log-likelihood and action accuracy per decision, over seeds, for held_out.json.

    Episodes are gone through whole, with the policy's recurrent state, as acting meets them.
    A decision is an agent's step with more than one available action; forced steps, which any
    policy predicts, are counted apart. `baseline` is the marginal-action baseline on the same
    decisions: each agent's action frequencies, renormalised over the available actions.
    """
    assert split.validation is not None
    needs_returns = algorithm.needs_returns_to_go
    held = put_on_device(split.validation, needs_returns, devices.everywhere())
    lanes = make_lanes(split.validation, algorithm.batch_size)
    num_chunks = -(-int((lanes.end - lanes.first).max()) // algorithm.sequence_length)
    found = jax.device_get(_score(algorithm, num_chunks, weights, held, lanes))
    # The same for every seed: it depends on the data alone.
    decisions, forced = (int(found.pop(name)[0]) for name in ("decisions", "forced"))
    return {
        "episodes": split.validation.num_episodes,
        "steps": split.validation.num_rows,
        "decisions": decisions,
        "forced": forced,
        **{name: _over_seeds(np.asarray(values), name) for name, values in found.items()},
        "baseline": marginal_baseline(split.train, split.validation),
    }


def _over_seeds(values: Float[np.ndarray, " S"], name: str) -> dict[str, Any] | None:
    """None where some logged action is impossible under the policy: a greedy one has no odds."""
    if not np.all(np.isfinite(values)):
        return None
    summary = metrics.summarise(values[:, None], BOUNDED.get(name, name))
    return {key: summary[key] for key in ("mean", "low", "high", "per_seed")}


class Lanes(NamedTuple):
    """Whole episodes in a row, [B]: the rows that each sequence of a batch goes through."""

    first: Int[Array, " B"]
    end: Int[Array, " B"]


def make_lanes(dataset: Dataset, number: int) -> Lanes:
    """All episodes on at most `number` lanes, of about the same number of steps each."""
    starts = np.append(dataset.episode_starts, dataset.num_rows)
    wanted = np.arange(number + 1) * dataset.num_rows / number
    borders = starts[np.searchsorted(starts, wanted)]
    return Lanes(jnp.asarray(borders[:-1]), jnp.asarray(borders[1:]))


@partial(jax.jit, static_argnames=("algorithm", "num_chunks"))
def _score(
    algorithm: Algorithm, num_chunks: int, weights: Any, data: DeviceData, lanes: Lanes
) -> dict[str, Array]:
    """As acting meets them: episodes from their first step to their last, with what the policy
    remembers of the steps before."""
    length = algorithm.sequence_length

    def one_seed(data: DeviceData, lanes: Lanes, weights: Any) -> dict[str, Array]:
        def one_chunk(carry: Any, number: Array) -> tuple[Any, dict[str, Array]]:
            rows = lanes.first[:, None] + number * length + jnp.arange(length)
            window = take_rows(data, jnp.minimum(rows, data.num_rows - 1))
            policy, carry = algorithm.distribution(weights, window, carry)
            return carry, _sums(policy, window, rows < lanes.end[:, None])

        start = algorithm.policy(weights).init(len(lanes.first))
        _, sums = jax.lax.scan(one_chunk, start, jnp.arange(num_chunks))
        found = {name: values.sum() for name, values in sums.items()}
        # Where nobody ever has a choice the forced steps are all there is: 0 and 1.
        count = jnp.maximum(found["decisions"], 1)
        is_forced = found["decisions"] == 0
        return {
            "log_likelihood": jnp.where(is_forced, 0.0, found["log_likelihood"] / count),
            "action_accuracy": jnp.where(is_forced, 1.0, found["action_accuracy"] / count),
            "decisions": found["decisions"],
            "forced": found["forced"],
        }

    return over_seeds(one_seed, data, lanes)(weights)


def _sums(policy: Distribution, window: Window, inside: Array) -> dict[str, Array]:
    """Over the steps inside of the lanes."""
    counts = window.observation.agent_mask & inside[..., None] & policy.supports(window.actions)
    taken, agrees = policy.log_prob(window.actions), policy.agrees(window.actions)
    is_forced, decisions = counts & ~window.choice, counts & window.choice
    return {
        "log_likelihood": jnp.where(decisions, taken, 0).sum(),
        "action_accuracy": (agrees & decisions).sum(),
        "decisions": decisions.sum(),
        "forced": is_forced.sum(),
    }


def marginal_baseline(train: Dataset, validation: Dataset) -> dict[str, float]:
    """The same of a policy that only knows how often each agent took each action, or where in its
    box."""
    if train.spec.action.kind == "box":
        return _baseline_in_box(train, validation)
    size = train.spec.action.size
    odds = np.ones((train.spec.num_agents, size))
    for chunk in views.chunks(train, ("actions", "agent_mask")):
        is_action = np.arange(size) == chunk.arrays["actions"][..., None]
        odds += (is_action & find_agent_mask(chunk.arrays)[..., None]).sum(axis=0)
    sums = np.zeros(3)
    for chunk in views.chunks(validation, ("actions", "agent_mask", "action_mask")):
        actions = chunk.arrays["actions"]
        action_mask = chunk.arrays.get("action_mask", np.ones((*actions.shape, size), bool))
        here = np.where(action_mask, odds, 0)
        taken = np.take_along_axis(here, actions[..., None].astype(int), axis=-1)[..., 0]
        counts = (taken > 0) & (action_mask.sum(axis=-1) != 1) & find_agent_mask(chunk.arrays)
        shares = taken[counts] / here.sum(axis=-1)[counts]
        accuracy = (here.argmax(axis=-1) == actions)[counts]
        sums += [np.log(shares).sum(), accuracy.sum(), counts.sum()]
    if sums[2] == 0:  # nobody ever has a choice
        return {"log_likelihood": 0.0, "action_accuracy": 1.0}
    likelihood, accuracy = (sums[:2] / sums[2]).tolist()
    return {"log_likelihood": likelihood, "action_accuracy": accuracy}


def _baseline_in_box(train: Dataset, validation: Dataset) -> dict[str, float]:
    """One squashed Normal for each agent, fitted to all of its actions."""
    space = validation.spec.action
    low, high = jnp.array(space.low, jnp.float32), jnp.array(space.high, jnp.float32)
    means, spreads = [], []
    for agent in range(train.spec.num_agents):
        here = slice(None) if train.agent_mask is None else train.agent_mask[:, agent]
        x = unsquash(jnp.asarray(train.actions[here, agent], jnp.float32), low, high)
        means.append(x.mean(axis=0))
        spreads.append(jnp.clip(jnp.log(x.std(axis=0) + 1e-8), *LOG_STD_RANGE))
    policy = SquashedNormal(jnp.stack(means), jnp.stack(spreads), low, high)
    actions = jnp.asarray(validation.actions, jnp.float32)
    counts = validation.agent_mask
    if counts is None:
        counts = np.ones(actions.shape[:2], bool)
    likelihood, agrees = np.asarray(policy.log_prob(actions)), np.asarray(policy.agrees(actions))
    return {
        "log_likelihood": float(likelihood[counts].mean()),
        "action_accuracy": float(agrees[counts].mean()),
    }
