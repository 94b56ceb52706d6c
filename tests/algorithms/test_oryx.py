"""Oryx's loss against numbers worked out by hand, and what its policy promises."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.algorithms import oryx
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.ops.distributions import categorical
from oryx_marl.ops.values import DiscreteValues
from oryx_marl.types import ActionSpace, Observation, Spec, Window

SPEC = Spec("", ("a", "b"), (6, 6), ActionSpace("discrete", 3))
CONFIG = oryx.Config(
    network=NetworkConfig(width=16),
    standardise=False,
    initial_state="zeros",
    advantage="cumulative",
    batch_size=2,
    sequence_length=4,
    discount=0.5,
    value_temperature=2.0,
    policy_temperature=1.0,
    critic_weight=0.25,
    td_lambda=0.0,
)
IDS = jnp.arange(2)


def tables(observation: Observation, actions: jax.Array, ids: jax.Array):
    """A network whose logits and Qs are written into the features."""
    return observation.features[..., :3], observation.features[..., 3:]


def target_tables(observation: Observation, actions: jax.Array, ids: jax.Array):
    """Its target network: Q one higher."""
    return observation.features[..., :3], observation.features[..., 3:] + 1


def loss(network, target, steps, ids, config):
    """The loss on tables, which have no recurrent state."""

    def without_state(table):
        def forward(observation, actions, ids, state):
            logits, q = table(observation, actions, ids)
            critics = [DiscreteValues(each) for each in jnp.split(q, config.num_critics, axis=-1)]
            return categorical(logits, observation.action_mask), critics, state

        return forward

    total, (metrics, _) = oryx.loss(
        without_state(network), without_state(target), steps, ids, config
    )
    return total, metrics


def window(features: np.ndarray, **changes) -> Window:
    """[B, T, 2] steps of one running episode, all present, all legal, action 0, reward 0."""
    shape = features.shape[:3]
    parts = {
        "action_mask": np.ones((*shape, 3), bool),
        "agent_mask": np.ones(shape, bool),
        "reset": np.zeros(shape[:2], bool),
        "actions": np.zeros(shape, np.int32),
        "rewards": np.zeros(shape, np.float32),
        "terminal": np.zeros(shape, bool),
        **changes,
    }
    parts = {name: jnp.asarray(value) for name, value in parts.items()}
    observation = Observation(
        jnp.asarray(features, jnp.float32),
        parts["action_mask"],
        parts["agent_mask"],
        parts["reset"],
        jnp.zeros(shape[:2], jnp.int32),
    )
    return Window(observation, parts["actions"], parts["rewards"], parts["terminal"])


def logs(*probabilities: float) -> list[float]:
    return [float(np.log(p)) if p else 0.0 for p in probabilities]


def test_critic_terms_by_hand() -> None:
    """One agent matters (the other is absent), three steps, two examples, γ = 1/2, α = 2.

    Q of the logged action: example 0: 1, 2, 3; example 1: 4, 2 + log 9, 6. The target's are one
    higher. Next values of pair (0, 1): 3 and 3 + log 9, so exp(·/2) are in proportion 1 : 3 and
    the weights are 0.5 and 1.5. Of pair (1, 2) example 0 is terminal, so example 1 is alone: 1.
    """
    features = np.zeros((2, 3, 2, 6))
    features[:, :, 0, 3] = [[1, 2, 3], [4, 2 + np.log(9), 6]]
    terminal = np.zeros((2, 3, 2), bool)
    terminal[0, 1, 0] = True
    agent_mask = np.ones((2, 3, 2), bool)
    agent_mask[:, :, 1] = False
    rewards = np.zeros((2, 3, 2), np.float32)
    rewards[0, 1, 0] = 1.0
    rewards[:, :, 1] = 77.0
    steps = window(features, terminal=terminal, agent_mask=agent_mask, rewards=rewards)
    _, metrics = loss(tables, target_tables, steps, IDS, CONFIG)
    errors = [
        0.5 * 0.5 * 3 - 1,
        1.0 - 2,
        0.5 * 1.5 * (3 + np.log(9)) - 4,
        0.5 * 1.0 * 7 - (2 + np.log(9)),
    ]
    expected = np.mean([0.5 * e**2 for e in errors])
    assert float(metrics["critic_loss"]) == pytest.approx(expected, rel=1e-5)
    assert float(metrics["td_error"]) == pytest.approx(np.mean(np.abs(errors)), rel=1e-5)


@pytest.mark.parametrize("border", ["truncation", "unflagged end"])
def test_no_bootstrap_across_borders(border: str) -> None:
    """Step 2 begins another episode: pair (1, 2) is left out, whatever the flags say.

    Truncations reach the learner as resets alone, as do ends that nobody flagged.
    """
    features = np.zeros((1, 3, 2, 6))
    features[0, :, :, 3] = [[1, 1], [2, 2], [1000, 1000]]
    reset = np.array([[False, False, True]])
    _, metrics = loss(tables, target_tables, window(features, reset=reset), IDS, CONFIG)
    # Only pair (0, 1) counts: y = 1/2 · 3, Q = 1, for both agents.
    assert float(metrics["critic_loss"]) == pytest.approx(0.5 * 0.5**2)


def test_terminal_wins_over_the_border() -> None:
    features = np.zeros((1, 2, 2, 6))
    features[0, :, :, 3] = [[2, 2], [1000, 1000]]
    steps = window(
        features,
        reset=np.array([[False, True]]),
        terminal=np.array([[[True, True], [False, False]]]),
        rewards=np.array([[[5.0, 5.0], [0.0, 0.0]]], np.float32),
    )
    _, metrics = loss(tables, target_tables, steps, IDS, CONFIG)
    assert float(metrics["critic_loss"]) == pytest.approx(0.5 * 3**2)


def policy_case(**changes) -> Window:
    """Two examples, two steps of which the second is empty of agents, two agents.

    Example 0, agent 0: π = (1/2, 1/2, 0 illegal), Q = (1, 3, 999), own = 1 - 2 = -1.
    Example 0, agent 1: π = (1/4, 3/4, illegal), Q = (4, 0, 999), own = 4 - 1 = 3.
    Example 1, agent 0: π = (1/2, 1/2, illegal), Q = (2, 2, 999), own = 0.
    Example 1, agent 1: π = (1/2, 1/2, illegal), Q = (2, 0, 999), own = 1.
    """
    features = np.zeros((2, 2, 2, 6))
    features[0, 0, 0] = [*logs(0.5, 0.5), 9, 1, 3, 999]
    features[0, 0, 1] = [*logs(0.25, 0.75), 9, 4, 0, 999]
    features[1, 0, 0] = [*logs(0.5, 0.5), 9, 2, 2, 999]
    features[1, 0, 1] = [*logs(0.5, 0.5), 9, 2, 0, 999]
    action_mask = np.ones((2, 2, 2, 3), bool)
    action_mask[..., 2] = False
    agent_mask = np.ones((2, 2, 2), bool)
    agent_mask[:, 1] = False
    return window(features, **{"action_mask": action_mask, "agent_mask": agent_mask, **changes})


def weights(*advantages: float) -> np.ndarray:
    scores = np.exp(advantages)
    return len(advantages) * scores / scores.sum()


def test_policy_loss_with_cumulative_advantage_by_hand() -> None:
    """Cumulative advantages: agent 0: -1 and 0; agent 1: -1 + 3 = 2 and 0 + 1 = 1."""
    _, metrics = loss(tables, tables, policy_case(), IDS, CONFIG)
    first, second = weights(-1, 0), weights(2, 1)
    half, quarter = np.log(2), np.log(4)
    terms = [first[0] * half, first[1] * half, second[0] * quarter, second[1] * half]
    assert float(metrics["policy_loss"]) == pytest.approx(np.mean(terms), rel=1e-5)
    sizes = [w.sum() ** 2 / (2 * (w**2).sum()) for w in (first, second)]
    assert float(metrics["effective_sample_size"]) == pytest.approx(np.mean(sizes), rel=1e-5)
    assert float(metrics["max_logit"]) == 9
    assert float(metrics["valid_label_share"]) == 0.5


def test_policy_loss_with_own_advantage_by_hand() -> None:
    config = oryx.Config(**{**vars(CONFIG), "advantage": "own"})
    _, metrics = loss(tables, tables, policy_case(), IDS, config)
    first, second = weights(-1, 0), weights(3, 1)
    terms = [first.sum() * np.log(2), second[0] * np.log(4), second[1] * np.log(2)]
    assert float(metrics["policy_loss"]) == pytest.approx(np.sum(terms) / 4, rel=1e-5)


def test_absent_agent_adds_nothing_to_the_advantage() -> None:
    """Agent 0 of example 0 is absent: agent 1's cumulative advantage is its own 3."""
    agent_mask = np.zeros((2, 2, 2), bool)
    agent_mask[:, 0] = [[False, True], [True, True]]
    _, metrics = loss(tables, tables, policy_case(agent_mask=agent_mask), IDS, CONFIG)
    second = weights(3, 1)
    # Agent 0 of example 1 is alone in its softmax: weight 1.
    terms = [np.log(2), second[0] * np.log(4), second[1] * np.log(2)]
    assert float(metrics["policy_loss"]) == pytest.approx(np.mean(terms), rel=1e-5)


