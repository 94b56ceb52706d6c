"""`oryx data check --fix`: what can be repaired without guessing, written as a new dataset."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from oryx_marl.data import vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality import screen as check
from oryx_marl.data.quality.issues import KINDS, Finding
from oryx_marl.data.view import View, chunks, parts
from oryx_marl.errors import OryxError

CHANGES = {
    "infinite padding": "entries of -inf padding became 0",
    "padding not empty": "entries behind an agent's last feature became 0",
    "episode without an end": "last steps were marked as truncated",
    "terminal and truncated": "agent-steps are terminal only, no longer truncated too",
    "rewards differ": "the Spec now says that rewards are not shared",
    "marked absent": "agent-steps with a number that is not finite, an action that does not exist "
    "or no legal action are marked absent",
}
"""What is done, by kind; each is counted."""


BROKEN = {kind for kind in check.REMEDIES if kind != "illegal action"}
"""Kinds for which agent-steps are left out."""


def mendable(findings: Collection[Finding]) -> set[str]:
    """The kinds among them that can be repaired."""
    return {finding.kind for finding in findings if KINDS[finding.kind].is_mended}


def repair(view: View, findings: Collection[Finding], folder: Path) -> dict[str, int]:
    """Writes a repaired copy to a new folder; what was changed, and how often.

    The dataset itself is not touched. Raises where nothing that was found can be repaired. Every
    change is counted, and kept in the new dataset's origin. Episodes are held one at a time.
    """
    kinds = mendable(findings)
    if not kinds:
        raise OryxError(f"there is nothing in '{view.name}' that --fix can repair")
    changes: Counter[str] = Counter()
    name = f"{folder.parent.stem}/{folder.name}"
    repaired = (replace(part, name=name) for part in _repaired(view, kinds, changes))
    vault.write_parts(repaired, folder)
    return dict(+changes)  # without those that never happened


def _repaired(view: View, kinds: set[str], changes: Counter[str]) -> Iterator[Dataset]:
    """The parts of the copy; `changes` grows as they are made."""
    spec = view.spec
    if "rewards differ" in kinds:
        spec = replace(spec, shared_reward=False)
        changes[CHANGES["rewards differ"]] = 1
    is_padding = np.arange(spec.observation_size) >= np.array(spec.observation_sizes)[:, None]
    is_padding &= "padding not empty" in kinds
    none = np.zeros_like(is_padding)
    is_infinite = _find_infinite(view) if "infinite padding" in kinds else none
    for part in parts(view):
        part = replace(part, spec=spec)
        part = _empty(part, is_infinite, "infinite padding", changes)
        part = _empty(part, is_padding, "padding not empty", changes)
        part = _set_ends(part, kinds, changes)
        if kinds & BROKEN:
            part = _leave_out(part, changes)
        origin = {**view.origin, "fixed": {"dataset": view.name, **+changes}}
        yield replace(part, origin=origin)


def _find_infinite(view: View) -> Bool[np.ndarray, "N O"]:
    """The columns that are -inf in every row."""
    is_infinite = np.ones(view.layout["observations"].shape[1:], bool)
    for chunk in chunks(view, ("observations",)):
        is_infinite &= np.isneginf(chunk.arrays["observations"]).all(axis=0)
    return is_infinite


def _empty(
    part: Dataset, columns: Bool[np.ndarray, "N O"], kind: str, changes: Counter[str]
) -> Dataset:
    """Some columns filled with 0, in final observations too."""
    if not columns.any():
        return part
    changes[CHANGES[kind]] += int(np.count_nonzero(part.observations[:, columns]))
    final = part.final_observations
    return replace(
        part,
        observations=np.where(columns, 0, part.observations).astype(part.observations.dtype),
        final_observations=None
        if final is None
        else np.where(columns, 0, final).astype(final.dtype),
    )


def _set_ends(part: Dataset, kinds: set[str], changes: Counter[str]) -> Dataset:
    """Every episode ended, and no step marked twice."""
    terminals, truncations = part.terminals, part.truncations.copy()
    if "terminal and truncated" in kinds:
        changes[CHANGES["terminal and truncated"]] += int((terminals & truncations).sum())
        truncations &= ~terminals
    if "episode without an end" in kinds:
        last = np.append(part.episode_starts[1:], part.num_rows) - 1
        last = last[~(terminals | truncations)[last].any(axis=1)]
        changes[CHANGES["episode without an end"]] += len(last)
        truncations[last] = True
    return replace(part, truncations=truncations)


def _leave_out(part: Dataset, changes: Counter[str]) -> Dataset:
    """Agent-steps that cannot be used are marked absent; `present` is there in every part."""
    agent_mask = np.ones(part.rewards.shape, bool) if part.agent_mask is None else part.agent_mask
    has_legal = ~check.find_action_masks(part)["no legal action"]
    repaired = check.drop_invalid(replace(part, agent_mask=agent_mask & has_legal))
    assert repaired.agent_mask is not None
    changes[CHANGES["marked absent"]] += int((agent_mask & ~repaired.agent_mask).sum())
    return repaired
