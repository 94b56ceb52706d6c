"""What a suite is: algorithms on datasets, each pair a cell."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from oryx_marl import registry
from oryx_marl.data.dataset import Dataset
from oryx_marl.errors import OryxError
from oryx_marl.policy.acting import Act

Acting = Literal["sampled", "greedy"]
EVERY_WAY: tuple[Act, ...] = ("sampled", 0.75, 0.5, 0.25, "greedy")
"""Of acting, from much chance to none."""


@dataclass(frozen=True)
class Chosen:
    """Settings that were chosen by tuning, and among how many."""

    settings: Mapping[str, Any]
    """What differs from the suite's settings, such as `{"network.width": 128}`."""
    tried: int


@dataclass(frozen=True)
class Variant:
    """An algorithm with its settings, as one row of the table."""

    algorithm: str
    config: Any
    acting: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further rows from the same training: what they are called, and the settings that differ when
    acting."""
    steps: int | None = None
    """Environment steps of an online learner; its cells name an environment, not a dataset."""
    seeds: int | None = None
    """Where it has not as many as the rest of the suite."""
    ablation_of: str | None = None
    """The variant whose tuned settings it takes over, so that one thing alone differs."""
    fixed: bool = False
    """Its settings are given, such as the paper's, and never tuned."""
    earlier_runs: int = 0
    """Runs by which its settings were chosen before there was a protocol."""
    chosen: Chosen | None = None
    """What tuning chose; part of `config` already."""

    def own_acting(self, scored: Iterable[str]) -> Acting:
        """The algorithm's own way of acting, by which it is scored: the first of the two in what
        was scored (that of the action space, where the suite names none), or greedy."""
        first = next(way for way in scored if way in get_args(Acting))
        return "greedy" if self.config.acts_greedily or first == "greedy" else "sampled"

    @property
    def is_tuned(self) -> bool:
        """Whether tuning searches settings for it."""
        return self.steps is None and not self.fixed and self.ablation_of is None

    @property
    def tuned_over(self) -> str:
        """How many settings it was given to choose from, in the words of the table."""
        if self.fixed:
            return "fixed"
        if self.ablation_of is not None:
            return f"as {self.ablation_of}"
        earlier = f"{self.earlier_runs} earlier runs" if self.earlier_runs else ""
        if self.chosen is not None:
            return f"{self.chosen.tried}{' + ' * bool(earlier)}{earlier}"
        return f"untuned ({earlier or '1 setting'})"

    @property
    def identity(self) -> str:
        """Part of the record's name: empty for the suite's settings, a hash of what differs."""
        if self.chosen is None or not self.chosen.settings:
            return ""
        text = json.dumps(dict(self.chosen.settings), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Derived:
    """A dataset that is made of another one whenever a cell learns from it."""

    source: str
    """Name in the catalogue."""
    change: Callable[[Dataset], Dataset]
    drop_invalid: bool = False
    """Train without the rows that fail the checks, which would else be refused."""


@dataclass(frozen=True)
class Suite:
    """Cells in the order in which they are run, and how."""

    name: str
    datasets: tuple[str, ...]
    """Names in the catalogue, or of environments, or in `derived`."""
    variants: Mapping[str, Variant]
    """By the name that the paper's tables use."""
    updates: int = 100_000
    seeds: int = 10
    episodes: int = 320
    log_every: int = 2_500
    order: tuple[tuple[str, str], ...] = ()
    """The cells, where they are not every variant on every dataset."""
    derived: Mapping[str, Derived] = field(default_factory=dict)
    """Datasets that are in no catalogue, by the names they have here."""
    described: tuple[str, ...] = ()
    """Further datasets of which it is recorded what is in them."""
    act: tuple[Act, ...] | None = None
    """Ways of acting that are scored, in the words of `--act`; None: as without `--act`."""
    tune_on: str = ""
    """The dataset on which settings are chosen."""
    is_scaling: bool = False
    """Whether datasets differ in the number of agents: scores are normalised and make a figure."""
    published: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What narrows the paper's scores to those of a dataset, where its name does not say it."""
    note: str = ""
    """What must be known to read the table."""

    def cells(self) -> list[tuple[str, str]]:
        """(variant, dataset), all datasets of a variant before the next."""
        every = ((variant, dataset) for variant in self.variants for dataset in self.datasets)
        return list(self.order or every)

    def choose(self, only: tuple[str, ...]) -> list[tuple[str, str]]:
        """The cells whose variant or dataset is named, or all."""
        if unknown := sorted({*only} - {*self.variants, *self.datasets}):
            algorithms = ", ".join(f"'{name}'" for name in self.variants)
            raise OryxError(
                f"suite '{self.name}' has no {', '.join(unknown)}; it has the algorithms "
                f"{algorithms} and the datasets {', '.join(self.datasets)}"
            )
        variants = [name for name in only if name in self.variants] or list(self.variants)
        datasets = [name for name in only if name in self.datasets] or list(self.datasets)
        found = [cell for cell in self.cells() if cell[0] in variants and cell[1] in datasets]
        if not found:
            there = [data for variant, data in self.cells() if variant in variants]
            raise OryxError(
                f"suite '{self.name}' has no {', '.join(variants)} on {', '.join(datasets)}, only "
                f"on {', '.join(dict.fromkeys(there))}"
            )
        return found


def quicken(variants: Mapping[str, Variant], names: Iterable[str]) -> dict[str, Variant]:
    """Some of them with settings that learn in minutes on two CPU cores."""
    return {
        name: replace(
            variants[name],
            config=replace(variants[name].config, batch_size=32, learning_rate=1e-3),
        )
        for name in names
    }


def load(name: str, quick: bool = False) -> Suite:
    """The suite of a name; `quick` is its small version for CPU."""
    module = registry.load("bench.suites", name)
    if quick and not hasattr(module, "QUICK"):
        raise OryxError(f"suite '{name}' has no small version; run it without --quick, on a GPU")
    return module.QUICK if quick else module.SUITE


def default_out(name: str, quick: bool = False) -> Path:
    """Folder of a suite's records; those of the small version are not meant to be kept."""
    return Path("runs/bench-quick" if quick else "results/bench") / name
