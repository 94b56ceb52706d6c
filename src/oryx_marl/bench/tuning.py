"""Tuning: eight settings for every algorithm, on one dataset of the suite, with a seed of its own.

The rules are in docs/results/protocol.md.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from oryx_marl.bench.record import CellRecord, read_json, write_json
from oryx_marl.bench.suite import Chosen, Suite, Variant
from oryx_marl.bench.summary import Records, Scores
from oryx_marl.bench.table import Cell, Row, Table
from oryx_marl.errors import OryxError

Settings = Mapping[str, Any]
"""Fields of a Config that differ from the suite's; those of a part have its name before a dot."""

SEED, UPDATES = 1_000, 10_000
FOLDER, FROZEN = "tuning", "tuned.json"
LEGEND = "[ ] chosen; ( ) not the algorithm's own way of acting; weights of the last checkpoint"
_SLOWER: Settings = {"learning_rate": 1e-4}
_AVERAGED: Settings = {"act_with_ema": True}
_AS_ORYX: Settings = {"td_lambda": 0.9, **_AVERAGED}
_FIXED: Settings = {"policy_temperature": 0.3}
_FROM_DATA: Settings = {"policy_temperature": None, "scale_values": True}
CHANGES: Mapping[str, tuple[Settings, Settings, Settings]] = {
    "oryx": (_FIXED, {"td_lambda": 0.0}, _SLOWER),
    "mat_icq": (_FIXED, {"td_lambda": 0.0}, _SLOWER),
    "iicq": (_FROM_DATA, _AS_ORYX, _SLOWER),
    "maicq": (_FROM_DATA, _AS_ORYX, _SLOWER),
    "iql_cql": ({"cql_weight": 1.0}, _AS_ORYX, _SLOWER),
    "madt": ({"network.width": 64}, _AVERAGED, _SLOWER),
    "bc": ({"network.linear_width": 128, "network.recurrent_width": 128}, _AVERAGED, _SLOWER),
}
"""Three changes for each algorithm. Each is made or not, which makes eight settings."""


def grid(algorithm: str) -> list[Settings]:
    """The eight settings of an algorithm; the first changes nothing."""
    if algorithm not in CHANGES:
        raise OryxError(
            f"there are no settings to tune '{algorithm}' over; bench/tuning.py has them of "
            f"{', '.join(CHANGES)}"
        )
    return [
        {
            name: value
            for change, is_made in zip(CHANGES[algorithm], made, strict=True)
            if is_made
            for name, value in change.items()
        }
        for made in product((False, True), repeat=3)
    ]


