"""Tuning: eight settings each, a seed of its own, and what is chosen is used from then on."""

import dataclasses
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oryx_marl import config as configs
from oryx_marl import registry
from oryx_marl.algorithms import bc, oryx
from oryx_marl.bench import suite as suites
from oryx_marl.bench import tuning
from oryx_marl.bench.runner import Bench
from oryx_marl.bench.suite import Chosen, Suite, Variant
from oryx_marl.cli import main as cli
from oryx_marl.errors import OryxError
from oryx_marl.networks.recurrent import RecurrentConfig

DATA = "tmaze/planner-expert"
SUITES = [
    suites.load(name, quick)
    for name in registry.names("bench.suites")
    for quick in (False, True)
    if not quick or hasattr(registry.load("bench.suites", name), "QUICK")
]
TUNED = [
    pytest.param(variant, id=f"{suite.name} {name}")
    for suite in SUITES
    for name, variant in suite.variants.items()
    if variant.is_tuned
]
TINY = Suite(
    "tiny",
    (DATA,),
    {
        "BC": Variant(
            "bc", bc.Config(network=RecurrentConfig(8, 8), batch_size=4, sequence_length=4)
        ),
        "Oryx, fixed": Variant("oryx", oryx.Config(), fixed=True),
    },
    updates=8,
    seeds=2,
    episodes=4,
    log_every=2,
    tune_on=DATA,
)


@pytest.mark.parametrize("variant", TUNED)
def test_every_algorithm_has_eight_settings_that_differ(variant: Variant) -> None:
    settings = tuning.grid(variant.algorithm)
    found = [tuning.apply(variant.config, each) for each in settings]
    assert settings[0] == {}
    assert found[0] == variant.config
    assert len(settings) == len({json.dumps(configs.to_dict(each)) for each in found}) == 8


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_every_suite_names_the_dataset_it_is_tuned_on(suite: Suite) -> None:
    assert suite.tune_on in suite.datasets
    assert {variant.ablation_of for variant in suite.variants.values()} <= {None, *suite.variants}


def flat(values: dict[str, Any], before: str = "") -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        inner = flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
        found |= {before + key: each for key, each in inner.items()}
    return found


def test_what_an_ablation_changes_is_not_tuned() -> None:
    """Else the tuned settings would undo it."""
    ablations = 0
    for suite in SUITES:
        for variant in suite.variants.values():
            if variant.ablation_of is None:
                continue
            main = suite.variants[variant.ablation_of]
            own, others = (flat(configs.to_dict(each.config)) for each in (variant, main))
            changed = {name for name in own if own[name] != others[name]}
            tuned = {name for each in tuning.CHANGES[main.algorithm] for name in each}
            assert changed
            assert not changed & tuned
            ablations += 1
    assert ablations >= 10


def test_settings_of_a_part_have_its_name_before_a_dot() -> None:
    before = bc.Config()
    after = tuning.apply(before, {"batch_size": 8, "network.linear_width": 16})
    network = replace(before.network, linear_width=16)
    assert after == replace(before, batch_size=8, network=network)
    with pytest.raises(OryxError, match="unknown settings width; known: linear_width, recurrent"):
        tuning.apply(before, {"network.width": 16})
    with pytest.raises(OryxError, match="no settings to tune 'sable' over"):
        tuning.grid("sable")


def record(sampled: float, greedy: float = 0.0, **more: Any) -> dict[str, Any]:
    last = {"sampled": {"per_seed": [sampled]}, "greedy": {"per_seed": [greedy]}}
    return {"scores": {"last": last}, "wall_seconds": 60.0, **more}


def records(suite: Suite, sampled: list[float], greedy: list[float]) -> dict[Any, dict[str, Any]]:
    cells = tuning.make_suite(suite).cells()
    return {cell: record(*scores) for cell, *scores in zip(cells, sampled, greedy, strict=True)}


