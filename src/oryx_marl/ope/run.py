"""Off-policy evaluation of a run: which episodes it has not learned from, and what is kept of it.

Seeds that are done are kept one by one in the run's folder, so that a stopped evaluation goes on.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Int

from oryx_marl import files, reading
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.split import find_held_out
from oryx_marl.errors import OryxError
from oryx_marl.ope import evaluate
from oryx_marl.ope.document import SeedTrust, Trust
from oryx_marl.ope.evaluate import Progress, Subject
from oryx_marl.ope.settings import OpeSettings
from oryx_marl.policy import acting
from oryx_marl.runs import sealed
from oryx_marl.runs.documents import RunConfig
from oryx_marl.runs.folder import Run

FOLDER = "trust"
"""In the folder of a run, for seeds that are done."""


@dataclass(eq=False)
class Evaluator:
    """Evaluates runs on one dataset; what they share is done once."""

    dataset: Dataset
    settings: OpeSettings
    report: Progress = lambda what, done, of: None
    fingerprint: str | None = None
    """Of the dataset as it was logged, where invalid rows are left out of `dataset`."""
    _subjects: dict[bytes, Subject] = field(default_factory=dict)

    def evaluate(self, run: Run, act: str | float | None = None, which: str = "last") -> Trust:
        """What a run's policy is worth, acting as it does by default if nothing is said; writes
        trust.json."""
        began = time.monotonic()
        policy = run.policy(which)
        act = acting.resolve(act, policy.spec.action)
        if misfits := policy.spec.misfits(self.dataset.spec):
            raise OryxError(
                f"the policy of {run.folder} does not fit '{self.dataset.name}': "
                + "; ".join(misfits)
            )
        subject = self._prepare(self._find_unseen(run, policy.algorithm.sequence_length))
        key = evaluate.make_key(policy, subject, act)
        with suppress(OryxError):  # a document that is missing or damaged is made anew
            if (kept := run.read(Trust)).key == key:
                return kept
        found = []
        for number, seed in enumerate(policy.seeds):
            path = run.folder / FOLDER / f"{key[:16]}-{seed}.json"
            before = f"seed {number + 1} of {len(policy.seeds)}: " if len(policy.seeds) > 1 else ""
            done = _read(path) or evaluate.evaluate_seed(
                policy, seed, subject, act, _prefixed(self.report, before)
            )
            files.write_json(path, sealed.seal(done.to_json()))
            found.append(done)
        document = evaluate.conclude(policy, subject, act, found, began)
        with run.lock():
            run.write(document)
        return document

    def _find_unseen(self, run: Run, length: int) -> Int[np.ndarray, " held"]:
        """Numbers of the episodes that a run has not learned from: those it held out, or all of a
        dataset that is not its own. Of a subsample of its own nobody knows which it has seen."""
        config = run.read(RunConfig)
        own = config.rest.get("fingerprint")
        given = self.fingerprint or self.dataset.fingerprint()
        if config.online or (own is not None and own != given):
            taken = self.dataset.origin.get("subsample")
            is_own = own is not None and isinstance(taken, dict) and taken.get("fingerprint") == own
            return np.arange(0 if is_own else self.dataset.num_episodes)
        share = (config.rest.get("evaluation") or {}).get("hold_out")
        if share is None and config.rest.get("environment") is not None:
            share = 0.0
        return find_held_out(self.dataset, share, length)

    def _prepare(self, unseen: Int[np.ndarray, " held"]) -> Subject:
        name = unseen.tobytes()
        if name not in self._subjects:
            made = evaluate.prepare(self.dataset, unseen, self.settings, self.report)
            self._subjects[name] = made
        return self._subjects[name]


def _prefixed(report: Progress, before: str) -> Progress:
    return lambda what, done, of: report(before + what, done, of)


def _read(path: Path) -> SeedTrust | None:
    """A seed that is done; None if it is not, or its file is damaged."""
    with suppress(OryxError, *sealed.DAMAGE):
        return SeedTrust.from_json(sealed.unseal(reading.read_json(path), path))
    return None
