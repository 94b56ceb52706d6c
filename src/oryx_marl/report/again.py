"""The command that makes a run again, from its config.json."""

import dataclasses
import shlex
from typing import Any

from oryx_marl import config as configs
from oryx_marl import registry
from oryx_marl.errors import OryxError
from oryx_marl.experiment import EvaluationSettings, Named
from oryx_marl.training.loop import TrainSettings
from oryx_marl.training.online import OnlineSettings


def command(config: dict[str, Any]) -> str:
    """`oryx train ...` with every setting that is not the default."""
    words = ["oryx", "train", config["algorithm"]]
    named = Named.from_json(config.get("named") or {})
    if config.get("online"):
        steps = config["updates"] * config["steps_per_update"]
        words += ["--env", config["dataset"], "--steps", str(steps)]
        defaults = _run_defaults(OnlineSettings())
    else:
        words += [named.data or config["dataset"], "--updates", str(config["updates"])]
        defaults = _run_defaults(TrainSettings())
    words += ["--seeds", str(len(config["seeds"]))]
    first = min(config["seeds"], default=0)
    words += ["--first-seed", str(first)] if first else []
    words += _flags({k: v for k, v in config.items() if k in defaults}, defaults)
    words += _flags(flatten(config["config"]), _defaults(config["algorithm"]))
    words += _flags(config.get("evaluation", {}), configs.to_dict(EvaluationSettings()))
    if env := named.env or config.get("environment"):
        words += ["--env", env]
    for file in dict.fromkeys([*named.plugins, *map(str, registry.files())]):
        words += ["--plugin", file]
    return shlex.join(words)


def flatten(values: dict[str, Any]) -> dict[str, Any]:
    """Nested settings side by side, as the command line takes them."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= flatten(value) if isinstance(value, dict) else {name: value}
    return flat


def _run_defaults(settings: TrainSettings | OnlineSettings) -> dict[str, Any]:
    """Settings of a run that are flags of their own, beside its length and its seeds."""
    apart = ("updates", "steps", "seeds", "first_seed")
    values = {k: v for k, v in dataclasses.asdict(settings).items() if k not in apart}
    return values | {"drop_invalid": False}


def _defaults(algorithm: str) -> dict[str, Any]:
    """What the algorithm does when told nothing; empty where it is not one of ours."""
    try:
        return flatten(configs.to_dict(registry.load("algorithms", algorithm).Config()))
    except (OryxError, ImportError):
        return {}


def _flags(values: dict[str, Any], defaults: dict[str, Any]) -> list[str]:
    """One flag per setting that is not at its default."""
    words = []
    for name, value in values.items():
        if name in defaults and _plain(defaults[name]) == _plain(value):
            continue
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, list | tuple):
            words += [f"--{flag}", *[str(part) for part in value]]
        else:
            words += [f"--{flag}", str(value)]
    return words


def _plain(value: Any) -> Any:
    """As JSON has it: lists for tuples."""
    return list(value) if isinstance(value, tuple) else value
