"""Suites: cells are run once, go on after a kill, and make one table."""

import json
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oryx_marl.algorithms import bc, oryx, sable
from oryx_marl.bench import suite as suites
from oryx_marl.bench.runner import Bench, _references
from oryx_marl.bench.suite import Derived, Suite, Variant
from oryx_marl.bench.suites.tmaze_planner import plant_illegal
from oryx_marl.bench.summary import make_table
from oryx_marl.data import catalog, vault
from oryx_marl.errors import OryxError
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.runs.documents import SecondsSpent
from oryx_marl.runs.folder import Run

TINY = Suite(
    "tiny",
    ("tmaze/planner-expert",),
    {
        "BC": Variant(
            "bc", bc.Config(network=RecurrentConfig(8, 8), batch_size=4, sequence_length=4)
        ),
        "Oryx": Variant(
            "oryx",
            oryx.Config(network=NetworkConfig(width=8), batch_size=4, sequence_length=2),
            acting={"Oryx, forgetful": {"memory_when_acting": False}},
        ),
    },
    updates=8,
    seeds=2,
    episodes=4,
    log_every=2,
)


class KilledError(Exception):
    """Stands for a kill between two updates."""


def bench(folder: Path, watch: Any = None) -> Bench:
    more = {} if watch is None else {"watch": watch}
    return Bench(TINY, folder / "out", folder / "work", command="oryx bench tiny", **more)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cells; the second was killed in the middle once."""
    folder = tmp_path_factory.mktemp("bench")
    begun = []

    @contextmanager
    def watch(title: str, total: int):
        begun.append(title)

        def report(update: int, metrics: dict[str, np.ndarray]) -> None:
            if "Oryx" in title and update == 6:
                raise KilledError

        yield report

    with pytest.raises(KilledError):
        bench(folder, watch).run()
    assert begun == ["BC on tmaze/planner-expert", "Oryx on tmaze/planner-expert"]
    assert bench(folder).missing() == [("Oryx", "tmaze/planner-expert")]
    run = Run(folder / "work" / "tiny" / "oryx" / "tmaze-planner-expert")
    run.write(SecondsSpent(1_000 + run.read(SecondsSpent).seconds))  # as if it had been slow
    before = {path: path.stat().st_mtime_ns for path in (folder / "out" / "cells").iterdir()}
    bench(folder).run()
    for path, when in before.items():
        assert path.stat().st_mtime_ns == when  # finished cells are not run again
    return folder


def test_records_say_how_to_do_it_again(finished: Path) -> None:
    record = bench(finished).records()["Oryx", "tmaze/planner-expert"]
    assert record["command"] == "oryx bench tiny --only Oryx tmaze/planner-expert"
    assert record["seeds"] == [0, 1]
    assert len(record["fingerprint"]) == 64
    assert {"commit", "device", "training_seconds", "config"} <= set(record)
    assert 1_000 < record["wall_seconds"] < 2_000  # with those of the process that was killed
    assert len(record["scores"]["last"]["sampled"]["per_seed"]) == 2
    assert set(record["acting"]) == {"Oryx, forgetful"}


def test_one_table(finished: Path) -> None:
    text = (finished / "out" / "table.md").read_text()
    rows = [line.split("|")[1].strip() for line in text.splitlines()]
    assert rows == ["algorithm", "---", "BC", "Oryx", "Oryx, forgetful"]
    assert "planner-expert, sampled" in text
    assert "planner-expert, greedy" in text
    header = (finished / "out" / "table.csv").read_text().splitlines()[0]
    assert header.startswith('algorithm,tuned over,"planner-expert, sampled mean"')


def test_scores_in_the_layout_of_marl_eval(finished: Path) -> None:
    found = json.loads((finished / "out" / "marl_eval.json").read_text())
    algorithms = found["tmaze"]["tmaze/planner-expert"]
    assert set(algorithms) == {"BC", "Oryx"}
    assert set(algorithms["BC"]) == {"seed_0", "seed_1"}


def test_what_scores_are_measured_against(tmp_path: Path) -> None:
    """The planner solves every episode; nobody trained an expert there."""
    scaling = replace(TINY, is_scaling=True, variants={"BC": TINY.variants["BC"]})
    work = replace(bench(tmp_path), suite=scaling)
    work.run()
    (record,) = work.records().values()
    assert record["num_agents"] == 2
    assert record["references"] == {"random": 0.0, "data": 1.0, "expert": None}
    assert "0: random, 1: expert" in (tmp_path / "out" / "figure.svg").read_text()
    dataset = catalog.open("tmaze/planner-expert")
    for last, expert in ((1.2, 1.2), (1.05, None)):  # well above the data, and not
        trained = replace(dataset, origin={"final_return": last})
        assert _references(trained)["expert"] == expert
    acted = replace(dataset, origin={"policies": [{}]})
    assert _references(acted)["expert"] == 1.0
    header = (tmp_path / "out" / "table.md").read_text().splitlines()[0]
    columns = "dataset | algorithm | tuned over | sampled | greedy | random | data | minutes"
    assert header == f"| {columns} |"


def test_cells_are_chosen_by_name() -> None:
    tmaze = suites.load("tmaze")
    assert tmaze.choose(("BC", "tmaze/expert")) == [("BC", "tmaze/expert")]
    assert tmaze.choose(("tmaze/replay",))[0] == ("Oryx", "tmaze/replay")
    assert len(tmaze.choose(())) == 2 * len(tmaze.variants)
    with pytest.raises(OryxError, match="has no QMIX"):
        tmaze.choose(("QMIX",))


def test_data_made_smaller_than_usual_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their scores would stand beside those of others as if they were the same."""
    monkeypatch.setenv("ORYX_DATA", str(tmp_path / "data"))
    vault.write(catalog.open("tmaze/planner-expert"), tmp_path / "data" / "tmaze.vlt" / "replay")
    small = replace(TINY, datasets=("tmaze/replay",))
    with pytest.raises(OryxError, match=r"has 100,002 rows here, but a suite compares on 20,000,0"):
        replace(bench(tmp_path), suite=small).run()