def test_rows_with_an_illegal_label_stay_out_of_the_policy_loss() -> None:
    """Example 0, agent 1 logged action 2, which is illegal: out of loss, softmax and normaliser."""
    actions = np.zeros((2, 2, 2), np.int32)
    actions[0, 0, 1] = 2
    steps = policy_case(actions=actions)
    first = weights(-1, 0)
    terms = [first[0] * np.log(2), first[1] * np.log(2), np.log(2)]
    _, metrics = loss(tables, tables, steps, IDS, CONFIG)
    assert float(metrics["policy_loss"]) == pytest.approx(np.mean(terms), rel=1e-5)

    def of_features(features):
        changed = steps._replace(observation=steps.observation._replace(features=features))
        return loss(tables, tables, changed, IDS, CONFIG)[1]["policy_loss"]

    gradient = jax.grad(of_features)(steps.observation.features)
    assert np.isfinite(gradient).all()
    assert not gradient[0, 0, 1].any()


def test_cloning_weighs_every_row_alike() -> None:
    config = oryx.Config(**{**vars(CONFIG), "objective": "bc"})
    total, metrics = loss(tables, tables, policy_case(), IDS, config)
    expected = np.mean([np.log(2), np.log(2), np.log(4), np.log(2)])
    assert float(metrics["policy_loss"]) == pytest.approx(expected, rel=1e-5)
    assert float(total) == pytest.approx(expected + 0.25 * float(metrics["critic_loss"]), rel=1e-5)


