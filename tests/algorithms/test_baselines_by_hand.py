"""The losses of I-ICQ, MAICQ and IQL-CQL against numbers worked out by hand."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.algorithms import bc, iicq, iql_cql, maicq
from oryx_marl.networks.mixer import QMixer
from oryx_marl.ops.distributions import categorical
from oryx_marl.ops.values import DiscreteValues
from oryx_marl.types import ActionSpace, Observation, Spec, Window

SPEC = Spec("", ("a", "b"), (4, 4), ActionSpace("discrete", 2), state_size=1)
HALF, LOG = np.log(0.5), np.log


def window(features: Any, **changes: Any) -> Window:
    """[B, T, N, 4] features that hold logits and Qs; action 0, nothing ends, everything legal."""
    features = jnp.asarray(features, jnp.float32)
    shape = features.shape[:3]
    parts: dict[str, Any] = {
        "action_mask": np.ones((*shape, 2), bool),
        "agent_mask": np.ones(shape, bool),
        "reset": np.zeros(shape[:2], bool),
        "actions": np.zeros(shape, np.int32),
        "rewards": np.zeros(shape, np.float32),
        "terminal": np.zeros(shape, bool),
        "state": np.zeros((*shape[:2], 1), np.float32),
        **changes,
    }
    found = {name: jnp.asarray(value) for name, value in parts.items()}
    observation = Observation(
        features,
        found["action_mask"],
        found["agent_mask"],
        found["reset"],
        jnp.zeros(shape[:2], jnp.int32),
    )
    return Window(
        observation, found["actions"], found["rewards"], found["terminal"], found["state"]
    )


class Read(eqx.Module):
    """In place of a network: two of the features, from the `first` on, and `more`."""

    first: jax.Array
    more: jax.Array

    def __call__(self, observation: Observation) -> jax.Array:
        found = jax.lax.dynamic_slice_in_dim(observation.features, self.first, 2, axis=-1)
        return found + self.more


class Reads(iicq.ActorCritic):
    """In place of both networks."""

    def __init__(self, actor: Any, critic: Any) -> None:
        self.actor, self.critic = actor, critic


read_logits = Read(jnp.array(0), jnp.array(0.0))
read_q = Read(jnp.array(2), jnp.array(0.0))
read_q_plus_one = Read(jnp.array(2), jnp.array(1.0))


def iicq_loss(learner: Any, network: Reads, target: Reads, steps: Window) -> Any:
    """The loss on what these read, which have no recurrent state."""
    reads = (network.actor, network.critic, target.critic)
    outputs = jnp.stack([read(steps.observation) for read in reads])
    return learner.outputs_loss(network, target, outputs, steps)


def one_agent(rows: list[list[list[float]]]) -> np.ndarray:
    """[B, T, 2, 4] with these numbers for agent 0 and zeros for agent 1."""
    features = np.zeros((len(rows), len(rows[0]), 2, 4), np.float32)
    features[:, :, 0] = rows
    return features


def only_first(steps: int, batch: int) -> np.ndarray:
    agent_mask = np.ones((batch, steps, 2), bool)
    agent_mask[:, :, 1] = False
    return agent_mask


def test_iicq_by_hand() -> None:
    """One agent, two steps, two examples; γ = ½, both temperatures 1, π = (½, ½) everywhere.

    Q(0), Q(1) = (1, 1), (3, 1) in example 0 and (1, 1), (3 + log 9, 1 + log 9) in example 1; the
    target's are one higher. Next values 4 and 4 + log 9: w in proportion 1 : 9, so 0.2 and 1.8.
    y = ½ · 0.2 · 4 = 0.4 and ½ · 1.8 · (4 + log 9); Q = 1.
    Advantages of action 0: 0 at step 0, and at step 1 it is 3 - 2 = 1 in both: all weights 1, so
    the policy loss is log 2.
    """
    features = one_agent(
        [
            [[0, 0, 1, 1], [0, 0, 3, 1]],
            [[0, 0, 1, 1], [0, 0, 3 + LOG(9), 1 + LOG(9)]],
        ]
    )
    steps = window(features, agent_mask=only_first(2, 2))
    config = iicq.Config(
        discount=0.5, policy_temperature=1.0, value_temperature=1.0, standardise=False
    )
    learner = iicq.make(config, SPEC)
    network = Reads(read_logits, read_q)
    target = Reads(read_logits, read_q_plus_one)
    total, metrics = iicq_loss(learner, network, target, steps)
    errors = [0.4 - 1, 0.9 * (4 + LOG(9)) - 1]
    critic = np.mean([0.5 * error**2 for error in errors])
    assert float(metrics["critic_loss"]) == pytest.approx(critic, rel=1e-5)
    assert float(metrics["policy_loss"]) == pytest.approx(LOG(2), rel=1e-5)
    assert float(total) == pytest.approx(critic + LOG(2), rel=1e-5)


def test_iicq_weighs_by_its_own_advantage() -> None:
    """Both agents; advantages of agent 0 differ by log 3 over the batch: weights ½ and 3/2. Agent 1
    has none, so its weights are 1, whatever agent 0 did (Oryx would add agent 0's)."""
    features = np.zeros((2, 2, 2, 4), np.float32)
    features[1, 0, 0, 2] = 2 * LOG(3)  # Q(0) - mean = log 3
    features[1, 0, 0, :2] = [LOG(0.5), LOG(0.5)]
    features[0, 0, 0, :2] = [0, 0]
    features[:, 0, 1, 0] = [LOG(3), 0]  # π(0) of agent 1: ¾ and ½
    learner = iicq.make(iicq.Config(policy_temperature=1.0, standardise=False), SPEC)
    network = Reads(read_logits, read_q)
    target = network
    _, metrics = iicq_loss(learner, network, target, window(features))
    # eight rows: agent 0 at step 0 (½ and 3/2 times log 2), agent 1 at step 0 (-log ¾, log 2), and
    # four at step 1 with log 2 each
    expected = (0.5 + 1.5) * LOG(2) - LOG(0.75) + LOG(2) + 4 * LOG(2)
    assert float(metrics["policy_loss"]) == pytest.approx(expected / 8, rel=1e-5)


def constant(outputs: list[float]) -> Any:
    """A layer that always gives these numbers."""
    return lambda x: jnp.broadcast_to(jnp.array(outputs), (*x.shape[:-1], len(outputs)))


def make_mixer() -> QMixer:
    """Two agents, width 1: |W1| = (2, 1), b1 = -1, |w2| = 3, v = 5, whatever the state is."""
    mixer = object.__new__(QMixer)
    layers = {
        "first": (constant([1.0]), constant([-2.0, 1.0])),
        "first_bias": constant([-1.0]),
        "second": (constant([1.0]), constant([-3.0])),
        "last": (constant([1.0]), constant([5.0])),
        "num_agents": 2,
        "width": 1,
    }
    for name, value in layers.items():
        object.__setattr__(mixer, name, value)
    return mixer


def test_mixer_by_hand() -> None:
    """Q = (1, 2): 2·1 + 1·2 - 1 = 3, times 3, plus 5: 14. Q = (0, 0): elu(-1)·3 + 5."""
    mixer = make_mixer()
    values, state = jnp.array([[1.0, 2.0], [0.0, 0.0]]), jnp.zeros((2, 1))
    expected = [14.0, 3 * (np.exp(-1) - 1) + 5]
    np.testing.assert_allclose(mixer(values, state), expected, rtol=1e-6)
    np.testing.assert_allclose(mixer.shares(state), [[2 / 3, 1 / 3]] * 2, rtol=1e-6)


def test_mixer_increases_with_every_agent() -> None:
    mixer = QMixer(jax.random.key(0), 3, 4, 8, 16)
    values = jax.random.normal(jax.random.key(1), (50, 3))
    state = jax.random.normal(jax.random.key(2), (50, 4))
    slopes = jax.grad(lambda v: mixer(v, state).sum())(values)
    assert (slopes >= 0).all()
    assert (slopes > 0).any()
    np.testing.assert_allclose(mixer.shares(state).sum(axis=-1), 1, rtol=1e-5)


def test_maicq_team_loss_by_hand() -> None:
    """Two examples, two steps; γ = ½, α = 1. Q_tot at step 0: 1 and 2. Q⁻_tot at step 1: 3 and
    3 + log 3, so w is ½ and 3/2. Rewards (1, 3) mean 2, and (0, 0)."""
    rewards = np.zeros((2, 2, 2), np.float32)
    rewards[0, 0] = [1, 3]
    values = maicq.TeamValues(
        jnp.array([[1.0, 9.0], [2.0, 9.0]]), jnp.array([[9.0, 3.0], [9.0, 3 + LOG(3)]])
    )
    config = maicq.Config(discount=0.5, value_temperature=1.0)
    steps = window(np.zeros((2, 2, 2, 4)), rewards=rewards)
    loss, targets, rows = maicq.team_loss(values, steps, config)
    expected = [2 + 0.5 * 0.5 * 3, 0.5 * 1.5 * (3 + LOG(3))]
    np.testing.assert_allclose(targets[:, 0], expected, rtol=1e-5)
    assert rows.all()
    errors = np.array(expected) - [1, 2]
    assert float(loss) == pytest.approx(np.mean(0.5 * errors**2), rel=1e-5)


def test_maicq_team_ends_when_all_agents_have() -> None:
    """One agent terminal: the team goes on. Both: it has ended. An absent agent does not count."""
    terminal = np.zeros((3, 2, 2), bool)
    terminal[0, 0] = [True, False]
    terminal[1, 0] = [True, True]
    terminal[2, 0] = [True, False]
    agent_mask = np.ones((3, 2, 2), bool)
    agent_mask[2, :, 1] = False
    rewards = np.zeros((3, 2, 2), np.float32)
    rewards[:, 0] = [4, 100]
    values = maicq.TeamValues(jnp.zeros((3, 2)), jnp.full((3, 2), 10.0))
    steps = window(
        np.zeros((3, 2, 2, 4)), terminal=terminal, agent_mask=agent_mask, rewards=rewards
    )
    _, targets, _ = maicq.team_loss(values, steps, maicq.Config(discount=0.5))
    np.testing.assert_allclose(targets[:, 0], [52 + 5, 52, 4], rtol=1e-5)


def test_maicq_policy_loss_by_hand_and_without_gradient_to_the_mixer() -> None:
    """One step, equal advantages: weights 1. Shares ¾ and ¼; π = ½ and ¼ of the logged actions."""
    features = np.zeros((1, 1, 2, 4), np.float32)
    features[0, 0, 1, :2] = [0, LOG(3)]
    steps = window(features)
    logits, q = read_logits(steps.observation), read_q(steps.observation)

    def of(shares: jax.Array) -> jax.Array:
        policy = categorical(logits, steps.observation.action_mask)
        nothing = jnp.zeros((1, 1))
        unused = (nothing, nothing), nothing > 0  # where a temperature is given
        return maicq.policy_loss(
            policy, DiscreteValues(q), shares, steps, maicq.Config(policy_temperature=1.0), *unused
        )[0]

    shares = jnp.array([[[0.75, 0.25]]])
    expected = (0.75 * LOG(2) + 0.25 * LOG(4)) / 2
    assert float(of(shares)) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_array_equal(jax.grad(of)(shares), 0)


def test_maicq_may_normalise_the_state() -> None:
    """Then neither the unit nor the origin of a raw state matters."""
    spec = replace(SPEC, state_size=3)
    key = jax.random.key(0)
    state = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)
    features = np.zeros((4, 3, 2, 4), np.float32)

    def losses(normalise: bool) -> list[float]:
        learner = maicq.make(maicq.Config(normalise_state=normalise, standardise=False), spec)
        network, loss = jax.jit(learner.make_network)(key), eqx.filter_jit(learner.loss)
        windows = [window(features, state=each) for each in (state, 50 * state - 20)]
        return [float(loss(network, network, steps, key)[0]) for steps in windows]

    plain, raw = losses(normalise=True)
    assert raw == pytest.approx(plain, rel=1e-3)
    plain, raw = losses(normalise=False)
    assert raw > 10 * plain


