"""Learn coordinated multi-agent policies from logged data: Oryx on JAX.

    import oryx_marl as oryx

    dataset = oryx.open("tmaze/planner-mixed")  # or oryx.import_log("log.parquet", "depot/first")
    run = oryx.train("oryx", dataset, updates=3_000, seeds=2, out="runs/mine")
    print(run.score.mean, run.score.interval)
    policy = oryx.load(run)
    actions = policy.act(observations, action_mask)

Everything is imported when it is first used: JAX takes seconds.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oryx_marl.api import (
        Evaluated,
        TrainedRun,
        evaluate,
        export,
        import_log,
        list_algorithms,
        list_datasets,
        load,
        load_plugin,
        open,
        replay,
        resume,
        train,
        trust,
    )
    from oryx_marl.data.dataset import Dataset
    from oryx_marl.data.record.pettingzoo import Recorder
    from oryx_marl.envs import to_pettingzoo
    from oryx_marl.errors import OryxError
    from oryx_marl.experiment import EvaluationSettings
    from oryx_marl.loggers.base import Callback
    from oryx_marl.ope.document import Trust
    from oryx_marl.ope.settings import OpeSettings
    from oryx_marl.policy.player import Player
    from oryx_marl.types import ActionSpace, Spec

__version__ = "0.2.0.dev0"

__all__ = [
    "ActionSpace",
    "Callback",
    "Dataset",
    "Evaluated",
    "EvaluationSettings",
    "OpeSettings",
    "OryxError",
    "Player",
    "Recorder",
    "Spec",
    "TrainedRun",
    "Trust",
    "evaluate",
    "export",
    "import_log",
    "list_algorithms",
    "list_datasets",
    "load",
    "load_plugin",
    "open",
    "replay",
    "resume",
    "to_pettingzoo",
    "train",
    "trust",
]

_ELSEWHERE = {
    "ActionSpace": "types",
    "Callback": "loggers.base",
    "Dataset": "data.dataset",
    "EvaluationSettings": "experiment",
    "OpeSettings": "ope.settings",
    "OryxError": "errors",
    "Player": "policy.player",
    "Recorder": "data.record.pettingzoo",
    "Spec": "types",
    "Trust": "ope.document",
    "to_pettingzoo": "envs",
}
"""Public names that are not of `api`, and where they are."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'oryx_marl' has no attribute '{name}'")
    module = importlib.import_module(f"oryx_marl.{_ELSEWHERE.get(name, 'api')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
