"""What every environment must do, for every environment there is, and for toys that differ."""

from functools import cache

import env_conformance
import jax.numpy as jnp
import pytest
import toy_envs

from oryx_marl import registry
from oryx_marl.envs import base
from oryx_marl.types import ActionSpace

TOYS = {
    "continuous toy": {},
    "toy in which every action is legal": {"num_moves": 3},
}


@cache
def make(name):
    return toy_envs.make(**TOYS[name]) if name in TOYS else base.make_named(name)


SLOW = ("hanabi",)
"""Environments that compile for long and share their package with another."""
FAMILIES = [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
    for name in env_conformance.FAMILIES
]


@pytest.fixture(params=[*FAMILIES, *TOYS])
def env(request):
    return make(request.param)


@pytest.mark.parametrize("check", env_conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(env, check):
    check(env)


def test_the_spec_and_the_name_build_it_again(env):
    if isinstance(env, toy_envs.MeetEnv):
        env_conformance.check_spec_builds_it_again(
            env, lambda spec: toy_envs.make(**spec.environment_config)
        )
        return
    env_conformance.check_spec_builds_it_again(env, base.make)
    env_conformance.check_spec_builds_it_again(env, lambda spec: base.make_named(env.name))
    assert env.spec.environment in registry.names("envs")


class Stuck(toy_envs.MeetEnv):
    """Its moves do nothing."""

    def step(self, state, actions, key):
        return super().step(state, jnp.zeros_like(actions), key)


class Repeating(toy_envs.MeetEnv):
    """Has two starts."""

    def reset(self, key):
        state, _ = super().reset(key)
        positions = jnp.where(state.positions[0] > 0, 0.5, -0.5) * jnp.ones(2)
        state = state._replace(positions=positions, targets=jnp.array([0.0, 1.0]))
        return state, self._answer(state, jnp.zeros(2))


class Owning(Repeating):
    """Owns to it."""

    num_starts = 2


class Cheat(toy_envs.MeetEnv):
    """An illegal action moves an agent farther than any legal one."""

    def __init__(self):
        super().__init__(3)

    def _answer(self, state, rewards):
        step = super()._answer(state, rewards)
        action_mask = step.observation.action_mask.at[:, 0].set(False)
        return step._replace(observation=step.observation._replace(action_mask=action_mask))


class Boundless(toy_envs.MeetEnv):
    """Its bounds are the wrong way round."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self.spec, "action", ActionSpace("box", 1, (1.0,), (-1.0,)))


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Stuck(), env_conformance.check_actions_matter),
        (Stuck(3), env_conformance.check_illegal_actions),
        (Repeating(), env_conformance.check_starts),
        (Cheat(), env_conformance.check_illegal_actions),
        (Boundless(), env_conformance.check_spec),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, toy_envs.MeetEnv) else "",
)
def test_what_is_broken_is_found(broken, check):
    with pytest.raises(AssertionError):
        check(broken)


def test_few_starts_are_fine_if_the_environment_says_so():
    env_conformance.check_starts(Owning())
    env_conformance.check_starts(make("tmaze"))
    assert make("tmaze").num_starts == 4
