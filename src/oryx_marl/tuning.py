"""Settings chosen by logs alone: a small grid is trained, and `oryx trust` says which is best.

The simulator is never touched, also where one is known: the data are taken as logs of nobody's.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.console import Console

from oryx_marl import api, files, trusting
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.experiment import EvaluationSettings
from oryx_marl.ope.document import Trust
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.runs.documents import RunConfig
from oryx_marl.runs.folder import Run

HOLD_OUT = 0.2
DRAWS = 10_000
"""Of the true values, over which what is lost is averaged."""
FILE = "tuned.json"


@dataclass(frozen=True)
class Candidate:
    """An algorithm and its temperature; None: the algorithm's own."""

    algorithm: str
    temperature: float | None = None

    @property
    def name(self) -> str:
        own = "" if self.temperature is None else f"-{self.temperature:g}"
        return self.algorithm + own


@dataclass(frozen=True)
class Tuned:
    """What was tried, best first, and what is expected of the choice."""

    candidates: list[tuple[Candidate, Path, Trust]]
    expected_loss: float
    """Of the chosen policy's return against the best of the grid, given how uncertain all are."""

    @property
    def chosen(self) -> Candidate:
        return self.candidates[0][0]

    def to_json(self) -> dict[str, Any]:
        tried = [
            {
                **asdict(candidate),
                "run": str(folder),
                "value": asdict(found.value),
                "logged": asdict(found.logged),
                "outside": found.support.share,
                "verdict": found.verdict.text,
            }
            for candidate, folder, found in self.candidates
        ]
        return {"expected_loss": self.expected_loss, "candidates": tried}


def tune(
    dataset: Dataset,
    grid: list[Candidate],
    out: Path,
    *,
    updates: int,
    settings: OpeSettings,
    console: Console,
    **training: Any,
) -> Tuned:
    """Trains every candidate with one seed and ranks them; what is done is not done again."""
    if len(grid) < 2:
        raise OryxError("a grid needs at least two candidates to choose from")
    logs = replace(dataset, spec=replace(dataset.spec, environment="", environment_config={}))
    evaluation = EvaluationSettings(hold_out=HOLD_OUT, trust=False)
    folders = []
    for candidate in grid:
        folder = out / candidate.name
        own: dict[str, Any] = {}
        if candidate.temperature is not None:
            own = {"policy_temperature": candidate.temperature}
        api.train(
            candidate.algorithm,
            logs,
            out=folder,
            updates=updates,
            seeds=1,
            resume=Run(folder).has(RunConfig),
            evaluation=evaluation,
            progress=not console.quiet,
            **own,
            **training,
        )
        folders.append(folder)
    found = trusting.trust_all(folders, logs, "sampled", "last", settings, console)
    tried = zip(grid, folders, found, strict=True)
    ranked = sorted(tried, key=lambda entry: trusting.place(entry[2]))
    tuned = Tuned(ranked, expect_loss([each for _, _, each in ranked]))
    files.write_json(out / FILE, tuned.to_json())
    return tuned


def expect_loss(ranked: list[Trust], seed: int = 0) -> float:
    """Mean of what the first lacks to the best, over values drawn as uncertain as they are.

    Policies of which nothing can be told do not count: whatever they are worth is unknown.
    """
    known = [each for each in ranked if each.verdict.kind != "unknown"] or ranked
    generator = np.random.default_rng(seed)
    draws: Float[np.ndarray, "D C"] = np.stack(
        [
            generator.normal(each.value.value or 0.0, each.value.spread or 0.0, DRAWS)
            for each in known
        ],
        axis=1,
    )
    return float((draws.max(axis=1) - draws[:, 0]).mean())