RISING, FALLING = [0.1 * number for number in range(8)], [0.9 - 0.1 * n for n in range(8)]


def test_the_best_by_the_own_way_of_acting_is_chosen() -> None:
    found = tuning.choose(TINY, records(TINY, RISING, FALLING))
    settings = tuning.grid("bc")
    assert found == {"BC": Chosen(settings[-1], 8)}
    greedy = replace(TINY, variants={"BC": replace(TINY.variants["BC"], config=Greedy())})
    assert tuning.choose(greedy, records(greedy, RISING, FALLING))["BC"].settings == {}


@dataclasses.dataclass(frozen=True)
class Greedy(bc.Config):
    """BC as if it acted greedily."""

    @property
    def acts_greedily(self) -> bool:
        return True


def test_of_equals_the_first_is_chosen_and_what_diverged_never() -> None:
    settings = tuning.grid("bc")
    found = records(TINY, [0.1, 0.5, 0.5, 0.9, 0.1, 0.1, 0.1, 0.1], [0.0] * 8)
    highest = [*found][3]
    found[highest]["diverged"] = "seed 1000"
    assert tuning.choose(TINY, found)["BC"].settings == settings[1]
    for each in found.values():
        each["diverged"] = "seed 1000"
    assert tuning.choose(TINY, found)["BC"].settings == {}
    del found[highest]
    assert tuning.choose(TINY, found) == {}  # seven of eight are finished


def test_the_table_shows_all_that_was_tried() -> None:
    found = tuning.make_table(TINY, records(TINY, RISING, FALLING))
    assert [row.labels[1] for row in found.rows][:2] == ["as they are", "learning_rate 0.0001"]
    assert [row.cells[0].best for row in found.rows if row.cells[0]] == [False] * 7 + [True]
    sampled, greedy, minutes = found.rows[-1].cells
    assert sampled is not None
    assert greedy is not None
    assert minutes is not None
    assert (sampled.text, greedy.text, minutes.text) == ("0.700", "(0.200)", "1.0")
    assert not greedy.best


def test_what_is_frozen_is_used_and_is_another_cell(tmp_path: Path) -> None:
    path = tuning.freeze(TINY, records(TINY, RISING, FALLING), tmp_path, "oryx bench tiny --tune")
    kept = json.loads(path.read_text())
    assert (kept["dataset"], kept["seed"], kept["updates"]) == (DATA, 1_000, 8)
    tuned = tuning.use(TINY, tmp_path / "nothing", tmp_path)
    assert tuned.variants["BC"].config == tuning.apply(
        TINY.variants["BC"].config, tuning.grid("bc")[-1]
    )
    assert tuned.variants["BC"].tuned_over == "8"
    assert TINY.variants["BC"].tuned_over == "untuned (1 setting)"
    assert tuned.variants["Oryx, fixed"] == TINY.variants["Oryx, fixed"]
    before, after = (Bench(each, tmp_path, tmp_path / "work") for each in (TINY, tuned))
    for kind in (Bench._path, Bench._folder):
        assert kind(before, "BC", DATA) != kind(after, "BC", DATA)
        assert kind(before, "Oryx, fixed", DATA) == kind(after, "Oryx, fixed", DATA)


def test_an_ablation_takes_the_settings_over(tmp_path: Path) -> None:
    chosen = {"Oryx": Chosen({"td_lambda": 0.0}, 8)}
    values = {name: dataclasses.asdict(each) for name, each in chosen.items()}
    (tmp_path / tuning.FROZEN).write_text(json.dumps({"chosen": values}))
    before = suites.load("tmaze")
    after = tuning.use(before, tmp_path)
    name = "Oryx w/o memory"
    assert after.variants[name].config == replace(before.variants[name].config, td_lambda=0.0)
    assert after.variants[name].identity == after.variants["Oryx"].identity != ""
    assert after.variants[name].tuned_over == "as Oryx"
    assert after.variants["Oryx"].tuned_over == "8 + 23 earlier runs"
    assert after.variants["BC"] == before.variants["BC"]
    default = {"chosen": {"Oryx": {"settings": {}, "tried": 8}}}
    (tmp_path / tuning.FROZEN).write_text(json.dumps(default))
    assert tuning.use(before, tmp_path).variants["Oryx"].identity == ""  # the same settings


