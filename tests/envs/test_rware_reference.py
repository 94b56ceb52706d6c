"""Every step of rware 2.0, made again by our rules from the same state and the same draws."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rware_recording

from oryx_marl.envs import base
from oryx_marl.envs._rware_rules import State

CHUNK = 500
"""Steps of one compiled call."""
CASES = [
    # name, steps in make test, steps in all
    ("rware-tiny-2ag-easy", 500, 26_000),
    ("rware-small-4ag-global", 500, 26_000),
    ("rware-tiny-6ag-easy-two-stage", 500, 26_000),
    ("rware-small-19ag-hard", 500, 26_000),
]


def as_state(snapshot):
    arrays = {
        name: jnp.asarray(x, bool if name == "has_delivered" else jnp.int32)
        for name, x in snapshot.items()
    }
    nothing = jnp.zeros(len(arrays["cells"]))
    return State(**arrays, deliveries=nothing, agent0_return=nothing)


@partial(jax.jit, static_argnums=0)
def replay(env, states, actions, draws, orders):
    """All steps at once, each from the state before it, with ties by the `orders`."""
    return jax.vmap(env.replay)(states, actions, draws, orders)


def compare(env, log):
    """Raises unless all steps are equal. Counts those with a tie, those of them in which rware did
    not take the lowest number, rewards and ends."""
    states, actions = as_state(log["before"]), jnp.asarray(log["actions"], jnp.int32)
    play = partial(replay, env, states, actions, jnp.asarray(log["draws"], jnp.int32))
    numbers = np.broadcast_to(np.arange(env.spec.num_agents), actions.shape)
    lowest, _ = play(jnp.asarray(numbers))
    highest, _ = play(jnp.asarray(-numbers))
    has_tie = (np.asarray(lowest.cells) != np.asarray(highest.cells)).any(axis=1)
    wrong = (np.asarray(lowest.cells) != log["after"]["cells"]).any(axis=1)
    assert not wrong[~has_tie].any()
    went = log["before"]["cells"] != log["after"]["cells"]
    after, step = play(jnp.asarray(numbers - env.spec.num_agents * went))
    for name, expected in log["after"].items():
        if name != "has_delivered" or env.reward == "two-stage":  # rware keeps it for that alone
            np.testing.assert_array_equal(getattr(after, name), expected, err_msg=name)
    np.testing.assert_array_equal(step.observation.features, log["observations"])
    np.testing.assert_array_equal(step.rewards, log["rewards"])
    assert not step.terminal.any()
    np.testing.assert_array_equal(step.truncated.all(axis=1), log["done"])
    return np.array([has_tie.sum(), wrong.sum(), step.rewards.sum(), log["done"].sum()])


def check(name, steps, crowded):
    env, counts = base.make_named(name), np.zeros(4)
    for seed, start in enumerate(range(0, steps, CHUNK)):
        counts += compare(env, rware_recording.record(env, min(CHUNK, steps), seed, crowded))
        assert start + CHUNK <= steps
    ties, otherwise, rewards, ends = counts
    assert otherwise <= ties
    if crowded:
        assert rewards > 0
    else:
        assert ends == steps // CHUNK
    return counts


@pytest.mark.parametrize("crowded", [True, False])
@pytest.mark.parametrize(("name", "steps"), [(name, steps) for name, steps, _ in CASES])
def test_steps_are_those_of_rware(name, steps, crowded):
    check(name, steps, crowded)


@pytest.mark.slow
def test_a_hundred_thousand_steps_are_those_of_rware():
    total, counts = 0, np.zeros(4)
    for name, _, steps in CASES:
        for crowded in (True, False):
            counts += check(name, steps // 2, crowded)
            total += steps // 2
    assert total == 104_000
    assert counts[:2].tolist() == [1050, 470]  # ties, and those that rware decides otherwise


@pytest.mark.parametrize(
    "name", ["tiny-2ag", "small-6ag-easy", "medium-4ag-hard", "large-19ag", "tiny-1ag"]
)
def test_names_and_floors_are_those_of_rware(name):
    ours, theirs = (
        base.make_named(f"rware-{name}"),
        rware_recording.make_registered(f"rware-{name}-v2"),
    )
    assert base.make_named(f"rware-{name}-v2") == ours
    assert ours.size.grid == theirs.grid_size
    assert ours.num_requests == theirs.request_queue_size
    theirs.reset(seed=0)
    shape = (theirs.grid_size[0] + 2, theirs.grid_size[1] + 2)
    np.testing.assert_array_equal(
        ours.floor.highway.reshape(shape)[1:-1, 1:-1], theirs.highways.astype(bool)
    )
    np.testing.assert_array_equal(ours.floor.homes, rware_recording.snapshot(theirs)["shelves"])
    assert len(ours.floor.homes) == ours.size.num_shelves
    goals = [(goal % shape[1] - 1, goal // shape[1] - 1) for goal in ours.floor.goals]
    assert goals == theirs.goals
