"""What every environment outside JAX must do, for the PettingZoo adapter over several games."""

from functools import cache

import host_conformance
import pytest
import toy_envs
import toy_parallel

from oryx_marl.envs import to_pettingzoo
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs

GAMES = {
    "meet": toy_parallel.parallel_env,
    "agents that leave": toy_parallel.Relay,
    "tmaze there and back": lambda: to_pettingzoo("tmaze"),
    "continuous there and back": lambda: to_pettingzoo(toy_envs.make()),
}


@cache
def make(name):
    return ParallelEnvs(GAMES[name], 3)


@pytest.fixture(params=GAMES)
def env(request):
    return make(request.param)


@pytest.mark.parametrize("check", host_conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(env, check):
    check(env)


def test_metrics_go_there_and_back():
    steps = host_conformance.roll_out(make("continuous there and back"), host_conformance.SEEDS)
    assert {*steps[-1].metrics} == {"near"}
    spec = make("continuous there and back").spec
    assert not toy_envs.make().spec.misfits(spec)


class Unseeded(toy_parallel.Meet):
    def reset(self, seed=None, options=None):
        return super().reset(None, options)


class Deaf(toy_parallel.Meet):
    def reset(self, seed=None, options=None):
        return super().reset(0, options)


class Sprawling(ParallelEnvs):
    """Goes on after an end."""

    def step(self, actions):
        found = super().step(actions)
        return found._replace(rewards=found.rewards + actions[..., 0])


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (ParallelEnvs(Unseeded, 2), host_conformance.check_seeds),
        (ParallelEnvs(Deaf, 2), host_conformance.check_seeds),
        (Sprawling(toy_parallel.Meet, 2), host_conformance.check_ends),
    ],
    ids=["unseeded", "deaf", "sprawling"],
)
def test_what_is_broken_is_found(broken, check):
    with pytest.raises(AssertionError):
        check(broken)
