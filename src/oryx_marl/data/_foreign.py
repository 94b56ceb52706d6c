"""Datasets out of Vaults that flashbax or OG-MARL wrote, which carry no Spec."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from oryx_marl import limits
from oryx_marl.data._derive import Arrays, Derivation, EpisodeBorders, per_agent
from oryx_marl.data._store import Store
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError

NEEDED = ("observations", "actions", "rewards", "terminals")
NAMES = {
    **{name: name for name in (*NEEDED, "truncations")},
    "infos.legals": "action_mask",
    "infos.state": "state",
    "infos.present": "agent_mask",
}
"""OG-MARL's names, and ours."""
FLAGS_AT_ONCE = 2**22
"""Flags of agents that are read at a time."""
ORIGIN = {"source": "a flashbax vault without a Spec"}


def read_foreign(store: Store, structure: Mapping[str, Any], name: str) -> Dataset:
    """A Dataset with OG-MARL's names; Spec and episodes are derived from what is there."""
    vault = ForeignVault(store, structure, name)
    arrays = vault.read(0, vault.rows)
    derivation = Derivation(name, ORIGIN)
    derivation.add(arrays)
    return derivation.finish(arrays, vault.episode_starts())


class ForeignVault:
    """The arrays of a vault, by our names, in ranges of rows."""

    def __init__(self, store: Store, structure: Mapping[str, Any], name: str) -> None:
        found = list(_leaf_names(structure))
        missing = [needed for needed in NEEDED if needed not in found]
        if missing:
            raise OryxError(
                f"the vault '{name}' has no {', '.join(missing)}; it has: {', '.join(found)}. "
                "Only vaults with OG-MARL's names can be opened"
            )
        self.rows = store.read_index()
        if self.rows < 1:
            raise OryxError(f"the vault '{name}' is empty: it has no logged step")
        self._store = store
        self._leaves = {NAMES[leaf]: leaf for leaf in found if leaf in NAMES}
        self._require_plausible(name)

    def _require_plausible(self, name: str) -> None:
        """Raises where a damaged vault claims to hold far more than its files can."""
        row = sum(self._read(key, 0, 1).nbytes for key in self._leaves)
        stored = self._store.num_bytes()
        what = f"the vault '{name}' of {self.rows:,} rows"
        limits.require_held(what, row * self.rows, stored, limits.MOST_TIMES_STORED)

    def read(self, start: int, stop: int) -> Arrays:
        """Rows of all arrays that mean something here."""
        return {name: self._read(name, start, stop) for name in self._leaves}

    def episode_starts(self) -> np.ndarray:
        """Where episodes begin, after the flags of all rows, which are read piece by piece."""
        names = [name for name in ("terminals", "truncations") if name in self._leaves]
        first = [self._read(name, 0, 1) for name in names]
        agents = max((flag.shape[1] for flag in first if flag.ndim > 1), default=1)
        borders = EpisodeBorders()
        size = max(1, FLAGS_AT_ONCE // agents)
        for start in range(0, self.rows, size):
            stop = min(start + size, self.rows)
            flags = [self._read(name, start, stop) != 0 for name in names]
            step = (stop - start, agents)
            borders.add(np.logical_or.reduce([per_agent(flag, step) for flag in flags]))
        return borders.starts()

    def _read(self, name: str, start: int, stop: int) -> np.ndarray:
        return self._store.read_unknown(f"{self._leaves[name]}.", stop, start)


def _leaf_names(structure: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Names such as `observations` and `infos.legals` of a nested structure."""
    for key, value in structure.items():
        if isinstance(value, Mapping):
            yield from _leaf_names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
