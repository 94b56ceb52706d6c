"""SMAX: step by step beside jaxmarl's own, scenarios by name, ends, pictures."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.envs import base, smax
from oryx_marl.envs.smax import Smax
from oryx_marl.errors import OryxError

KEY = jax.random.key(5)
UNITS, EPISODES, STEPS = 5, 12, 101
STOP = 4
ENV = Smax(UNITS)


def make_reference():
    import jaxmarl
    from jaxmarl.environments.smax import map_name_to_scenario

    return jaxmarl.make(
        "HeuristicEnemySMAX",
        scenario=map_name_to_scenario("smacv2_5_units"),
        see_enemy_actions=True,
        walls_cause_death=True,
        attack_mode="closest",
    )


@cache
def played():
    """Random legal actions in both, with the same keys: ours, theirs, and the masks before."""
    reference = make_reference()

    def play(key):
        seen, theirs = reference.reset(key)
        ours, first = ENV.reset(key)

        def advance(carry, index):
            theirs, ours, action_mask = carry
            act_key, step_key = jax.random.split(jax.random.fold_in(key, index))
            draws = jax.random.uniform(act_key, action_mask.shape)
            actions = jnp.where(action_mask, draws, -1).argmax(axis=-1)
            orders = {f"ally_{i}": actions[i] for i in range(UNITS)}
            seen, theirs, rewards, dones, _ = reference.step_env(step_key, theirs, orders)
            masks = reference.get_avail_actions(theirs)
            ours, step = ENV.step(ours, actions, step_key)
            said = (seen, rewards, dones, masks)
            return (theirs, ours, step.observation.action_mask), (theirs, said, step)

        start = (theirs, ours, first.observation.action_mask)
        _, rest = jax.lax.scan(advance, start, jnp.arange(STEPS))
        return (seen, first), rest

    return jax.device_get(jax.jit(jax.vmap(play))(jax.random.split(KEY, EPISODES)))


def by_agent(values):
    return np.stack([values[f"ally_{i}"] for i in range(UNITS)], axis=2)


def test_every_step_is_jaxmarls():
    (first_seen, first), (_, (seen, rewards, dones, masks), step) = played()
    last = dones["__all__"]
    here = np.cumsum(last, axis=1) - last == 0
    assert here.sum() > 200
    np.testing.assert_array_equal(first.state, first_seen["world_state"])
    pairs = (
        (step.observation.features, by_agent(seen)),
        (step.observation.action_mask, by_agent(masks)),
        (step.rewards, by_agent(rewards)),
        (step.state, seen["world_state"]),
        ((step.terminal | step.truncated), np.repeat(last[..., None], UNITS, axis=2)),
    )
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours[here], theirs[here], atol=1e-6)
    assert step.rewards[here].max() > 0


def test_the_last_observation_is_that_of_the_ended_fight():
    """jaxmarl's own `step` would show the next episode instead."""
    _, (states, _, step) = played()
    ends = (step.terminal | step.truncated).all(axis=-1)
    for episode in range(EPISODES):
        t = int(ends[episode].argmax())
        assert ends[episode, t]
        alive = states.state.unit_alive[episode, t]
        assert step.terminal[episode, t].all() == (
            not alive[:UNITS].any() or not alive[UNITS:].any()
        )
        assert int(step.observation.step_count[episode, t]) == t + 1
        dead = ~alive[:UNITS]
        assert dead.any()
        assert not step.observation.features[episode, t, dead].any()
        assert (step.observation.action_mask[episode, t, dead].argmax(axis=-1) == STOP).all()
        assert (step.observation.action_mask[episode, t, dead].sum(axis=-1) == 1).all()


@pytest.fixture(scope="module")
def step():
    return jax.jit(ENV.step)


@pytest.fixture(scope="module")
def start():
    return jax.jit(ENV.reset)(KEY)[0]


def stop():
    return jnp.full(UNITS, STOP)


def test_time_is_a_truncation(start, step):
    """jaxmarl counts to 100 and lets one step more through."""
    assert ENV.spec.episode_limit == STEPS
    early = start.replace(state=start.state.replace(step=jnp.array(99)))
    state, answer = step(early, stop(), KEY)
    assert not (answer.terminal | answer.truncated).any()
    _, answer = step(state, stop(), KEY)
    assert int(answer.observation.step_count) == STEPS
    assert answer.truncated.all()
    assert not answer.terminal.any()


