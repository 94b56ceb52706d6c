"""A trained policy called from plain Python, with no environment anywhere."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oryx_marl
from oryx_marl import experiment
from oryx_marl.algorithms import bc
from oryx_marl.data.dataset import Dataset
from oryx_marl.envs.adapters.to_pettingzoo import PettingZoo
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.player import Player
from oryx_marl.training.loop import TrainSettings
from oryx_marl.types import ActionSpace, Spec

SPEC = Spec("", ("truck", "crane"), (4, 3), ActionSpace("discrete", 3))
NOTHING = np.zeros((2, 4))
"""What shows no action, so that the policy draws one."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that has learned to do what the first three features show."""
    rng = np.random.default_rng(0)
    rows = 200
    actions = rng.integers(0, 3, (rows, 2)).astype(np.int32)
    features = np.zeros((rows, 2, 4), np.float32)
    features[..., :3] = np.eye(3)[actions]
    ends = np.zeros((rows, 2), bool)
    ends[9::10] = True
    starts = np.arange(0, rows, 10)
    logs = Dataset(
        SPEC, features, actions, np.zeros((rows, 2), np.float32), ends, ~ends & ends, starts
    )
    folder = tmp_path_factory.mktemp("player") / "run"
    settings = TrainSettings(
        updates=120, seeds=2, log_every=60, evaluate_every=120, checkpoint_every=120
    )
    config = bc.Config(sequence_length=5, batch_size=16, learning_rate=5e-3)
    experiment.run(experiment.Experiment("bc", config, logs, folder, settings))
    return folder


def test_acts_on_new_observations(run: Path) -> None:
    player = oryx_marl.load(run, act="greedy")
    assert player.act([[0, 1, 0, 0], [0, 0, 1]]).tolist() == [1, 2]
    assert player.act({"truck": [1, 0, 0, 0], "crane": [0, 1, 0]}) == {"truck": 0, "crane": 1}
    other = oryx_marl.load(run, act="greedy", seed=1)
    assert other.act([[0, 1, 0, 0], [0, 0, 1]]).tolist() == [1, 2]


def test_absent_agents_and_illegal_actions(run: Path) -> None:
    player = oryx_marl.load(run)
    assert set(player.act({"crane": [0, 1, 0]})) == {"crane"}
    for _ in range(20):
        chosen = player.act([[1, 0, 0, 0], [0, 1, 0]], action_mask=[[0, 1, 1], [1, 0, 1]])
        assert chosen[0] != 0
        assert chosen[1] != 1


def play(player: Player, episodes: int) -> list[list[list[int]]]:
    """Actions in the same episode, played several times."""
    found = []
    for _ in range(episodes):
        player.reset()
        found.append([player.act(NOTHING).tolist() for _ in range(5)])
    return found


def test_every_episode_draws_other_random_numbers(run: Path) -> None:
    """In version 0.1.0 twenty episodes were one and the same."""
    episodes = play(oryx_marl.load(run, random_seed=3), 20)
    assert len({str(each) for each in episodes}) > 10


def test_a_random_seed_gives_the_same_sequence_of_episodes(run: Path) -> None:
    first = play(oryx_marl.load(run, random_seed=3), 4)
    assert play(oryx_marl.load(run, random_seed=3), 4) == first
    assert play(oryx_marl.load(run, random_seed=4), 4) != first
    late = oryx_marl.load(run, random_seed=3)  # whether one resets before or after an episode
    for expected in first:
        assert [late.act(NOTHING).tolist() for _ in range(5)] == expected
        late.reset()


def test_reset_forgets_what_was_seen(run: Path) -> None:
    """A greedy policy does the same in every episode, whatever came before."""
    player = oryx_marl.load(run, act="greedy")
    first, again = play(player, 2)
    assert first == again


def test_observations_of_pettingzoo(run: Path) -> None:
    """By name and by position; the mask beside an observation counts unless one is given."""
    player = oryx_marl.load(run)
    truck = {"observation": np.eye(4)[0], "action_mask": np.array([0, 1, 1], np.int8)}
    crane = {"observation": np.eye(3)[1], "action_mask": np.array([1, 0, 1], np.int8)}
    only = {"truck": [1, 0, 0], "crane": [0, 0, 1]}
    for _ in range(20):
        by_name = player.act({"truck": truck, "crane": crane})
        assert set(by_name) == {"truck", "crane"}
        by_place = player.act([truck, {"observation": np.eye(3)[1]}])
        for chosen in (by_name["truck"], by_place[0]):
            assert chosen != 0
        assert by_name["crane"] != 1
        given = player.act({"truck": truck, "crane": crane}, action_mask=only)
        assert given == {"truck": 0, "crane": 2}
    assert set(player.act({"crane": crane})) == {"crane"}
    with pytest.raises(OryxError, match='must stand under "observation"'):
        player.act({"truck": {"features": [0, 0, 0, 0]}})


