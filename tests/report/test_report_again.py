"""The command a page shows."""

from typing import Any

from oryx_marl import config as configs
from oryx_marl.algorithms import oryx
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
        "--leave-out-bad-rows --learning-rate 0.001 --no-memory"
    )


def test_names_are_quoted() -> None:
    values = describe(oryx.Config(), TrainSettings(updates=7, seeds=2))
    assert "'my logs; rm -r x'" in again.command({**values, "dataset": "my logs; rm -r x"})


def test_unknown_algorithm_gets_all_its_settings() -> None:
    values = {"algorithm": "other", "dataset": "d", "seeds": [0], "updates": 1}
    command = again.command({**values, "config": {"network": {"width": 8}, "sizes": [1, 2]}})
    assert command == "oryx train other d --updates 1 --seeds 1 --width 8 --sizes 1 2"