def apply(config: Any, settings: Settings) -> Any:
    """The config with other settings."""
    own = {name: value for name, value in settings.items() if "." not in name}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        part, dot, rest = name.partition(".")
        if dot:
            parts.setdefault(part, {})[rest] = value
    known = {field.name for field in dataclasses.fields(config)}
    if unknown := sorted({*own, *parts} - known):
        raise OryxError(f"unknown settings {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    nested = {part: apply(getattr(config, part), rest) for part, rest in parts.items()}
    return replace(config, **own, **nested)


def make_suite(suite: Suite) -> Suite:
    """The suite whose cells are the settings of every algorithm that is tuned."""
    return replace(
        suite,
        name=f"{suite.name}-tuning",
        datasets=(suite.tune_on,),
        variants={
            cell: _choose(replace(suite.variants[name], acting={}), Chosen(settings, 1))
            for name, cell, settings in _cells(suite)
        },
        updates=min(UPDATES, suite.updates),
        seeds=1,
        log_every=min(suite.log_every, 500),
        order=(),
        described=(),
        is_scaling=False,
    )


def expand(suite: Suite, only: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the suite's algorithms as those of the cells of their settings."""
    cells: dict[str, list[str]] = {}
    for name, cell, _ in _cells(suite):
        cells.setdefault(name, []).append(cell)
    return tuple(cell for name in only for cell in cells.get(name, [name]))


def choose(suite: Suite, records: Records) -> dict[str, Chosen]:
    """The best setting of every algorithm whose settings are all finished.

    The score is that of the last weights by the algorithm's own way of acting. Of equals the one
    that comes first in the grid is chosen. What diverged is not, unless everything did.
    """
    found: dict[str, list[tuple[Settings, CellRecord]]] = {}
    unfinished = set()
    for name, cell, settings in _cells(suite):
        record = records.get((cell, suite.tune_on))
        if record is None:
            unfinished.add(name)
        else:
            found.setdefault(name, []).append((settings, record))
    chosen = {}
    for name, tried in found.items():
        if name not in unfinished:
            good = [each for each in tried if not each[1].get("diverged")] or tried[:1]
            scores = [_score(suite, name, record) for _, record in good]
            chosen[name] = Chosen(good[scores.index(max(scores))][0], len(tried))
    return chosen


def freeze(suite: Suite, records: Records, folder: Path, command: str) -> Path:
    """Writes down what is chosen; what was chosen before stays where runs are missing."""
    path = folder / FROZEN
    chosen = {**read(path), **choose(suite, records)}
    tuned = make_suite(suite)
    values = {
        "command": command,
        "dataset": suite.tune_on,
        "seed": SEED,
        "updates": tuned.updates,
        "episodes": tuned.episodes,
        "chosen": {name: dataclasses.asdict(chosen[name]) for name in sorted(chosen)},
    }
    if chosen:
        write_json(path, values)
    return path


def read(path: Path) -> dict[str, Chosen]:
    """What was chosen for each algorithm; nothing where there is no such file."""
    if not path.exists():
        return {}
    again = "make it again with --tune"
    try:
        found = read_json(path, again)["chosen"]
        return {name: Chosen(each["settings"], each["tried"]) for name, each in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OryxError(f"{path} is damaged ({error!r}); {again}") from error


def use(suite: Suite, *folders: Path) -> Suite:
    """The suite with the settings that are frozen in the first folder that has some.

    An ablation takes those of what it is an ablation of.
    """
    chosen = next((found for folder in folders if (found := read(folder / FROZEN))), {})
    variants = {
        name: _choose(variant, chosen[variant.ablation_of or name])
        if (variant.is_tuned or variant.ablation_of) and (variant.ablation_of or name) in chosen
        else variant
        for name, variant in suite.variants.items()
    }
    return replace(suite, variants=variants)


def make_table(suite: Suite, records: Records) -> Table:
    """Every setting that is finished, and which one is chosen."""
    chosen, rows = choose(suite, records), []
    for name, cell, settings in _cells(suite):
        record = records.get((cell, suite.tune_on))
        if record is None:
            continue
        scores = Scores.of(suite, name, record["scores"])
        is_chosen = name in chosen and chosen[name].settings == settings
        cells: list[Cell | None] = [
            Cell(
                float(runs.mean()),
                best=is_chosen and acting == scores.own_acting,
                decimals=3,
                aside=acting != scores.own_acting,
            )
            for acting, runs in scores.by_acting.items()
        ]
        cells.append(Cell(record["wall_seconds"] / 60, decimals=1))
        words = _words(settings) + (" (diverged)" if record.get("diverged") else "")
        rows.append(Row([name, words], cells))
    return Table(["algorithm", "settings"], ["sampled", "greedy", "minutes"], rows)


def _cells(suite: Suite) -> Iterator[tuple[str, str, Settings]]:
    """Algorithm, name of the cell, and settings."""
    for name, variant in suite.variants.items():
        if variant.is_tuned:
            for settings in grid(variant.algorithm):
                yield name, f"{name}: {_words(settings)}", settings


def _words(settings: Settings) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "as they are"


def _choose(variant: Variant, chosen: Chosen) -> Variant:
    return replace(variant, config=apply(variant.config, chosen.settings), chosen=chosen)


def _score(suite: Suite, name: str, record: CellRecord) -> float:
    return float(Scores.of(suite, name, record["scores"]).own.mean())
