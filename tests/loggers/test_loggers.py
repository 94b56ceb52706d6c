"""Loggers and callbacks: one training that stops amid its lines and goes on, read back by the
dashboards' own readers."""

import csv
import json
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oryx_marl import api, experiment, installation
from oryx_marl.algorithms import bc
from oryx_marl.data import catalog
from oryx_marl.data.subsample import whole_episodes
from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.experiment import EvaluationSettings, Experiment
from oryx_marl.loggers import base
from oryx_marl.loggers.base import Callback, Callbacks, Logger, Scalar
from oryx_marl.networks.recurrent import RecurrentConfig
from oryx_marl.runs.documents import Evaluation, MetricRow, RunConfig, Summary
from oryx_marl.runs.folder import Run
from oryx_marl.training.loop import TrainSettings

CONFIG = bc.Config(network=RecurrentConfig(8, 8), batch_size=4, sequence_length=4)
SCORES = EvaluationSettings(episodes=4, episodes_while_training=4, replays=0)
LOGGERS = ("tensorboard", "wandb", "csv")
UPDATES = [1, 2, 3, 4, 5, 6]
EVALUATED = [2, 4, 6]


class Recorded(Callback):
    """Notes every event; stops the training at an update, as a crash would."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.events: list[tuple[str, Any]] = []
        self.stop_at = stop_at

    def on_begin(self, run: Run, update: int) -> None:
        self.events.append(("begin", update))

    def on_log(self, row: MetricRow) -> None:
        self.events.append(("log", row.update))
        if row.update == self.stop_at:
            raise RuntimeError("a bug in the user's own callback")

    def on_evaluation(self, row: Evaluation) -> None:
        self.events.append(("evaluation", row.update))

    def on_checkpoint(self, update: int) -> None:
        self.events.append(("checkpoint", update))

    def on_end(self, summary: Summary | None) -> None:
        assert summary is not None
        self.events.append(("end", [*summary.scores]))

    def close(self) -> None:
        self.events.append(("close", None))


def work(out: Path, updates: int = 6) -> Experiment:
    logged = whole_episodes(catalog.open("tmaze/planner-expert"), 300, 0)
    train = TrainSettings(updates, 2, 3, log_every=1, evaluate_every=2, checkpoint_every=2)
    return Experiment("bc", CONFIG, logged, out, train, SCORES)


@pytest.fixture(scope="module")
def stopped_and_resumed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list, list]:
    """A run of two seeds that fails after line 5, behind the checkpoint of update 4."""
    out = tmp_path_factory.mktemp("logged") / "run"
    first, second = Recorded(stop_at=5), Recorded()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_SILENT", "true")
        patch.setenv("WANDB_ERROR_REPORTING", "false")
        # Of other packages, which these tests cannot change.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        whole = replace(work(out), log=LOGGERS)
        with pytest.raises(RuntimeError, match="own callback"):
            experiment.run(whole, callbacks=[first])
        experiment.run(whole, resume=True, callbacks=[second])
    return Run(out), first.events, second.events


def expected(run: Run) -> dict[str, dict[int, list[float]]]:
    """What the run's own logs hold: one number per seed, by name and update."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in run.rows(MetricRow):
        for name, values in row.metrics.items():
            found.setdefault(f"train/{name}", {})[row.update] = [float(v or 0) for v in values]
    for scores in run.rows(Evaluation):
        by_seed = scores.returns.mean(axis=1).tolist()
        found.setdefault("evaluation/return", {})[scores.update] = by_seed
    return found


def test_events_come_in_their_order(stopped_and_resumed: tuple[Run, list, list]) -> None:
    _, first, second = stopped_and_resumed
    begun = [("begin", 0), ("checkpoint", 0), ("log", 1), ("log", 2), ("evaluation", 2)]
    assert first == [
        *begun,
        ("checkpoint", 2),
        ("log", 3),
        ("log", 4),
        ("evaluation", 4),
        ("checkpoint", 4),
        ("log", 5),
        ("close", None),
    ]
    scored = [(which, way) for which in ("last", "best") for way in ("sampled", "greedy")]
    assert second == [
        ("begin", 4),
        ("log", 5),
        ("log", 6),
        ("evaluation", 6),
        ("checkpoint", 6),
        ("end", scored),
        ("close", None),
    ]


