"""Seeded trainings of every algorithm, small enough for a test: what they must give for ever."""

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oryx_marl import registry, renamed
from oryx_marl.algorithms import sable
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.data import catalog
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import put_on_device, sample_windows
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.envs import base
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.policy import artifact
from oryx_marl.recipes import _assets
from oryx_marl.rollout.record import record_episodes
from oryx_marl.training import loop
from oryx_marl.training.offline import DatasetSource
from oryx_marl.training.online import EnvSource
from oryx_marl.trees import flatten

FOLDER = Path(__file__).parent / "recorded"
ENV = TMaze()
SEEDS = [0, 1]
UPDATES = (2, 4)
"""Numbers of updates after which everything is recorded."""
EPISODES = 4
SMALL = {
    "width": 16,
    "num_heads": 2,
    "linear_width": 8,
    "recurrent_width": 8,
    "mixer_width": 8,
    "hyper_width": 8,
    "batch_size": 8,
    "num_envs": 8,
    "sequence_length": 8,
    "rollout_length": 24,
    "minibatches": 2,
    "target_period": 2,
    "num_blocks": 1,
}
"""Sizes."""
BEFORE = {
    "initial_state": "zeros",
    "standardise": False,
    "scale_values": False,
    "policy_temperature": 0.1,
    "permute_agents": True,
    "advantage": "cumulative",
    "decay_scale": 0.9,
    "shortest_memory": 32,
}
"""Defaults of offline learners when most of this was recorded."""
TODAY = "-today"
"""End of the names of recordings with the defaults of today."""
OFFLINE = [name for name in registry.names("algorithms") if name != "sable"]
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in registry.names("algorithms")},
    **{f"{name}{TODAY}": (name, {}) for name in OFFLINE},
    "oryx-own": ("oryx", {"advantage": "own", "td_lambda": 0.0, "act_with_ema": False}),
    "oryx-clone": ("oryx", {"objective": "bc"}),
    "oryx-q": ("oryx", {"objective": "q_learning", "memory": False}),
    "sable-permuted": ("sable", {"permute_agents": True, "epochs": 2}),
}
"""Names of the recordings: an algorithm, and settings that differ from its defaults."""


POLICIES = {
    "tmaze": "tmaze/middle.npz",
    "con-5x5x3a": "con-5x5x3a/123.npz",
    "smacv2_5_units": "smacv2_5_units/489.npz",
}
"""Policies of the package whose episodes are recorded, by scenario."""


def change(config: Any, values: dict[str, Any]) -> Any:
    """The config with the given values, wherever it has them."""
    changes = {}
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        if dataclasses.is_dataclass(value):
            changes[entry.name] = change(value, values)
        elif entry.name in values:
            changes[entry.name] = values[entry.name]
    return dataclasses.replace(config, **changes)


@cache
def dataset() -> Dataset:
    return whole_episodes(catalog.open("tmaze/planner-mixed"), 600, 0)


def train(name: str) -> dict[str, np.ndarray]:
    """Learner states, metrics, scores and log-probabilities of one variant, by name."""
    kind, changes = VARIANTS[name]
    module = registry.load("algorithms", kind)
    is_online = module is sable
    values = SMALL if is_online or name.endswith(TODAY) else SMALL | BEFORE
    config = dataclasses.replace(change(module.Config(), values), **changes)
    algorithm = make_algorithm(kind, config, ENV.spec)
    logged = put_on_device(dataset(), True, None, algorithm.value_discount)
    source: Any = EnvSource(ENV) if is_online else DatasetSource(logged)
    state = loop.init_state(algorithm, SEEDS, source)
    keys, done = loop.make_keys(SEEDS), 0
    found: dict[str, np.ndarray] = {}
    for update in UPDATES:
        learners, source_state, metrics = source.advance(
            algorithm, update - done, state.learners, state.source_state, keys, done
        )
        state, done = state._replace(learners=learners, source_state=source_state), update
        found |= {f"{update}/metrics/{key}": value for key, value in metrics.items()}
        found |= {f"{update}/{key}": value for key, value in flatten(network(learners)).items()}
    weights = algorithm.weights(state.learners)
    evaluator = Evaluator(algorithm, ENV, SEEDS)
    found["returns"] = evaluator.evaluate(weights, 0, 32)["return"]
    found["actions"] = evaluator.record_trajectories(weights, 0, EPISODES).actions
    window = sample_windows(logged, jax.random.key(3), 4, 8)

    def log_probs(weights: Any) -> jax.Array:
        return algorithm.distribution(weights, window)[0].log_probs

    found["log_probs"] = jax.jit(jax.vmap(log_probs))(weights)
    return {key: np.asarray(value) for key, value in found.items()}


def network(learners: Any) -> Any:
    """Online weights, also of a learner inside another."""
    return learners.inner.network if hasattr(learners, "inner") else learners.network


def compute(name: str) -> dict[str, np.ndarray]:
    """What is recorded under a name."""
    return train(name) if name in VARIANTS else play(name, POLICIES[name])


def read(name: str) -> dict[str, np.ndarray]:
    """What was recorded."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as arrays:
        return {_name_of_today(key): array for key, array in arrays.items()}


def _name_of_today(key: str) -> str:
    """Metrics were renamed after these numbers were recorded."""
    *parents, last = key.split("/")
    return "/".join([*parents, renamed.METRICS.get(last, last)])


def compare(name: str) -> dict[str, float]:
    """The largest difference of every array that is not bit-equal."""
    expected, found = read(name), compute(name)
    assert expected.keys() == found.keys()
    differing = {}
    for key, value in expected.items():
        assert value.shape == found[key].shape, key
        if not np.array_equal(value, found[key]):
            differing[key] = float(np.abs(value - found[key]).max())
    return differing


def play(scenario: str, path: str) -> dict[str, np.ndarray]:
    """What a policy of the package does, and how it scores."""
    kept = artifact.load(*_assets.locate([path]))
    env = base.make_named(scenario)
    weights = jax.tree.map(jnp.asarray, kept.weights_of())
    arrays, _ = record_episodes(kept.algorithm, env, weights, 300, jax.random.key(0))
    stacked = jax.tree.map(lambda x: x[None], weights)
    evaluator = Evaluator(kept.algorithm, env, SEEDS[:1])
    return {
        "returns": evaluator.evaluate(stacked, 0, 32)["return"],
        "greedy": evaluator.evaluate(stacked, 0, 32, temperature=0.0)["return"],
        **{name: arrays[name] for name in ("actions", "rewards", "terminals", "episode_starts")},
    }