def test_what_is_in_the_data_is_recorded(finished: Path) -> None:
    found = json.loads((finished / "out" / "data" / "tmaze-planner-expert.json").read_text())
    assert found["command"].startswith("oryx data make tmaze/planner-expert --rows 100000")
    assert (found["transitions"], found["returns"]["mean"]) == (100_002, 1.0)
    assert {"commit", "device", "wall_seconds", "origin", "fingerprint"} <= {*found}


def test_further_data_are_described_where_they_are(finished: Path) -> None:
    further = ("tmaze/planner-mixed", "tmaze/replay")  # the second needs a training
    replace(bench(finished), suite=replace(TINY, described=further)).run()
    described = {path.stem for path in (finished / "out" / "data").iterdir()}
    assert described == {"tmaze-planner-expert", "tmaze-planner-mixed"}


def test_a_dataset_may_be_derived_from_another(tmp_path: Path) -> None:
    """Illegal labels are refused unless the suite says to drop them."""
    name, bc_only = "tmaze/spoiled", {"BC": TINY.variants["BC"]}
    spoil = Derived("tmaze/planner-expert", partial(plant_illegal, share=0.03))
    spoiled = replace(TINY, variants=bc_only, datasets=(name,), derived={name: spoil})
    with pytest.raises(OryxError, match="illegal action"):
        replace(bench(tmp_path), suite=spoiled).run()
    dropping = replace(spoiled, derived={name: replace(spoil, drop_invalid=True)})
    work = replace(bench(tmp_path), suite=dropping)
    work.run()
    record = work.records()["BC", name]
    assert (record["dataset"], record["transitions"]) == (name, 100_002)
    assert record["command"] == "oryx bench tiny --only BC tmaze/spoiled"


@pytest.mark.slow
def test_an_online_learner_is_a_cell_too(tmp_path: Path) -> None:
    small = sable.Config(
        network=NetworkConfig(width=8), num_envs=4, rollout_length=10, minibatches=2
    )
    learner = Variant("sable", small, steps=800, seeds=3)
    online = replace(TINY, variants={"Sable": learner}, datasets=("tmaze",))
    work = replace(bench(tmp_path), suite=online)
    work.run()
    record = work.records()["Sable", "tmaze"]
    assert (record["online"], record["seeds"], record["updates"]) == (True, [0, 1, 2], 20)
    assert record["steps"] == 800
    assert [len(row) for row in record["curves"]] == [4, 4]  # steps, and every seed
    assert record["evaluations"][-1][0] == 800
    assert record["curve"][-1] == [20, pytest.approx(np.mean(record["evaluations"][-1][1:]))]
    rows = (tmp_path / "out" / "table.md").read_text().splitlines()
    assert rows[0].startswith("| algorithm | tuned over | tmaze, sampled | tmaze, greedy |")
    assert not (tmp_path / "out" / "data").exists()


def test_nothing_finished(tmp_path: Path) -> None:
    with pytest.raises(OryxError, match="nothing of suite 'tiny' is finished"):
        make_table(TINY, bench(tmp_path).records())


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "out" / "cells" / "bc--tmaze-planner-expert.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(OryxError, match="remove it to run the cell again"):
        bench(tmp_path).records()
    path.write_text('{"variant": "BC"}')
    with pytest.raises(OryxError, match="is no record of a cell: command, commit, algorithm"):
        bench(tmp_path).records()


def test_quick_records_are_no_results() -> None:
    assert suites.default_out("tmaze", quick=False) == Path("results/bench/tmaze")
    assert suites.default_out("tmaze", quick=True) == Path("runs/bench-quick/tmaze")


def test_suites_begin_with_what_the_paper_has() -> None:
    names = list(suites.load("tmaze").variants)
    assert names[:3] == ["Oryx", "I-ICQ", "MAICQ"]
    assert set(suites.load("tmaze", quick=True).variants) <= set(names)


def test_data_that_need_a_training_are_asked_for_before_anything_is_run(tmp_path: Path) -> None:
    data = (*TINY.datasets, "con-4x4x2a/snapshots")
    work = replace(bench(tmp_path), suite=replace(TINY, datasets=data))
    advice = "oryx data make con-4x4x2a/replay, then oryx data make con-4x4x2a/snapshots"
    with pytest.raises(OryxError, match=advice):
        work.run()
    assert not any(tmp_path.iterdir())


def test_a_training_that_diverges_is_scored_as_it_last_was(tmp_path: Path) -> None:
    """Steps of this size leave the finite numbers at once; what was there before is scored."""
    variant = TINY.variants["BC"]
    wild = replace(variant, config=replace(variant.config, learning_rate=1e38))
    work = replace(bench(tmp_path), suite=replace(TINY, variants={"BC": wild}))
    work.run()
    record = work.records()["BC", "tmaze/planner-expert"]
    assert "is not finite" in record["diverged"]
    assert record["scores"]["update"] == 0
    assert len(record["scores"]["last"]["sampled"]["per_seed"]) == 2
    assert not work.missing()
    text = (tmp_path / "out" / "table.md").read_text()
    assert "Diverged" in text
    seeds = ", ".join(f"{each:.2f}" for each in record["scores"]["last"]["sampled"]["per_seed"])
    assert f"BC on `tmaze/planner-expert` (after 0 updates; by seed {seeds})" in text
