"""Roll-outs of fixed length: nothing is lost at their borders, at ends, or at resets."""

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl.algorithms.base import Policy
from oryx_marl.envs.base import Env
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.rollout.collect import Actors, begin, collect
from oryx_marl.types import ActionSpace, Observation, Spec, Step

ENV = TMaze()


def counting_policy(spec: Spec) -> Policy:
    """Legal actions at random; its memory counts the steps since an episode began."""

    def act(
        carry: jax.Array, observation: Observation, noise: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        count = jnp.where(observation.reset, 0, carry) + 1
        actions = jnp.where(observation.action_mask, noise, -1).argmax(axis=-1)
        return count, actions.astype(jnp.int32), count

    def draw_noise(key: jax.Array, batch: int) -> jax.Array:
        return jax.random.uniform(key, (batch, spec.num_agents, spec.action.size))

    return Policy(lambda size: jnp.zeros(size, jnp.int32), act, draw_noise)


def test_collect_goes_on_where_it_stopped() -> None:
    """Two roll-outs of 15 steps are one of 30: memory and episodes cross the border."""
    batch = 64
    policy = counting_policy(ENV.spec)
    actors = begin(ENV, policy, jax.random.key(0), batch)
    go_on = jax.jit(lambda actors, key: collect(ENV, policy, actors, key, 15))
    middle, before, _ = go_on(actors, jax.random.key(1))
    after, later, steps = go_on(middle, jax.random.key(2))
    counts = np.concatenate([before.info, later.info], axis=1)
    resets = np.concatenate(
        [before.window.observation.reset, later.window.observation.reset], axis=1
    )
    expected = np.zeros(batch, int)
    for t in range(30):
        expected = np.where(resets[:, t], 0, expected) + 1
        np.testing.assert_array_equal(counts[:, t], expected)
    assert resets[:, 0].all()
    assert resets[:, 1:].sum() > batch / 2  # random agents run out of time at step 20
    np.testing.assert_array_equal(later.carry, before.info[:, -1])
    # what follows the last step is what the next roll-out begins with
    np.testing.assert_array_equal(
        before.bootstrap_observation.features, later.window.observation.features[:, 0]
    )
    # an episode's last observation is kept although the environment has begun another
    ended = np.asarray(steps.terminals.all(axis=-1))
    assert ended.any()
    finals = np.asarray(steps.final_observations)[ended]
    assert (finals[:, :, 0] == 1).all()  # each agent sees itself; a fresh episode shows zeros
    # every environment's own time is counted from its reset
    np.testing.assert_array_equal(
        np.asarray(later.window.observation.step_count), counts[:, 15:] - 1
    )
    assert float(after.latest_ended) == ended.sum()
    # and the rewards it is shown are those of the step before, none after a reset
    rewards, shown = later.window.rewards[:, :-1], later.window.observation.last_rewards[:, 1:]
    fresh = np.asarray(later.window.observation.reset)[:, 1:, None]
    np.testing.assert_array_equal(shown, np.where(fresh, 0, rewards))


class Tickets(Env):
    """Episodes of two to four steps; the feature is a number drawn at the reset."""

    spec = Spec("", ("agent_0",), (1,), ActionSpace("discrete", 2))
    reset_pool_rate = 0.5

    def reset(self, key: jax.Array) -> tuple[jax.Array, Step]:
        ticket = jax.random.uniform(key)
        return jnp.stack([ticket, 0.0]), self.answer(ticket, jnp.float32(0))

    def step(self, state: jax.Array, actions: jax.Array, key: jax.Array) -> tuple[jax.Array, Step]:
        ticket, count = state[0], state[1] + 1
        return jnp.stack([ticket, count]), self.answer(ticket, count)

    def answer(self, ticket: jax.Array, count: jax.Array) -> Step:
        observation = Observation(
            ticket[None, None],
            jnp.ones((1, 2), bool),
            jnp.ones(1, bool),
            count == 0,
            count.astype(jnp.int32),
        )
        ended = (count >= 2 + jnp.floor(3 * ticket))[None]
        return Step(observation, jnp.zeros(1), ended, jnp.zeros(1, bool))


def test_starts_drawn_in_advance_are_used_once() -> None:
    batch, length = 16, 12
    env = Tickets()
    policy = counting_policy(env.spec)
    actors = begin(env, policy, jax.random.key(0), batch)
    tickets = []
    for number in range(2):
        key = jax.random.fold_in(jax.random.key(1), number)
        actors, experience, _ = collect(env, policy, actors, key, length)
        seen = experience.window.observation
        begins = np.asarray(seen.reset)
        tickets += np.asarray(seen.features)[..., 0, 0][begins].tolist()
        # An episode goes on with the number it began with, until it ends.
        ends = np.asarray(experience.window.terminal)[..., 0]
        same = np.diff(np.asarray(seen.features)[..., 0, 0], axis=1) == 0
        np.testing.assert_array_equal(same, ~ends[:, :-1])
        np.testing.assert_array_equal(begins[:, 1:], ends[:, :-1])
    assert len(tickets) > 100
    assert len(set(tickets)) == len(tickets)


def test_the_parts_of_a_checkpoint_keep_their_names() -> None:
    """Checkpoints of online learners hold them by name, so that old ones go on."""
    assert Actors._fields == (
        "states",
        "observation",
        "global_state",
        "recurrent_state",
        "returns",
        "latest_return",
        "latest_ended",
    )
    actors = begin(ENV, counting_policy(ENV.spec), jax.random.key(0), 3)
    assert actors.global_state is not None
    assert [x.shape for x in actors[2:]] == [(3, 10), (3,), (3,), (), ()]
