"""T-Maze on the planner's data, where either agent takes either colour: who learns to agree?"""

from dataclasses import replace
from functools import partial

import numpy as np

from oryx_marl.bench.suite import Derived, Suite
from oryx_marl.bench.suites import tmaze
from oryx_marl.data.dataset import Dataset

DATASETS = ("tmaze/planner-mixed", "tmaze/planner-expert")
ILLEGAL = "tmaze/planner-expert-3-percent-illegal"
"""As from a log with wrong labels: does dropping them keep them from doing harm?"""
VARIANTS = tmaze.VARIANTS | {
    "Oryx, plain cloning": tmaze.ablate(objective="bc"),
    "Oryx, no recurrent state": tmaze.ablate(memory=False),
    "Oryx, own advantage": tmaze.ablate(advantage="own"),
}


def plant_illegal(dataset: Dataset, share: float, seed: int = 0) -> Dataset:
    """The dataset with a share of its logged actions replaced by illegal ones."""
    assert dataset.action_mask is not None
    rng = np.random.default_rng(seed)
    scores = np.where(dataset.action_mask, -1.0, rng.random(dataset.action_mask.shape))
    chosen = (rng.random(dataset.actions.shape) < share) & ~dataset.action_mask.all(axis=-1)
    actions = np.where(chosen, scores.argmax(axis=-1), dataset.actions)
    name = f"{dataset.name}-{share:.0%}-illegal"
    return replace(dataset, actions=actions.astype(dataset.actions.dtype), name=name)


SUITE = Suite(
    "tmaze_planner",
    (*DATASETS, ILLEGAL),
    VARIANTS,
    updates=20_000,
    log_every=500,
    order=(
        *((variant, dataset) for variant in VARIANTS for dataset in DATASETS),
        ("Oryx", ILLEGAL),
    ),
    tune_on=DATASETS[0],
    derived={ILLEGAL: Derived(DATASETS[1], partial(plant_illegal, share=0.03), drop_invalid=True)},
)
QUICK = Suite(
    "tmaze_planner-quick",
    DATASETS[1:],
    tmaze.QUICK.variants,
    updates=tmaze.QUICK.updates,
    seeds=tmaze.QUICK.seeds,
    episodes=tmaze.QUICK.episodes,
    log_every=tmaze.QUICK.log_every,
    tune_on=DATASETS[1],
)
