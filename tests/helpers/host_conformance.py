"""What every environment outside JAX must do, as functions that take one (see envs.base.HostEnv).

    for check in host_conformance.CHECKS:
        check(my_env)

It needs two environments at least, and episodes that end within `MOST_STEPS` random steps.
"""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from oryx_marl import registry
from oryx_marl.envs.base import HostEnv, is_host
from oryx_marl.types import Step

FAMILIES = [
    name
    for name in registry.names("envs")
    if "num_envs" in inspect.signature(registry.load("envs", name).make).parameters
]
"""Those of the package outside JAX: they are told how many there are to be."""
MOST_STEPS = 200
SEEDS = np.arange(100, 164)


def draw_actions(env: HostEnv, step: Step, rng: np.random.Generator) -> np.ndarray:
    """Random legal actions of all environments."""
    space = env.spec.action
    draws = rng.random((env.num_envs, env.spec.num_agents, space.size))
    if space.kind == "discrete":
        return np.where(step.observation.action_mask, draws, -1).argmax(axis=-1).astype(np.int32)
    low, high = np.array(space.low), np.array(space.high)
    return (low + (high - low) * draws).astype(np.float32)


def has_ended(step: Step) -> np.ndarray:
    return np.asarray((step.terminal | step.truncated).all(axis=1))


def roll_out(env: HostEnv, seeds: np.ndarray, stream: int = 0) -> list[Step]:
    """All environments from their resets until the last has ended."""
    rng = np.random.default_rng(stream)
    steps = [env.reset(np.arange(env.num_envs), seeds[: env.num_envs])]
    while not has_ended(steps[-1]).all():
        assert len(steps) <= MOST_STEPS, "an episode does not end"
        steps.append(env.step(draw_actions(env, steps[-1], rng)))
    return steps


def check_attributes(env: HostEnv) -> None:
    assert is_host(env)
    assert env.num_envs >= 2, "these checks need two environments"
    assert env.name
    assert env.return_name
    assert len(env.spec.observation_sizes) == env.spec.num_agents > 0
    assert len(env.action_names) == env.spec.action.size


def check_shapes_and_dtypes(env: HostEnv) -> None:
    spec, steps = env.spec, roll_out(env, SEEDS)
    alone = env.reset(np.array([1]), SEEDS[:1])
    for count, step in [(env.num_envs, steps[0]), (env.num_envs, steps[-1]), (1, alone)]:
        seen, agents = step.observation, (count, spec.num_agents)
        assert seen.features.shape == (*agents, spec.observation_size)
        assert seen.action_mask.shape == (*agents, spec.action.size)
        assert seen.agent_mask.shape == agents
        assert seen.reset.shape == seen.step_count.shape == (count,)
        assert step.rewards.shape == step.terminal.shape == step.truncated.shape == agents
        assert (step.rewards.dtype, seen.step_count.dtype) == (np.float32, np.int32)
        flags = (seen.action_mask, seen.agent_mask, seen.reset, step.terminal, step.truncated)
        assert {flag.dtype for flag in flags} == {np.dtype(bool)}
        assert (step.state is None) == (spec.state_size == 0)
        assert step.state is None or step.state.shape == (count, spec.state_size)
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(step))
        assert all(values.shape == (count,) for values in step.metrics.values())
    assert steps[0].observation.features.dtype == steps[-1].observation.features.dtype


def check_beginnings(env: HostEnv) -> None:
    steps = roll_out(env, SEEDS)
    first = steps[0]
    assert first.observation.reset.all()
    assert not first.observation.step_count.any()
    for part in (first.rewards, first.terminal, first.truncated):
        assert not part.any()
    for number, step in enumerate(steps[1:], 1):
        live = ~has_ended(steps[number - 1])
        assert not step.observation.reset.any()
        assert (step.observation.step_count[live] == number).all()


def check_features(env: HostEnv) -> None:
    for step in roll_out(env, SEEDS):
        assert np.isfinite(step.observation.features).all()
        assert np.isfinite(step.rewards).all()
        for agent, size in enumerate(env.spec.observation_sizes):
            assert not step.observation.features[:, agent, size:].any()


def check_present_agents_can_act(env: HostEnv) -> None:
    for step in roll_out(env, SEEDS):
        can_act = step.observation.action_mask.any(axis=-1) | ~step.observation.agent_mask
        assert can_act[~has_ended(step)].all()


def check_ends(env: HostEnv) -> None:
    """In one way or the other; and an environment that has ended repeats its last step."""
    steps = roll_out(env, SEEDS)
    rng = np.random.default_rng(1)
    steps.append(env.step(draw_actions(env, steps[-1], rng)))
    limit = env.spec.episode_limit
    assert limit is None or len(steps) <= limit + 2
    for before, after in itertools.pairwise(steps):
        assert not (after.terminal & after.truncated).any()
        over = has_ended(before)
        assert has_ended(after)[over].all()
        same = [(before.observation, after.observation), (before.rewards, after.rewards)]
        for one, other in zip(*map(jax.tree.leaves, zip(*same, strict=True)), strict=True):
            np.testing.assert_array_equal(one[over], other[over])


def check_seeds(env: HostEnv) -> None:
    """Equal seeds and actions give equal episodes, others do not, whatever was played before."""
    one = roll_out(env, SEEDS)
    assert_same(one, roll_out(env, SEEDS))
    other = roll_out(env, SEEDS[env.num_envs :])
    same = [
        np.array_equal(a, b)
        for pair in zip(one, other, strict=False)
        for a, b in zip(*(jax.tree.leaves(x._replace(metrics={})) for x in pair), strict=True)
    ]
    assert not all(same), "every seed gives the same episode"


def check_environments_are_independent(env: HostEnv) -> None:
    """A seed gives the same first step in every environment, alone or together with others."""
    together = env.reset(np.arange(env.num_envs), SEEDS[: env.num_envs])
    alone = env.reset(np.array([0]), SEEDS[1:2])
    np.testing.assert_array_equal(together.observation.features[1], alone.observation.features[0])
    swapped = env.reset(np.array([1, 0]), SEEDS[:2])
    np.testing.assert_array_equal(together.observation.features[:2], swapped.observation.features)


def check_metrics(env: HostEnv) -> None:
    """Names never vanish, so that a table of them has no holes in time."""
    names: set[str] = set()
    for step in roll_out(env, SEEDS):
        assert names <= {*step.metrics}
        names = {*step.metrics}
        assert not names & {"return", "length"}
        assert all(np.issubdtype(values.dtype, np.floating) for values in step.metrics.values())


def assert_same(one: list[Step], other: list[Step]) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        known: Any = (a._replace(metrics={}), b._replace(metrics={}))
        jax.tree.map(np.testing.assert_array_equal, *known)
        for name in a.metrics:
            np.testing.assert_array_equal(a.metrics[name], b.metrics[name])


CHECKS: tuple[Callable[[HostEnv], None], ...] = (
    check_attributes,
    check_shapes_and_dtypes,
    check_beginnings,
    check_features,
    check_present_agents_can_act,
    check_ends,
    check_seeds,
    check_environments_are_independent,
    check_metrics,
)