def test_what_was_chosen_stays_where_runs_are_missing(tmp_path: Path) -> None:
    tuning.freeze(TINY, records(TINY, RISING, FALLING), tmp_path, "")
    before = tuning.read(tmp_path / tuning.FROZEN)
    assert before["BC"].settings
    tuning.freeze(TINY, {}, tmp_path, "")
    assert tuning.read(tmp_path / tuning.FROZEN) == before
    (tmp_path / tuning.FROZEN).write_text('{"chosen": {"BC": {}}}')
    with pytest.raises(OryxError, match=r"is damaged.*make it again with --tune"):
        tuning.use(TINY, tmp_path)


def test_a_setting_is_a_cell_with_a_seed_of_its_own(tmp_path: Path) -> None:
    """10,000 updates at most, one seed; the record says what was tried."""
    assert tuning.make_suite(suites.load("tmaze")).updates == 10_000
    tiny = tuning.make_suite(TINY)
    bench = Bench(tiny, tmp_path, tmp_path / "work", tuning.SEED, "oryx bench tiny --tune")
    bench.run(tuning.expand(TINY, ("BC: learning_rate 0.0001",)))
    (found,) = bench.records().values()
    assert (found["seeds"], found["updates"]) == ([1_000], 8)
    assert found["tuning"] == {"settings": {"learning_rate": 1e-4}, "tried": 1}
    assert found["config"]["learning_rate"] == 1e-4
    words = f"oryx bench tiny --tune --only 'BC: learning_rate 0.0001' {DATA}"
    assert found["command"] == words
    assert len(bench.missing()) == 7


def test_the_command_tunes_and_the_next_one_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training is replaced by scores that rise with the number of the cell."""
    measured: list[str] = []

    def measure(self: Bench, variant: str, dataset: str) -> dict[str, Any]:
        measured.append(variant)
        names = ("command", "commit", "algorithm", "online", "steps_per_update", "dataset")
        names += ("fingerprint", "updates", "config", "version", "jax", "device", "curve")
        last = record(0.1 * len(measured))["scores"]["last"]
        score = {**last["sampled"], "mean": 0.0, "low": None, "high": None}
        return {
            **dict.fromkeys(names, ""),
            "variant": variant,
            "seeds": [self.first_seed],
            "evaluation": {"episodes": 4},
            "wall_seconds": 60.0,
            "scores": {"last": {"sampled": score, "greedy": score}},
            "acting": {},
            "marl_eval": {},
        }

    monkeypatch.setattr(Bench, "_measure", measure)
    words = ["bench", "tmaze-planner", "--quick", "--out", str(tmp_path), "--only", "BC"]
    cli.main([*words, "--tune"])
    shown = capsys.readouterr().out
    assert len(measured) == 8
    assert "[0.800]" in shown
    assert "[0.700]" not in shown
    assert str(tmp_path / "tuned.json") in shown.replace("\n", "")
    assert len([*(tmp_path / "tuning" / "cells").iterdir()]) == 8
    cli.main([*words, "--tune"])
    assert len(measured) == 8  # finished cells are not run again
    cli.main(words)
    assert measured[8:] == ["BC"]
    (cell,) = (tmp_path / "cells").iterdir()
    tuned = tuning.use(suites.load("tmaze_planner", quick=True), tmp_path).variants["BC"]
    assert cell.name == f"bc--tmaze-planner-expert--{tuned.identity}.json"
    assert re.search(r"^BC +8 +0\.90 +\(0\.90\)", capsys.readouterr().out, re.MULTILINE)
