"""OG-MARL's archives on the Hugging Face hub: their names, where they lie, what is known of each.

A dataset is named `source-environment-scenario/dataset`, such as `omiga-smac_v1-corridor/Good`;
what comes before the slash names its archive, which holds all qualities of a scenario.
"""

import csv
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oryx_marl.errors import UnknownNameError

TABLES = Path(__file__).parent / "og_marl"
REPOSITORY = "InstaDeepAI/og-marl"
UNKNOWN = "unknown"
Card = dict[str, str]


@dataclass(frozen=True)
class Archive:
    """One file on the hub."""

    source: str
    """Who recorded it."""
    env: str
    scenario: str
    paper_scenario: str
    """What the Oryx paper calls it; '' where the paper does not use it."""
    revision: str
    """Commit of the hub, SHA-256 and licence, or 'unknown': nobody has written them down yet."""
    sha256: str
    licence: str
    environment: str
    """The environment of ours that plays the same task; '' where there is none."""

    @property
    def name(self) -> str:
        return f"{self.source}-{self.env}-{self.scenario}"

    @property
    def path(self) -> str:
        """Its place in the repository."""
        part = "core" if self.source == "og_marl" else f"prior_work/{self.source}"
        return f"{part}/{self.env}/{self.scenario}.zip"

    def url(self, revision: str) -> str:
        """Where it can be had; $HF_ENDPOINT names a mirror of the hub."""
        endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
        return f"{endpoint.rstrip('/')}/datasets/{REPOSITORY}/resolve/{revision}/{self.path}"

    def cards(self) -> list[Card]:
        """What is known of each dataset in it; empty where nothing is."""
        return [card for card in cards() if _archive_name(card) == self.name]


@cache
def cards() -> tuple[Card, ...]:
    """What OG-MARL's dataset cards say: a row per dataset, as printed."""
    return _read("datasets")


@cache
def archives() -> dict[str, Archive]:
    """All archives by name."""
    found = [Archive(**row) for row in _read("archives")]
    return {archive.name: archive for archive in found}


def dataset_name(card: Card) -> str:
    """The name under which a dataset opens once it is here."""
    return f"{_archive_name(card)}/{card['dataset']}"


def find(name: str) -> tuple[Archive, str | None]:
    """The archive of a name, and the dataset in it that is meant, or None for all of them."""
    family, _, dataset = name.partition("/")
    archive = archives().get(family)
    if archive is None:
        alike = [known for known in archives() if family and family in known]
        near = f" Do you mean {' or '.join(alike[:3])}?" if alike else ""
        raise UnknownNameError(
            f"the hub has no dataset '{name}'.{near} See: oryx data list --remote"
        )
    known = [card["dataset"] for card in archive.cards()]
    if dataset and known and dataset not in known:
        raise UnknownNameError(f"'{family}' has no dataset '{dataset}'; it has: {', '.join(known)}")
    return archive, dataset or None


def _archive_name(card: Card) -> str:
    return f"{card['source']}-{card['env']}-{card['scenario']}"


def _read(name: str) -> tuple[dict[str, str], ...]:
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))
