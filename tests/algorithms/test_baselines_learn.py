"""Each method reaches the score that it can reach, on games of one step with known answers.

Two agents each take one of two actions, logged uniformly at random and independently.

    differ    both get 1 if their actions differ, else 0
    second    both get ½ for each agent that takes action 1
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import registry
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import put_on_device, sample_windows
from oryx_marl.networks.gpt import GPTConfig
from oryx_marl.networks.transformer import TransformerConfig
from oryx_marl.types import ActionSpace, Observation, Spec

SPEC = Spec("", ("a", "b"), (1, 1), ActionSpace("discrete", 2), episode_limit=1, state_size=1)
PAYOFFS = {"differ": np.array([[0.0, 1.0], [1.0, 0.0]]), "second": np.array([[0, 0.5], [0.5, 1]])}
UPDATES = 1_500


def play_at_random(game: str, rows: int = 2_000) -> Dataset:
    actions = np.random.default_rng(0).integers(0, 2, (rows, 2)).astype(np.int32)
    rewards = PAYOFFS[game][actions[:, 0], actions[:, 1]]
    ones = np.ones((rows, 2, 1), np.float32)
    return Dataset(
        spec=SPEC,
        observations=ones,
        actions=actions,
        rewards=np.repeat(rewards[:, None], 2, axis=1).astype(np.float32),
        terminals=np.ones((rows, 2), bool),
        truncations=np.zeros((rows, 2), bool),
        episode_starts=np.arange(rows),
        state=ones[:, 0],
    )


def learn(name: str, game: str, **changes: Any) -> tuple[float, float]:
    """Mean payoff of the learned policy, sampled and greedy."""
    module = registry.load("algorithms", name)
    config = replace(
        module.Config(), batch_size=32, sequence_length=4, learning_rate=1e-3, **changes
    )
    if name == "mat_icq":
        config = replace(config, network=TransformerConfig(width=32, num_blocks=1))
    algorithm = module.make(config, SPEC)
    data = put_on_device(play_at_random(game), algorithm.needs_returns_to_go)

    @jax.jit
    def train(learner: Any) -> Any:
        def one_update(learner: Any, key: jax.Array) -> tuple[Any, None]:
            window = sample_windows(data, key, config.batch_size, config.sequence_length)
            return algorithm.update(learner, window, jax.random.fold_in(key, 1))[0], None

        return jax.lax.scan(one_update, learner, jax.random.split(jax.random.key(1), UPDATES))[0]

    weights = algorithm.weights(train(algorithm.init(jax.random.key(0))))
    batch = 4_000
    observation = Observation(
        jnp.ones((batch, 2, 1)),
        jnp.ones((batch, 2, 2), bool),
        jnp.ones((batch, 2), bool),
        jnp.ones(batch, bool),
        jnp.zeros(batch, jnp.int32),
    )
    scores = []
    for temperature in (1.0, 0.0):
        policy = algorithm.policy(weights).at_temperature(temperature)
        step = jax.jit(policy.step)
        _, actions, _ = step(policy.init(batch), observation, jax.random.key(2))
        scores.append(float(PAYOFFS[game][actions[:, 0], actions[:, 1]].mean()))
    return scores[0], scores[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["oryx", "mat_icq"])
def test_agents_that_hear_each_other_differ(name: str) -> None:
    """The second knows what the first has chosen, so the payoff of 1 is within reach."""
    sampled, greedy = learn(name, "differ")
    assert sampled > 0.95
    assert greedy == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bc", "iicq", "maicq", "iql_cql", "madt"])
def test_agents_that_choose_alone_differ_half_of_the_time(name: str) -> None:
    """Both actions look alike to an agent that does not know the other's, so sampling gives ½.

    MADT asks for a payoff of 1, but of those who got it half had chosen either action.

    Greedy, both take whatever looks better by chance: always different or always the same. That is
    how a score of 0 can come about.
    """
    sampled, greedy = learn(name, "differ")
    assert 0.4 < sampled < 0.6
    assert greedy in (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["oryx", "mat_icq", "iicq", "maicq", "iql_cql", "madt"])
def test_methods_that_weigh_find_the_better_action(name: str) -> None:
    """Action 1 is better whatever the other does: the payoff of 1 needs no coordination.

    MADT copies those who got 1, and all of them took it.
    """
    sampled, greedy = learn(name, "second")
    assert greedy == 1.0
    # The penalty of CQL holds its Qs near the log-probabilities of the data. MAICQ weighs by
    # values of an agent before they are mixed, whose scale the mixer is free to choose.
    assert sampled > {"iql_cql": 0.5, "maicq": 0.7}.get(name, 0.9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"), [("bc", {}), ("madt", {"network": GPTConfig(tokens="observation")})]
)
def test_cloning_copies_the_data(name: str, changes: dict[str, Any]) -> None:
    """It does what the data did, which pays ½ on average."""
    sampled, _ = learn(name, "second", **changes)
    assert 0.45 < sampled < 0.55