def test_iql_cql_by_hand() -> None:
    """One agent, three steps: goes on, terminal | another episode.

    Q = (1, 2), (4, 0), (7, 7); the target's are one higher. γ = ½.
    Step 0: the best at step 1 is action 0, Q⁻ = 5: y = 0 + 2.5, Q = 1. Step 1: y = 3, Q = 4.
    Penalty: logsumexp of each row minus Q(0), over all three steps.
    """
    features = one_agent([[[0, 0, 1, 2], [0, 0, 4, 0], [0, 0, 7, 7]]])
    terminal = np.zeros((1, 3, 2), bool)
    terminal[0, 1] = True
    rewards = np.zeros((1, 3, 2), np.float32)
    rewards[0, 1] = 3
    steps = window(
        features,
        terminal=terminal,
        rewards=rewards,
        reset=np.array([[True, False, True]]),
        agent_mask=only_first(3, 1),
    )
    q, target = read_q(steps.observation), read_q_plus_one(steps.observation)
    config = iql_cql.Config(discount=0.5, cql_weight=2.0)
    total, metrics = iql_cql.loss(q, target, steps, config)
    td = np.mean([0.5 * 1.5**2, 0.5 * 1.0**2])
    penalty = np.mean([LOG(1 + np.e), LOG(1 + np.exp(-4)), LOG(2)])
    assert float(metrics["critic_loss"]) == pytest.approx(td, rel=1e-5)
    assert float(metrics["cql_loss"]) == pytest.approx(penalty, rel=1e-5)
    assert float(total) == pytest.approx(td + 2 * penalty, rel=1e-5)