def test_tables_have_every_line_once(stopped_and_resumed: tuple[Run, list, list]) -> None:
    run, *_ = stopped_and_resumed
    found = expected(run)
    for file, updates, name in (
        ("metrics.csv", UPDATES, "train/loss"),
        ("evaluations.csv", EVALUATED, "evaluation/return"),
    ):
        with (run.folder / file).open(newline="") as opened:
            lines = list(csv.DictReader(opened))
        keys = [(int(line["update"]), int(line["seed"])) for line in lines]
        assert keys == [(update, seed) for update in updates for seed in (3, 4)]
        values = [float(line[name.partition("/")[2]]) for line in lines]
        assert values == [value for update in updates for value in found[name][update]]


def test_tensorboard_reads_every_step_once(stopped_and_resumed: tuple[Run, list, list]) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run, *_ = stopped_and_resumed
    found = expected(run)
    for place, series in enumerate(("seed_3", "seed_4", "mean")):
        read = reader.EventAccumulator(str(run.folder / "tensorboard" / series)).Reload()
        assert {*read.Tags()["scalars"]} >= {*found}
        for name, by_update in found.items():
            events = read.Scalars(name)
            assert [event.step for event in events] == sorted(by_update)
            wanted = [
                np.mean(by_update[event.step]) if series == "mean" else by_update[event.step][place]
                for event in events
            ]
            np.testing.assert_allclose([e.value for e in events], wanted, rtol=1e-6)


def test_tensorboard_has_the_settings(stopped_and_resumed: tuple[Run, list, list]) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    metadata = pytest.importorskip("tensorboard.plugins.hparams.metadata")
    run, *_ = stopped_and_resumed
    (folder,) = (run.folder / "tensorboard").glob("*/after_6_updates")
    read = reader.EventAccumulator(str(folder)).Reload()
    content = read.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    settings = metadata.parse_session_start_info_plugin_data(content).hparams
    assert settings["algorithm"].string_value == "bc"
    assert settings["batch_size"].number_value == 4
    assert settings["network/linear_width"].number_value == 8
    (score,) = read.Scalars("final/last/sampled")
    headline = run.read(Summary).scores["last", "sampled"].mean
    assert score.value == pytest.approx(headline, rel=1e-6)


