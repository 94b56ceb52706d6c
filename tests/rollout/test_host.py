"""Episodes outside JAX: every number is played, the policy is told what happens in it."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_envs
import toy_parallel

from oryx_marl.algorithms import sable
from oryx_marl.algorithms.base import Algorithm, Policy
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs import to_pettingzoo
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.rollout import host
from oryx_marl.rollout.record import record_episodes
from oryx_marl.types import ActionSpace, Observation, Spec, Step

KEY = jax.random.key(3)


class Countdowns:
    """Episodes of 1 to 9 steps, as their seeds say; agents get 1 and 3 a step, times the seed."""

    spec = Spec("", ("x", "y"), (1, 1), ActionSpace("discrete", 100))
    name, return_name, action_names = "countdowns", "return", ("no",) * 100

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.seeds: list[int] = []
        self.acted: dict[int, list[list[int]]] = {}
        self._seed = np.zeros(num_envs, int)
        self._count = np.zeros(num_envs, int)
        self._length = np.zeros(num_envs, int)

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> Step:
        self.seeds += seeds.tolist()
        self._seed[which], self._count[which], self._length[which] = seeds, 0, 1 + seeds % 9
        return self._answer(which, np.zeros((len(which), 2), np.float32))

    def step(self, actions: np.ndarray) -> Step:
        assert actions.shape == (self.num_envs, 2)
        live = self._count < self._length
        for index in np.flatnonzero(live):
            self.acted.setdefault(int(self._seed[index]), []).append(actions[index].tolist())
        self._count += live
        rewards = (self._seed % 7)[:, None] * np.array([1, 3], np.float32)
        return self._answer(np.arange(self.num_envs), rewards.astype(np.float32))

    def close(self) -> None:
        pass

    def _answer(self, which: np.ndarray, rewards: np.ndarray) -> Any:
        count = self._count[which].astype(np.int32)
        ended = np.repeat((count >= self._length[which])[:, None], 2, axis=1)
        shape = (len(which), 2)
        observation: Any = Observation(
            np.repeat(self._seed[which] % 7, 2).reshape(*shape, 1).astype(np.float32),
            np.ones((*shape, 100), bool),
            np.ones(shape, bool),
            count == 0,
            count,
        )
        metrics: Any = {"count": count} if (count > 0).any() else {}
        flags: Any = (rewards, ended, np.zeros_like(ended))
        return Step(observation, *flags, None, metrics)


def telling_policy(traces: list[int]) -> Policy:
    """Acts by what it is told: steps it remembers, steps it is told of, rewards; all in one."""

    @jax.jit
    def act(carry: jax.Array, observation: Observation, noise: jax.Array) -> Any:
        traces.append(len(observation.reset))  # once for each compilation
        carry = jnp.where(observation.reset, 0, carry) + 1
        assert observation.last_rewards is not None
        told = observation.last_rewards[:, 0] == observation.features[:, 0, 0]
        told = jnp.where(observation.reset, (observation.last_rewards == 0).all(axis=1), told)
        same = carry == observation.step_count + 1
        return carry, jnp.stack([carry, 10 * told + same], axis=1).astype(jnp.int32), None

    return Policy(lambda batch: jnp.full(batch, 50), act, lambda key, batch: jnp.zeros(batch))


@pytest.mark.parametrize(("num_envs", "episodes"), [(4, 25), (8, 3), (1, 2)])
def test_every_number_is_played_to_its_end(num_envs: int, episodes: int) -> None:
    env, traces = Countdowns(num_envs), []
    found = host.play(env, telling_policy(traces), KEY, episodes)
    assert len(set(env.seeds)) == len(env.seeds) == episodes
    seeds = np.array(sorted(env.seeds))  # numbers follow one another, and so do their seeds
    lengths = 1 + seeds % 9
    np.testing.assert_array_equal(found.lengths, lengths)
    np.testing.assert_allclose(found.returns, 2.0 * (seeds % 7) * lengths)
    np.testing.assert_array_equal(found.metrics["count"], lengths)
    assert traces == [num_envs]  # compiled once, for all environments
    for seed, length in zip(seeds.tolist(), lengths, strict=True):
        # Its memory begins with the episode; rewards and time are those of this environment.
        assert env.acted[seed] == [[1 + t, 11] for t in range(length)]


def test_equal_keys_give_equal_episodes() -> None:
    one, other = (host.play(Countdowns(4), telling_policy([]), KEY, 9) for _ in range(2))
    np.testing.assert_equal(one, other)
    third = host.play(Countdowns(4), telling_policy([]), jax.random.key(4), 9)
    assert not np.array_equal(one.returns, third.returns)


def test_an_episode_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(toy_parallel.Meet):
        def step(self, actions: Any) -> Any:
            self._count = 0
            return super().step(actions)

    monkeypatch.setattr(host, "MOST_STEPS", 30)
    env = ParallelEnvs(Endless, 2)
    policy = Policy(
        lambda batch: (),
        lambda carry, observation, noise: (carry, jnp.zeros((2, 2, 1)), None),
        lambda key, batch: jnp.zeros(batch),
    )
    with pytest.raises(OryxError, match=r"'meet' has 30 steps and no end.*episode limit"):
        host.play(env, policy, KEY, 2)


@dataclass(frozen=True)
class Seeker(Algorithm):
    """Walks towards its target, by a share of the way (its weight) and some noise."""

    config, batch_parts, needs_returns_to_go = None, None, False
    batch_size = sequence_length = 1

    def policy(self, weights: jax.Array) -> Policy:
        def act(carry: Any, observation: Observation, noise: jax.Array) -> Any:
            way = (observation.features[..., 1] - observation.features[..., 0]) / toy_parallel.REACH
            chosen = weights * way + 0.3 * noise
            return carry, jnp.clip(chosen, -1, 1)[..., None], None

        return Policy(lambda batch: (), act, lambda key, batch: jax.random.normal(key, (batch, 2)))


def test_the_same_game_in_and_outside_jax_scores_the_same() -> None:
    """Seeds of weights: 1 goes straight to the target, 0 stays where it is."""
    weights, episodes = jnp.array([1.0, 0.0]), 300
    inside = Evaluator(Seeker(), toy_envs.make(), [0, 1])
    outside = Evaluator(Seeker(), ParallelEnvs(toy_parallel.parallel_env, 16), [0, 1])
    temperatures = (0.0, 0.5, 1.0)
    for one, other in zip(
        inside.evaluate_each(weights, 0, episodes, temperatures),
        outside.evaluate_each(weights, 0, episodes, temperatures),
        strict=True,
    ):
        assert {*one} == {*other} == {"return", "length", "near"}
        for scores in (one, other):
            assert all(values.shape == (2, episodes) for values in scores.values())
            assert (scores["length"] == toy_parallel.LIMIT).all()
        for name in ("return", "near"):
            error = np.hypot(one[name].std(axis=1), other[name].std(axis=1)) / np.sqrt(episodes)
            gap = np.abs(one[name].mean(axis=1) - other[name].mean(axis=1))
            assert (gap <= 4 * error + 1e-6).all(), (name, gap, error)
    greedy_scores = outside.evaluate(weights, 0, 20, temperature=0.0)
    assert (greedy_scores["near"][0] == 1).all()
    assert greedy_scores["near"][1].mean() < 0.5


def test_scores_outside_jax_repeat_and_streams_differ() -> None:
    weights = jnp.array([0.5, 0.5])
    env = ParallelEnvs(toy_parallel.parallel_env, 4)
    one = Evaluator(Seeker(), env, [0, 1]).evaluate(weights, 7, 10)
    in_workers = ParallelEnvs(toy_parallel.parallel_env, 4, num_workers=2)
    again = Evaluator(Seeker(), in_workers, [0, 1]).evaluate(weights, 7, 10)
    np.testing.assert_equal(one, again)
    assert not np.array_equal(one["return"][0], one["return"][1])  # seeds play other episodes
    other = Evaluator(Seeker(), env, [0, 1]).evaluate(weights, 8, 10)
    assert not np.array_equal(one["return"], other["return"])
    with pytest.raises(OryxError, match="a replay needs an environment written in JAX"):
        Evaluator(Seeker(), env, [0, 1]).record_trajectories(weights, 0, 1)


@pytest.fixture(scope="module")
def learner() -> tuple[sable.SablePPO, Any]:
    """A real policy with memory and legal actions, untrained."""
    config = sable.Config(network=NetworkConfig(width=8), num_envs=4, rollout_length=4)
    algorithm = sable.make(config, TMaze().spec)
    return algorithm, algorithm.weights(algorithm.init(jax.random.key(0)))


def test_our_own_environment_there_and_back(learner: tuple[sable.SablePPO, Any]) -> None:
    """Greedy play in T-Maze behind PettingZoo, by hand one episode at a time."""
    algorithm, weights = learner
    env = ParallelEnvs(lambda: to_pettingzoo("tmaze"), 3)
    assert not TMaze().spec.misfits(env.spec)
    assert env.spec.state_size == TMaze().spec.state_size
    policy = host.compile_policy(algorithm, weights, temperature=0.0)
    found = host.play(env, policy, KEY, 5)

    game = to_pettingzoo("tmaze")
    first = int(jax.random.randint(jax.random.split(KEY)[0], (), 0, 2**31 - 1))
    for number in range(5):
        seen, _ = game.reset(seed=first + number)
        carry, rewards, total, count = policy.init(1), [0.0, 0.0], 0.0, 0
        while game.agents:
            observation = Observation(
                np.stack([seen[agent]["observation"] for agent in game.agents])[None],
                np.stack([seen[agent]["action_mask"] for agent in game.agents])[None] != 0,
                np.ones((1, 2), bool),
                np.array([count == 0]),
                np.array([count], np.int32),
                np.array([rewards], np.float32),
            )
            carry, actions, _ = policy.step(carry, observation, KEY)
            chosen = dict(zip(game.agents, np.asarray(actions)[0], strict=True))
            seen, earned, *_ = game.step(chosen)
            rewards = list(earned.values())
            total, count = total + np.mean(rewards), count + 1
        assert found.lengths[number] == count
        assert found.returns[number] == pytest.approx(total)


def test_recorded_outside_jax_as_inside(learner: tuple[sable.SablePPO, Any]) -> None:
    """The recorded actions, replayed from the seeds, lead to all that was recorded."""
    algorithm, weights = learner
    env = ParallelEnvs(lambda: to_pettingzoo("tmaze"), 3)
    arrays, discarded = record_episodes(algorithm, env, weights, 100, KEY)
    inside, _ = record_episodes(algorithm, TMaze(), weights, 100, KEY)
    assert {*arrays} == {*inside}
    for name, array in inside.items():
        assert arrays[name].dtype == array.dtype, name
        assert arrays[name].shape[1:] == array.shape[1:], name
    assert discarded == 0
    dataset = Dataset(spec=env.spec, **arrays)
    assert dataset.num_rows >= 100 > dataset.num_rows - dataset.episode_lengths[-1]
    last = dataset.episode_starts + dataset.episode_lengths - 1
    assert (dataset.terminals | dataset.truncations)[last].all()
    assert (dataset.terminals | dataset.truncations).sum() == 2 * dataset.num_episodes
    assert np.take_along_axis(dataset.action_mask, dataset.actions[..., None], axis=-1).all()
    again, _ = record_episodes(algorithm, env, weights, 100, KEY)
    np.testing.assert_equal(arrays, again)

    game, call_key = to_pettingzoo("tmaze"), jax.random.fold_in(KEY, 0)
    seed = int(jax.random.randint(jax.random.split(call_key)[0], (), 0, 2**31 - 1))
    for number in range(2):  # episodes stand in the order of their numbers
        begin, length = dataset.episode_starts[number], dataset.episode_lengths[number]
        seen, _ = game.reset(seed=seed + number)
        for row in range(begin, begin + length):
            shown = np.stack([seen[agent]["observation"] for agent in game.agents])
            np.testing.assert_array_equal(shown, dataset.observations[row])
            np.testing.assert_array_equal(game.state(), dataset.state[row])
            chosen = dict(zip(game.agents, dataset.actions[row], strict=True))
            seen, earned, *_ = game.step(chosen)
            assert list(earned.values()) == dataset.rewards[row].tolist()
        assert not game.agents
        shown = np.stack([x["observation"] for x in seen.values()])
        np.testing.assert_array_equal(shown, dataset.final_observations[number])


def test_boxes_are_recorded_without_masks() -> None:
    env = ParallelEnvs(toy_parallel.parallel_env, 3)
    for each in (env, toy_envs.make()):
        arrays, _ = record_episodes(Seeker(), each, jnp.float32(1.0), 45, KEY)
        dataset = Dataset(spec=each.spec, **arrays)
        assert dataset.num_episodes == 5
        assert dataset.actions.shape == (50, 2, 1)
        assert dataset.action_mask is None
        assert -1 <= dataset.actions.min() < dataset.actions.max() <= 1