def test_iql_cql_and_illegal_actions() -> None:
    """Action 1 is illegal, and looks best: it is neither the next action nor pressed down."""
    features = one_agent([[[0, 0, 1, 9], [0, 0, 2, 50]]])
    action_mask = np.ones((1, 2, 2, 2), bool)
    action_mask[:, :, :, 1] = False
    steps = window(features, action_mask=action_mask, agent_mask=only_first(2, 1))
    q = read_q(steps.observation)
    _, metrics = iql_cql.loss(q, q, steps, iql_cql.Config(discount=1.0))
    assert float(metrics["critic_loss"]) == pytest.approx(0.5)  # y = 2, Q = 1
    assert float(metrics["cql_loss"]) == pytest.approx(0.0, abs=1e-6)
    _, metrics = iql_cql.loss(q, q, steps, iql_cql.Config(discount=1.0, cql_over="all"))
    expected = np.mean([np.logaddexp(1, 9) - 1, np.logaddexp(2, 50) - 2])
    assert float(metrics["cql_loss"]) == pytest.approx(expected, rel=1e-5)


def test_bc_by_hand() -> None:
    """π of the logged actions ½ and ¾; a third row, whose action is illegal, is left out."""
    features = np.zeros((1, 3, 2, 4), np.float32)
    features[0, 1, 0, :2] = [LOG(3), 0]
    action_mask = np.ones((1, 3, 2, 2), bool)
    action_mask[0, 2, 0, 0] = False
    steps = window(features, action_mask=action_mask, agent_mask=only_first(3, 1))
    policy = categorical(read_logits(steps.observation), steps.observation.action_mask)
    total, metrics = bc.bc_loss(policy, steps)
    assert float(total) == pytest.approx((LOG(2) - LOG(0.75)) / 2, rel=1e-5)
    assert float(metrics["valid_label_share"]) == pytest.approx(2 / 6)
