"""Roll-outs of fixed length for online learners: an environment that ends begins again at once."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.base import Env
from oryx_marl.ops.masked import pick
from oryx_marl.rollout.step import Stepped, advance, is_over, reset
from oryx_marl.types import Experience, Observation, Step, Window


class Actors(NamedTuple):
    """B environments in mid-flight, and the recurrent state of the policy that acts in them.

    Checkpoints of online learners hold it: fields keep their names and shapes.
    """

    states: Any
    observation: Observation
    """What the agents see now."""
    global_state: Array | None
    recurrent_state: Any
    returns: Float[Array, " B"]
    """Rewards so far in the running episodes, mean over agents."""
    latest_return: Float[Array, ""]
    """Mean return of the episodes that ended last; what is logged until the next end."""
    latest_ended: Float[Array, ""]
    """Episodes that ended in the last roll-out."""


class Steps(NamedTuple):
    """What is recorded of each step, [T, B, ...]; named as the arrays of a Dataset."""

    observations: Array
    actions: Array
    rewards: Array
    terminals: Array
    truncations: Array
    action_mask: Array
    agent_mask: Array
    state: Array | None
    """Global state before the step, None where the environment has none."""
    final_observations: Array
    """What is seen after the step, before any reset."""


def begin(env: Env, policy: Policy, key: jax.Array, count: int) -> Actors:
    """So many environments before their first step."""
    states, first = reset(env, key, count)
    nothing = jnp.zeros(())
    return Actors(
        states, first.seen, first.state, policy.init(count), jnp.zeros(count), nothing, nothing
    )


def collect(
    env: Env, policy: Policy, actors: Actors, key: jax.Array, length: int
) -> tuple[Actors, Experience, Steps]:
    """`length` steps in every environment; one that ends begins again at once.

    Where a reset is slow, starts are drawn in advance, and whoever ends takes the next one.
    """
    count = len(actors.returns)
    keys = jax.random.split(key, length + 1)
    last_key, starts = keys[0], None
    if env.reset_pool_rate:
        last_key, starts_key = jax.random.split(last_key)
        starts = reset(env, starts_key, math.ceil(count * length * env.reset_pool_rate))

    def one_step(
        carry: tuple[Actors, Array, Array], key: jax.Array
    ) -> tuple[tuple[Actors, Array, Array], tuple[Observation, Any, Steps]]:
        actors, total, num_ended = carry
        policy_key, env_key, reset_key = jax.random.split(key, 3)
        done = advance(
            env,
            policy,
            actors.states,
            actors.observation,
            actors.recurrent_state,
            policy_key,
            env_key,
        )
        ended = is_over(done.step)
        if starts is None:
            fresh = reset(env, reset_key, count)
        else:
            fresh = _take(starts, num_ended.astype(jnp.int32), ended)
        returns = actors.returns + done.step.rewards.mean(axis=1)
        total = total + jnp.where(ended, returns, 0).sum()
        after = _go_on(actors, done, ended, fresh, returns)
        shown = (actors.observation, done.info, _write_down(actors, done))
        return (after, total, num_ended + ended.sum(dtype=jnp.float32)), shown

    start = (actors, jnp.zeros(()), jnp.zeros(()))
    (after, total, num_ended), (observation, info, steps) = jax.lax.scan(one_step, start, keys[1:])
    mean_return = jnp.where(num_ended > 0, total / jnp.maximum(num_ended, 1), actors.latest_return)
    after = after._replace(latest_return=mean_return, latest_ended=num_ended)
    _, _, bootstrap_info = policy.step(after.recurrent_state, after.observation, last_key)
    window, truncated, info = _by_sequence(observation, info, steps)
    experience = Experience(
        window, truncated, info, actors.recurrent_state, after.observation, bootstrap_info
    )
    return after, experience, steps


def _take(
    starts: tuple[Any, Step], num_taken: Int[Array, ""], ended: Bool[Array, " B"]
) -> tuple[Any, Step]:
    """The next of the reset pool for those that have ended; it begins again where it ends."""
    places = num_taken + jnp.cumsum(ended) - 1
    return jax.tree.map(lambda x: x[places % len(x)], starts)


def _go_on(
    actors: Actors,
    done: Stepped,
    ended: Bool[Array, " B"],
    fresh: tuple[Any, Step],
    returns: Float[Array, " B"],
) -> Actors:
    """Everybody after a step; those that have ended are at a fresh beginning."""
    fresh_states, first = fresh
    return Actors(
        pick(ended, fresh_states, done.states),
        pick(ended, first.seen, done.step.seen),
        pick(ended, first.state, done.step.state),
        done.carry,
        jnp.where(ended, 0, returns),
        actors.latest_return,
        actors.latest_ended,
    )


def _write_down(before: Actors, done: Stepped) -> Steps:
    """What is recorded of a step."""
    seen, step = before.observation, done.step
    return Steps(
        seen.features,
        done.actions,
        step.rewards,
        step.terminal,
        step.truncated,
        seen.action_mask,
        seen.agent_mask,
        before.global_state,
        step.observation.features,
    )


def _by_sequence(
    observation: Observation, info: Any, steps: Steps
) -> tuple[Window, Bool[Array, "B T N"], Any]:
    """What was collected step by step, [T, B, ...], as one sequence per environment."""
    observation, info, steps = jax.tree.map(
        lambda x: jnp.moveaxis(x, 0, 1), (observation, info, steps)
    )
    window = Window(observation, steps.actions, steps.rewards, steps.terminals, steps.state)
    return window, steps.truncations, info
