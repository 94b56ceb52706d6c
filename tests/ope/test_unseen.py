"""Which episodes count as unseen by a policy that is evaluated."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from oryx_marl.data import catalog
from oryx_marl.data.split import split
from oryx_marl.data.subsample import take_episodes
from oryx_marl.ope.run import Evaluator
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.runs.documents import RunConfig
from oryx_marl.runs.folder import Run

LENGTH = 5


def test_only_what_the_policy_has_not_learned_from(tmp_path: Path) -> None:
    logs = catalog.open("tmaze/planner-expert")
    run = Run(tmp_path / "run")
    rest = {"fingerprint": logs.fingerprint(), "evaluation": {"hold_out": 0.2}}
    run.write(
        RunConfig("bc", logs.name, (0,), 1, {}, False, 1, "", None, "", "", rest)  # as far as read
    )

    def unseen(dataset) -> np.ndarray:
        return Evaluator(dataset, OpeSettings())._find_unseen(run, LENGTH)

    held = split(logs, 0.2, LENGTH).validation
    assert held is not None
    assert take_episodes(logs, unseen(logs)).fingerprint() == held.fingerprint()
    some = take_episodes(logs, np.arange(10))
    assert len(unseen(some)) == 10  # other logs, as far as anybody knows
    origin = {"subsample": {"fingerprint": logs.fingerprint()}}
    assert len(unseen(replace(some, origin=origin))) == 0
