"""The command a page shows."""

import json
import shlex
from pathlib import Path
from typing import Any

from oryx_marl import config as configs
from oryx_marl.algorithms import bc, oryx
from oryx_marl.cli import main as cli
from oryx_marl.data import catalog
from oryx_marl.experiment import EvaluationSettings, Experiment, Named
from oryx_marl.experiment import describe as describe_run
from oryx_marl.report import again
from oryx_marl.training.loop import TrainSettings


def describe(config: oryx.Config, settings: TrainSettings, **more: Any) -> dict[str, Any]:
    """What a run's config.json holds."""
    return {
        "algorithm": "oryx",
        "dataset": "tmaze/expert",
        **configs.to_dict(settings),
        "seeds": settings.seed_numbers,
        "config": configs.to_dict(config),
        **more,
    }


def test_defaults_are_left_out() -> None:
    command = again.command(describe(oryx.Config(), TrainSettings(updates=7, seeds=2)))
    assert command == "oryx train oryx tmaze/expert --updates 7 --seeds 2"


def test_what_is_not_the_default_is_a_flag() -> None:
    config = oryx.Config(learning_rate=1e-3, memory=False)
    settings = TrainSettings(updates=70, seeds=1, first_seed=5, log_every=10)
    command = again.command(describe(config, settings, drop_invalid=True))
    assert command == (
        "oryx train oryx tmaze/expert --updates 70 --seeds 1 --first-seed 5 --log-every 10 "
        "--drop-invalid --learning-rate 0.001 --no-memory"
    )


def test_ways_of_acting_are_words_of_one_flag() -> None:
    """As config.json has them: lists."""
    values = describe(oryx.Config(), TrainSettings(updates=7, seeds=2))
    usual = json.loads(json.dumps(configs.to_dict(EvaluationSettings())))
    assert "--act" not in again.command({**values, "evaluation": usual})
    other = {**usual, "act": ["sampled", 0.25]}
    assert again.command({**values, "evaluation": other}).endswith("--act sampled 0.25")
    assert configs.from_dict(EvaluationSettings, usual) == EvaluationSettings()
    assert configs.from_dict(EvaluationSettings, other).act == ("sampled", 0.25)


def test_names_are_quoted() -> None:
    values = describe(oryx.Config(), TrainSettings(updates=7, seeds=2))
    assert "'my logs; rm -r x'" in again.command({**values, "dataset": "my logs; rm -r x"})


def test_unknown_algorithm_gets_all_its_settings() -> None:
    values = {"algorithm": "other", "dataset": "d", "seeds": [0], "updates": 1}
    command = again.command({**values, "config": {"network": {"width": 8}, "sizes": [1, 2]}})
    assert command == "oryx train other d --updates 1 --seeds 1 --width 8 --sizes 1 2"


def test_nothing_that_was_said_is_dropped() -> None:
    """Of an experiment as it is described in config.json, and as the command line reads it."""
    work = Experiment(
        "bc",
        bc.Config(),
        catalog.open("tmaze/planner-expert"),
        Path("runs/x"),
        TrainSettings(updates=7, seeds=2),
        EvaluationSettings(episodes=5, hold_out=0.25, replays=0),
        named=Named("logs/mine.vlt/one", "my_env:make"),
    )
    config = describe_run(work, bc.make(bc.Config(), work.learn_from.spec)).to_json()
    command = again.command({**config, "named": {**config["named"], "plugins": ["my env.py"]}})
    assert command == (
        "oryx train bc logs/mine.vlt/one --updates 7 --seeds 2 --episodes 5 --replays 0 "
        "--hold-out 0.25 --env my_env:make --plugin 'my env.py'"
    )
    read = cli.read(shlex.split(command)[1:-2])
    assert (read.evaluation, read.train) == (work.evaluation, work.train)
    assert (read.dataset, read.env) == ("logs/mine.vlt/one", "my_env:make")


def test_an_environment_of_an_older_run_is_named() -> None:
    values = describe(oryx.Config(), TrainSettings(updates=7, seeds=2))
    assert again.command({**values, "environment": "walk"}).endswith(" --env walk")