def test_wandb_reads_every_step_once(stopped_and_resumed: tuple[Run, list, list]) -> None:
    run, *_ = stopped_and_resumed
    found = expected(run)
    folders = sorted((run.folder / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    history, ids, configs, summary = read_wandb(folders)
    assert len(ids) == 1  # one W&B run, in two folders that `wandb sync` joins
    assert configs[0]["algorithm"] == "bc"
    assert configs[0]["config"]["batch_size"] == 4
    for name, by_update in found.items():
        lines = [line for line in history if name in line]
        assert [line["update"] for line in lines] == sorted(by_update)
        for line in lines:
            per_seed = by_update[line["update"]]
            assert [line[f"{name}/seed_{seed}"] for seed in (3, 4)] == pytest.approx(per_seed)
            assert line[name] == pytest.approx(np.mean(per_seed))
    headline = run.read(Summary).scores["last", "sampled"].mean
    assert summary["final/last/sampled"] == pytest.approx(headline)


def read_wandb(folders: list[Path]) -> tuple[list[dict], set[str], list[dict], dict]:
    """History, ids, configs and summary of offline folders, by W&B's own reader."""
    datastore = pytest.importorskip("wandb.sdk.internal.datastore")
    from wandb.proto import wandb_internal_pb2

    history, ids, configs, summary = [], set(), [], {}
    for folder in folders:
        (file,) = folder.glob("*.wandb")
        store = datastore.DataStore()
        store.open_for_scan(str(file))
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                ids.add(record.run.run_id)
                updates = record.run.config.update
                configs.append({each.key: json.loads(each.value_json) for each in updates})
            elif kind == "history":
                items = record.history.item
                keys = [each.key or ".".join(each.nested_key) for each in items]
                values = [json.loads(each.value_json) for each in items]
                history.append(dict(zip(keys, values, strict=True)))
            elif kind == "summary":
                for each in record.summary.update:
                    name = each.key or ".".join(each.nested_key)
                    summary[name] = json.loads(each.value_json)
        store.close()
    return history, ids, configs, summary


class Broken(Logger):
    name = "broken"

    def on_log(self, row: MetricRow) -> None:
        raise ConnectionError("the server is away")


def test_a_logger_that_fails_is_told_once_and_left_out() -> None:
    seen = Recorded()
    callbacks = Callbacks([Broken(), seen])
    row = MetricRow(1, 0.5, {"loss": [1.0]})
    with pytest.warns(OryxWarning, match="logging to broken has failed.*server is away"):
        callbacks.on_log(row)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        callbacks.on_log(replace(row, update=2))
    assert seen.events == [("log", 1), ("log", 2)]


def test_what_is_not_known_is_left_out() -> None:
    row = MetricRow(1, 0.0, {"loss": [1.0, None, 5.0]})
    found = [*base.scalars(row, (0, 1, 2))]
    assert found == [Scalar("train/loss", 0, 1.0), Scalar("train/loss", 2, 5.0)]
    assert base.means(found) == {"train/loss": 3.0}
    returns = np.array([[1.0, 3.0], [2.0, 2.0]])
    reported = np.array([[math.nan, 4.0], [math.nan, math.nan]])
    scores = Evaluation(1, 0.0, returns, {"won": reported})
    assert [*base.scalars(scores, (0, 1))] == [
        Scalar("evaluation/return", 0, 2.0),
        Scalar("evaluation/return", 1, 2.0),
        Scalar("evaluation/won", 0, 4.0),
    ]


def test_a_column_that_appears_later_is_empty_before(tmp_path: Path) -> None:
    from oryx_marl.loggers.csv import _Table

    table = _Table(tmp_path / "t.csv")
    table.add((1, 0.5, 0), {"a": 1.0})
    table.add((2, 1.0, 0), {"a": 2.0, "b": 3.0})
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines == ["update,seconds,seed,a,b", "1,0.5,0,1.0,", "2,1.0,0,2.0,3.0"]


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_missing_package_is_told_before_any_work(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named '{module}'", name=module)

    importer: Callable[..., Any] = installation.importlib.import_module
    monkeypatch.setattr(
        installation.importlib,
        "import_module",
        lambda module, *rest: missing(module) if module == package else importer(module, *rest),
    )
    with pytest.raises(OryxError, match=rf"package {package}; install it: pip install.*\[{name}\]"):
        experiment.run(replace(work(tmp_path / "run"), log=(name,)))
    assert not (tmp_path / "run").exists()


def test_names_are_checked() -> None:
    with pytest.raises(OryxError, match="there is no logger 'tensorbord'; did you mean tens"):
        base.make(["tensorbord"])
    with pytest.raises(OryxError, match="given twice: csv"):
        base.make(["csv", "csv"])


def test_from_python_and_as_before_when_resumed(tmp_path: Path) -> None:
    seen = Recorded()
    small = {"batch_size": 4, "sequence_length": 4, "linear_width": 8, "log_every": 1}
    dataset = whole_episodes(catalog.open("tmaze/planner-expert"), 300, 0)
    settings = {**small, "evaluate_every": 0, "checkpoint_every": 1, "progress": False}
    run = api.train(
        "bc",
        dataset,
        out=tmp_path / "run",
        updates=1,
        seeds=1,
        evaluation=SCORES,
        log=["csv"],
        callbacks=[seen],
        **settings,
    )
    assert [event for event, _ in seen.events][-2:] == ["end", "close"]
    assert Run(run.folder).read(RunConfig).rest["log"] == ["csv"]
    api.resume(run, updates=2, data=dataset, progress=False)
    assert (run.folder / "metrics.csv").read_text().count("\n") == 3