@pytest.mark.parametrize(("survivors", "reward"), [("allies", 1), ("enemies", 0)])
@pytest.mark.parametrize("count", [3, 100])
def test_a_decided_fight_is_terminal(start, step, survivors, reward, count):
    is_ally = np.arange(2 * UNITS) < UNITS
    alive = is_ally if survivors == "allies" else ~is_ally
    world = start.state.replace(
        unit_alive=jnp.asarray(alive),
        unit_health=jnp.where(alive, start.state.unit_health, 0),
        step=jnp.array(count),
    )
    _, answer = step(start.replace(state=world), stop(), KEY)
    assert answer.terminal.all()
    assert not answer.truncated.any()
    np.testing.assert_allclose(answer.rewards, reward)


def test_an_illegal_action_is_a_stop(start, step):
    action_mask = ENV._action_mask(start)
    assert not action_mask[0, 5:].all()
    far = jnp.where(action_mask[0], -1, jnp.arange(action_mask.shape[1])).max()
    state, answer = step(start, stop().at[0].set(far), KEY)
    other, expected = step(start, stop(), KEY)
    for one, another in zip(
        jax.tree.leaves((state, answer)), jax.tree.leaves((other, expected)), strict=True
    ):
        np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize(
    ("action", "way"), [(0, (0, 1)), (1, (1, 0)), (2, (0, -1)), (3, (-1, 0)), (4, (0, 0))]
)
def test_moves_are_called_what_they_are(start, step, action, way):
    """All walk apart from each other on one line across, so that nobody is pushed."""
    assert ENV.action_names[:5] == ("up", "right", "down", "left", "stop")
    places = jnp.stack([jnp.linspace(4, 28, 2 * UNITS), jnp.full(2 * UNITS, 16.0)], axis=1)
    world = start.state.replace(unit_positions=places)
    state, _ = step(start.replace(state=world), jnp.full(UNITS, action), KEY)
    moved = np.asarray(state.state.unit_positions - places)[0]
    np.testing.assert_array_equal(np.sign(np.round(moved, 3)), way)


@pytest.mark.parametrize(
    ("name", "units", "features", "state", "actions"),
    [
        ("smacv2_5_units", 5, 127, 120, 10),
        ("smacv2_10_units", 10, 257, 240, 15),
        ("smacv2_20_units", 20, 517, 480, 25),
        ("smacv2_30_units", 30, 777, 720, 35),
    ],
)
def test_scenarios(name, units, features, state, actions):
    env = base.make_named(name)
    assert env.name == name
    assert name in smax.SCENARIOS
    assert base.make_named(name.replace("_units", "units")) == env  # as the paper writes it
    assert env.spec.num_agents == units
    assert env.spec.observation_size == features
    assert env.spec.state_size == state
    assert env.spec.action.size == actions == len(env.action_names)
    _, first = jax.eval_shape(env.reset, KEY)
    assert first.observation.features.shape == (units, features)
    assert first.state.shape == (state,)


def test_impossible_settings():
    with pytest.raises(OryxError, match="at least 1"):
        base.make_named("smacv2_0_units")
    with pytest.raises(OryxError, match="no setting map; it has: num_units"):
        smax.make(map="3m")


def test_pictures(start, step):
    """A dead unit is not drawn; who attacks has a line to its victim."""
    world = start.state.replace(
        unit_positions=jnp.stack([jnp.arange(2.0, 32, 3), jnp.full(10, 16.0)], axis=1),
        unit_alive=jnp.arange(10) != 9,
        unit_health=jnp.where(jnp.arange(10) != 9, start.state.unit_health, 0),
        unit_types=jnp.array([0, 1, 2, 3, 4, 5, 0, 0, 0, 0], jnp.uint8),
        prev_attack_actions=jnp.array([0, 0, 0, 0, 5, 0, 0, 0, 0, 0]),
    )
    state = start.replace(state=world)
    lines = ENV.render_text(state).splitlines()
    assert lines[0] == "step 0: 5 allies (capitals), 4 enemies"
    (row,) = [line for line in lines[1:] if line.replace(".", "").strip()]
    assert "".join(row.replace(".", "").split()) == "MRSZLhmmm"
    picture = ENV.render_rgb(state)
    assert picture.shape == (384, 384, 3)
    floor, between = picture[100, 100], picture[192, 12 * 15 + 6]
    assert np.ptp(between.astype(int)) > 100  # the attack of ally 4 on enemy 0, next to it
    assert np.ptp(picture[192, 12 * 3 + 6].astype(int)) < 40  # nobody attacks here
    assert np.ptp(floor.astype(int)) < 40
    assert (picture[150:230, 12 * 29 - 8 : 12 * 29 + 8] == picture[150, 12 * 29 - 8]).mean() > 0.8
