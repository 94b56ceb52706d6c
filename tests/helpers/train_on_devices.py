"""Small training runs, for tests that start processes with several devices.

    python train_on_devices.py OUT SEEDS... [--whole] [--processes NUMBER ID ADDRESS]

Each trains half of the updates, then resumes to the end.
"""

import argparse
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from jax.nn.initializers import normal
from jaxtyping import Array

from oryx_marl import experiment
from oryx_marl.algorithms import oryx
from oryx_marl.algorithms._autoregressive import Trunk
from oryx_marl.data import catalog
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.sampler import put_on_device
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.networks.layers import Dense
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.parallel import devices
from oryx_marl.runs.folder import Run
from oryx_marl.training import loop
from oryx_marl.training.offline import DatasetSource

CONFIG = oryx.Config(
    network=NetworkConfig(width=8), batch_size=8, sequence_length=4, policy_temperature=0.01
)
NOTHING_CARRIED = replace(CONFIG, initial_state="zeros", standardise=False)


@Trunk.register
class Layer(eqx.Module):
    """The least that can stand in for Sable."""

    dense: Dense

    def __call__(self, observation: Any, actions: Array, ids: Array) -> tuple[Array, Array]:
        features = jax.nn.tanh(self.dense(observation.features.astype(float)))
        return features, features


@dataclass(frozen=True)
class Small(oryx.Oryx):
    """Oryx on a network that compiles in seconds."""

    def make_trunk(self, key: Array) -> Any:
        return Layer(Dense(key, self.spec.observation_size, CONFIG.network.width, normal(0.1)))


def load_data() -> Dataset:
    return whole_episodes(catalog.open("tmaze/planner-mixed"), 400, 0)


def make_settings(updates: int, seeds: int) -> loop.TrainSettings:
    return loop.TrainSettings(
        updates=updates, seeds=seeds, log_every=2, evaluate_every=2, checkpoint_every=2
    )


def train(out: Path, seeds: int) -> None:
    """Oryx's loss on one layer, by the library's loop."""
    dataset = load_data()
    learner = Small(NOTHING_CARRIED, dataset.spec)
    with devices.spread(learner, seeds), devices.own_folder(out) as folder:
        folder.mkdir(parents=True, exist_ok=True)
        source = DatasetSource(put_on_device(dataset, device=devices.everywhere()))
        for updates in (2, 4):
            settings = make_settings(updates, seeds)
            loop.train(learner, source, settings, Run(folder), resume=True)


def train_whole(out: Path, seeds: int) -> None:
    """Oryx itself, scored in T-Maze."""
    scores = experiment.EvaluationSettings(8, 8, replays=1)
    work = experiment.Experiment("oryx", CONFIG, load_data(), out, evaluation=scores)
    for updates in (2, 4):
        experiment.run(replace(work, train=make_settings(updates, seeds)), resume=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--processes", nargs=3)
    given = parser.parse_args()
    warnings.simplefilter("error")
    jax.config.update("jax_default_matmul_precision", "highest")
    if given.processes:
        number, own, address = given.processes
        jax.distributed.initialize(address, int(number), int(own))
    for seeds in given.seeds:
        (train_whole if given.whole else train)(given.out / str(seeds), seeds)