def test_our_own_pettingzoo_environment_is_played(tmp_path: Path) -> None:
    env = PettingZoo(TMaze())
    algorithm = bc.make(bc.Config(network=RecurrentConfig(8, 8)), env.env.spec)
    weights = algorithm.weights(jax.vmap(algorithm.init)(jax.random.key(0)[None]))
    player = Player(PolicyArtifact("bc", algorithm, env.env.spec, weights, (0,), {}))
    for seed in range(3):
        seen, _ = env.reset(seed=seed)
        player.reset()
        while env.agents:
            seen, *_ = env.step(player.act(seen))


def test_actions_of_a_box_are_floats() -> None:
    box = ActionSpace("box", 2, (-1.0, 0.0), (1.0, 4.0))
    spec = Spec("", ("truck", "crane"), (2, 3), box)
    algorithm = bc.make(bc.Config(network=RecurrentConfig(8, 8), standardise=False), spec)
    keys = jax.vmap(jax.random.key)(jnp.arange(2))
    weights = jax.device_get(jax.vmap(algorithm.make_network)(keys))
    policy = PolicyArtifact("bc", algorithm, spec, weights, (4, 5), {})
    seen = [[1, -1], [0.5, 0, 9]]
    by_place = Player(policy, seed=5).act(seen)
    assert (by_place.dtype, by_place.shape) == (np.float32, (2, 2))
    assert (np.array(box.low) <= by_place).all()
    assert (by_place <= np.array(box.high)).all()
    player = Player(policy, seed=5)
    by_name = player.act({"truck": seen[0], "crane": {"observation": seen[1]}})
    np.testing.assert_array_equal([by_name["truck"], by_name["crane"]], by_place)
    assert not np.array_equal(Player(policy, seed=4).act(seen), by_place)
    with pytest.raises(OryxError, match="actions of a box have no mask"):
        player.act(seen, action_mask=[[1, 1], [1, 1]])
    mode = Player(policy, seed=5, act="greedy", random_seed=7).act(seen)
    np.testing.assert_array_equal(mode, by_place, err_msg="boxes act by mode by default")
    assert not np.array_equal(Player(policy, seed=5, act="sampled").act(seen), mode)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observations": [[0, 0, 0, 0]]}, "one entry for each of 2 agents, got 1"),
        ({"observations": {"ship": [0]}}, "no agent \\['ship'\\], only \\['truck', 'crane'\\]"),
        ({"observations": [[0, 0], [0, 0, 0]]}, "observation of truck must have 4 numbers"),
        ({"observations": [[0, 0, 0, np.nan], [0, 0, 0]]}, "truck has numbers that are not finite"),
        (
            {"observations": [[0] * 4, [0] * 3], "action_mask": [[1, 1], [1, 1]]},
            "action_mask of truck must have 3",
        ),
        (
            {"observations": [[0] * 4, [0] * 3], "action_mask": [[0] * 3, [1] * 3]},
            "allows no action",
        ),
    ],
)
def test_bad_input_is_named(run: Path, arguments: dict, message: str) -> None:
    with pytest.raises(OryxError, match=message):
        oryx_marl.load(run).act(**arguments)


def test_unknown_seed_and_run(run: Path, tmp_path: Path) -> None:
    with pytest.raises(OryxError, match=r"no seed 7; it has \[0, 1\]"):
        oryx_marl.load(run, seed=7)
    with pytest.raises(OryxError, match="there is no run"):
        oryx_marl.load(tmp_path / "nowhere")


@pytest.mark.usefixtures("unchecked")
def test_unknown_checkpoint(run: Path) -> None:
    with pytest.raises(OryxError, match="which must be 'last' or 'best', got 'worst'"):
        oryx_marl.load(run, which="worst")


def test_best_weights_need_evaluations(run: Path) -> None:
    """In version 0.1.0 this gave the weights before the first update, without a word."""
    with pytest.raises(OryxError, match=r'has no best weights.*use the last ones: which="last"'):
        oryx_marl.load(run, which="best")


def test_policy_files_are_played_as_runs_are(run: Path) -> None:
    file = oryx_marl.load(run / "policy" / "last.npz", random_seed=1)
    assert play(file, 3) == play(oryx_marl.load(run, random_seed=1), 3)
    with pytest.raises(OryxError, match="one set of weights; leave out which='best'"):
        oryx_marl.load(run / "policy" / "last.npz", which="best")