def test_q_learning_takes_the_best_legal_next_value_and_no_policy_loss() -> None:
    features = np.zeros((1, 2, 2, 6))
    features[0, 0, :, 3] = 1
    features[0, 1, :, 3:] = [2, 5, 999]
    action_mask = np.ones((1, 2, 2, 3), bool)
    action_mask[..., 2] = False
    config = oryx.Config(**{**vars(CONFIG), "objective": "q_learning"})
    total, metrics = loss(
        tables, target_tables, window(features, action_mask=action_mask), IDS, config
    )
    expected = 0.5 * (0.5 * 6 - 1) ** 2
    assert float(metrics["critic_loss"]) == pytest.approx(expected)
    assert float(total) == pytest.approx(0.25 * expected)


def test_expected_targets_take_the_mean_over_the_policy() -> None:
    """π of the next step is 1/2, 1/4, 1/4 and Q⁻ there 3, 5, 9, so y = 1/2 · 5; Q = 1."""
    features = np.zeros((1, 2, 2, 6))
    features[0, 0, :, 3] = 1
    features[0, 1, :, :3] = logs(0.5, 0.25, 0.25)
    features[0, 1, :, 3:] = [2, 4, 8]
    config = replace(CONFIG, next_action="expected", value_temperature=1e9)
    _, metrics = loss(tables, target_tables, window(features), IDS, config)
    assert float(metrics["critic_loss"]) == pytest.approx(0.5 * (0.5 * 5 - 1) ** 2)


def test_of_two_critics_the_lower_next_value_counts() -> None:
    """Q⁻ of the logged action is 3 and 5, so both learn y = 1/2 · 3; they say 1 and 2 before. The
    weights come from the mean of both advantages."""

    def two(lift: float):
        def network(observation: Observation, actions: jax.Array, ids: jax.Array):
            logits, q = tables(observation, actions, ids)
            return logits, jnp.concatenate([q, 2 * q], axis=-1) + lift

        return network

    features = np.zeros((2, 2, 2, 6))
    features[:, 0, :, 3] = 1
    features[:, 1, :, 3] = 2
    config = replace(CONFIG, num_critics=2, value_temperature=1e9)
    _, metrics = loss(two(0), two(1), window(features), IDS, config)
    expected = 0.5 * np.mean([(0.5 * 3 - 1) ** 2, (0.5 * 3 - 2) ** 2])
    assert float(metrics["critic_loss"]) == pytest.approx(expected)
    features[0, :, :, 4] = -3.0
    _, one = loss(tables, target_tables, window(1.5 * features), IDS, CONFIG)
    _, both = loss(two(0), two(1), window(features), IDS, config)
    assert float(both["effective_sample_size"]) == pytest.approx(
        float(one["effective_sample_size"]), rel=1e-5
    )


