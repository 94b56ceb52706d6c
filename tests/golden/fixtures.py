"""Makes the files that later versions must open: a vault, runs and a policy of version 0.1.0."""

import sys
from dataclasses import replace
from pathlib import Path

import goldens
import jax
import numpy as np

from oryx_marl import experiment
from oryx_marl.algorithms import oryx, sable
from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.experiment import EvaluationSettings, Experiment
from oryx_marl.train import policy_file
from oryx_marl.train.loop import TrainSettings
from oryx_marl.types import ActionSpace, Spec

folder = Path(sys.argv[1])
logged = replace(whole_episodes(goldens.dataset(), 300, 0), name="tmaze/fixture")
vault.write(logged, folder / "tmaze.vlt" / "fixture")

rng, rows = np.random.default_rng(0), 40
box = Dataset(
    spec=Spec("", ("left", "right"), (3, 2), ActionSpace("box", 2, (-1.0, -2.0), (1.0, 2.0))),
    observations=rng.normal(size=(rows, 2, 3)).astype(np.float32) * [[1, 1, 1], [1, 1, 0]],
    actions=rng.uniform(-1, 1, (rows, 2, 2)).astype(np.float32),
    rewards=rng.normal(size=(rows, 1)).repeat(2, axis=1).astype(np.float32),
    terminals=np.zeros((rows, 2), bool),
    truncations=(np.arange(rows) % 10 == 9)[:, None].repeat(2, axis=1),
    episode_starts=np.arange(0, rows, 10),
    name="arm/fixture",
)
vault.write(box, folder / "arm.vlt" / "fixture")

train = TrainSettings(updates=4, seeds=2, log_every=2, evaluate_every=4, checkpoint_every=4)
scoring = EvaluationSettings(episodes=8, episodes_while_training=4, replays=0)
config = goldens.shrink(oryx.Config())
experiment.run(Experiment("oryx", config, logged, folder / "run", train, scoring))
unknown = replace(logged, spec=replace(logged.spec, environment=""), name="depot/fixture")
experiment.run(Experiment("oryx", config, unknown, folder / "run-logs-only", train, scoring))
online = goldens.shrink(sable.Config())
experiment.run(Experiment("sable", online, goldens.ENV, folder / "run-online", train, scoring))
loaded = experiment.load(folder / "run")
weights = jax.tree.map(lambda x: x[0], loaded.algorithm.weights(loaded.state.learners))
policy_file.save(folder / "policy.npz", "oryx", loaded.algorithm, weights, {"seed": 0})