def test_an_unset_temperature_follows_the_spread_of_advantages() -> None:
    """Rewards of another size, with values to match, change no weight, and the temperature is the
    root of their variance, the squared reward per step ((1 - γ) y) and (0.3 · TD error)²."""
    steps = random_window(1)
    config = replace(CONFIG, policy_temperature=None, value_temperature=1e9, advantage="own")
    _, metrics = loss(tables, tables, steps, IDS, config)
    logits, q = np.asarray(steps.observation.features[..., :3]), steps.observation.features[..., 3:]
    q, policy = np.asarray(q), np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    taken = np.take_along_axis(q, np.asarray(steps.actions)[..., None], -1)[..., 0]
    labels = np.asarray(steps.observation.agent_mask & steps.choice)
    supported = np.take_along_axis(
        np.asarray(steps.observation.action_mask), np.asarray(steps.actions)[..., None], -1
    )[..., 0]
    masked = np.where(steps.observation.action_mask, policy, 0)
    masked /= np.maximum(masked.sum(-1, keepdims=True), 1e-9)
    advantage = (taken - (masked * q).sum(-1))[labels & supported]
    least = advantage.std()
    found = float(metrics["policy_temperature"])
    assert least < found < 2 * least
    _, patient = loss(tables, tables, steps, IDS, replace(config, discount=1.0))
    errors = 2 * float(patient["critic_loss"])  # squared, on average
    expected = np.sqrt(least**2 + 0.09 * errors)
    assert float(patient["policy_temperature"]) == pytest.approx(expected, rel=1e-4)

    larger = steps._replace(
        rewards=10 * steps.rewards,
        observation=steps.observation._replace(
            features=steps.observation.features.at[..., 3:].multiply(10)
        ),
    )
    _, scaled = loss(tables, tables, larger, IDS, config)
    assert float(scaled["policy_temperature"]) == pytest.approx(10 * found, rel=1e-4)
    assert float(scaled["policy_loss"]) == pytest.approx(float(metrics["policy_loss"]), rel=1e-4)


def test_forced_actions_do_not_count_in_the_policy_loss() -> None:
    """Half of the steps allow one action only: the loss is that of the others."""
    steps = random_window(2)
    everything = jnp.ones_like(steps.observation.action_mask)
    free = steps._replace(observation=steps.observation._replace(action_mask=everything))
    only = jax.nn.one_hot(steps.actions, 3, dtype=bool)
    is_forced = jnp.arange(steps.actions.shape[1])[:, None, None] % 2 == 0
    mask = jnp.where(is_forced, only, everything)
    forced = steps._replace(observation=steps.observation._replace(action_mask=mask))
    config = replace(CONFIG, advantage="own")
    _, metrics = loss(tables, tables, forced, IDS, config)
    odd = jax.tree.map(lambda x: x[:, 1::2], free)
    _, expected = loss(tables, tables, odd, IDS, config)
    for name in ("policy_loss", "effective_sample_size", "entropy"):
        assert float(metrics[name]) == pytest.approx(float(expected[name]), rel=1e-5), name
    everywhere = steps._replace(observation=steps.observation._replace(action_mask=only))
    _, nothing = loss(tables, tables, everywhere, IDS, config)
    assert float(nothing["policy_loss"]) == 0


def test_no_memory_means_every_step_begins_anew() -> None:
    """A network that adds 1 to Q where it sees a reset: everywhere, without memory.

    The borders of the TD loss stay the real ones: y = 1/2 · 2, Q = 2, so every pair errs by 1.
    """

    def network(observation: Observation, actions: jax.Array, ids: jax.Array):
        logits, q = tables(observation, actions, ids)
        return logits, q + observation.reset[:, None, None]

    steps = window(np.ones((1, 3, 2, 6)))
    for memory, expected in ((False, 1.0), (True, 0.5)):
        config = oryx.Config(**{**vars(CONFIG), "memory": memory})
        _, metrics = loss(network, network, steps, IDS, config)
        assert float(metrics["td_error"]) == pytest.approx(expected)


def random_window(seed: int, batch: int = 8, length: int = 6) -> Window:
    rng = np.random.default_rng(seed)
    return window(
        rng.normal(size=(batch, length, 2, 6)),
        reset=rng.random((batch, length)) < 0.2,
        actions=rng.integers(0, 3, (batch, length, 2)).astype(np.int32),
        rewards=rng.normal(size=(batch, length, 2)).astype(np.float32),
        terminal=rng.random((batch, length, 2)) < 0.1,
    )


def test_every_weight_is_moved_by_updates() -> None:
    learner = oryx.make(CONFIG, SPEC)
    state = learner.init(jax.random.key(0))
    update = jax.jit(learner.update)
    moved, _ = update(state, random_window(0), jax.random.key(1))
    moved, metrics = update(moved, random_window(1), jax.random.key(2))
    assert all(np.isfinite(value) for value in metrics.values())
    paths = jax.tree_util.tree_leaves_with_path(state.network)
    for (path, before), after in zip(paths, jax.tree.leaves(moved.network), strict=True):
        assert not np.array_equal(before, after), jax.tree_util.keystr(path)
    for before, after in zip(
        jax.tree.leaves(state.target), jax.tree.leaves(moved.target), strict=True
    ):
        assert 0 < np.abs(np.asarray(before - after)).max() < 1e-4


def test_order_of_agents_is_drawn_and_followed() -> None:
    """A reordered window keeps every agent's rows together."""
    steps = random_window(0)
    swapped = steps.reorder(jnp.array([1, 0]))
    for name in ("actions", "rewards", "terminal"):
        expected = np.asarray(getattr(steps, name))[:, :, ::-1]
        np.testing.assert_array_equal(getattr(swapped, name), expected)
    np.testing.assert_array_equal(
        swapped.observation.features, np.asarray(steps.observation.features)[:, :, ::-1]
    )


def observations(batch: int) -> Observation:
    return Observation(
        jnp.zeros((batch, 2, 6)),
        jnp.ones((batch, 2, 3), bool),
        jnp.ones((batch, 2), bool),
        jnp.ones(batch, bool),
        jnp.zeros(batch, jnp.int32),
    )


def test_agents_sample_independently() -> None:
    """With equal logits, joint actions of two agents are uniform over the nine pairs (χ² test)."""
    learner = oryx.make(CONFIG, SPEC)
    network = jax.tree.map(jnp.zeros_like, learner.init(jax.random.key(0)).network)
    policy = learner.policy(network)
    batch = 9_000
    _, actions, _ = jax.jit(policy.step)(policy.init(batch), observations(batch), jax.random.key(0))
    counts = np.bincount(np.asarray(actions[:, 0] * 3 + actions[:, 1]), minlength=9)
    chi_square = ((counts - 1000) ** 2 / 1000).sum()
    assert chi_square < 26.1  # 8 degrees of freedom, p = 0.001
    # Shared noise would have made both agents choose alike.
    assert 0.28 < np.mean(actions[:, 0] == actions[:, 1]) < 0.39


def test_only_legal_actions_are_taken() -> None:
    learner = oryx.make(CONFIG, SPEC)
    network = learner.init(jax.random.key(0)).network
    rng = np.random.default_rng(0)
    action_mask = rng.random((500, 2, 3)) < 0.5
    action_mask[..., 1] |= ~action_mask.any(axis=-1)
    seen = observations(500)._replace(action_mask=jnp.asarray(action_mask))
    for temperature in (0.0, 0.25, 1.0, 1000.0):
        policy = learner.policy(network).at_temperature(temperature)
        _, actions, _ = policy.step(policy.init(500), seen, jax.random.key(1))
        assert np.take_along_axis(action_mask, np.asarray(actions)[..., None], -1).all()


def test_acting_gives_the_training_logits_across_a_reset() -> None:
    """Step by step, on its own sampled actions: the log-probabilities of the training pass."""
    config = oryx.Config(network=NetworkConfig(width=32, num_heads=2), standardise=False)
    learner = oryx.make(config, SPEC)
    network = jax.tree.map(lambda x: 2 * x, learner.init(jax.random.key(0)).network)
    policy = learner.policy(network)
    rng = np.random.default_rng(0)
    length = 14
    reset = np.zeros(length, bool)
    reset[[0, 5]] = True
    history = observations(length)._replace(
        features=jnp.asarray(rng.normal(size=(length, 2, 6)), jnp.float32),
        reset=jnp.asarray(reset),
    )
    carry, taken, seen = policy.init(1), [], []
    step = jax.jit(policy.step)
    for t in range(length):
        now = jax.tree.map(lambda x: x[t][None], history)  # noqa: B023
        carry, actions, found = step(carry, now, jax.random.key(t))
        taken.append(actions[0])
        seen.append(found.log_probs[0])
    logits, _ = jax.jit(type(network).__call__)(network, history, jnp.stack(taken), jnp.arange(2))
    np.testing.assert_allclose(jnp.stack(seen), jax.nn.log_softmax(logits), atol=1e-5)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(OryxError, match="sequence_length"):
        oryx.Config(sequence_length=1)
    with pytest.raises(OryxError, match="positive"):
        oryx.Config(policy_temperature=0.0)
