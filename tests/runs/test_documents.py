"""Each document of a run: written and read by one class, with a version and a checksum."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.runs.documents import (
    DatasetCard,
    DivergedSeeds,
    Evaluation,
    MarlEval,
    MetricRow,
    RecordingRequest,
    RunConfig,
    Score,
    SecondsSpent,
    SpecDocument,
    Summary,
)
from oryx_marl.runs.folder import Run
from oryx_marl.runs.held_out import HeldOut
from oryx_marl.runs.replay import Episode
from oryx_marl.runs.sealed import Document
from oryx_marl.types import ActionSpace, Spec

BASELINE = {"action_accuracy": 0.2, "log_likelihood": -1.5}
SCORE = Score(0.5, 0.25, 0.75, (0.4, 0.6), (0.1, 0.2))
WORST = Score(0.1, 0.0, 0.2, (0.05, 0.15))
WHOLE = Score(0.5, 0.25, 0.75, (0.4, 0.6), (0.1, 0.2), {}, WORST, Score(9.0, 8.0, 10.0, (8.5, 9.5)))
WON = Score(0.25, float("nan"), float("nan"), (0.25,))
STEPS = {"step_0": {"step_count": 10, "elapsed_time": 1.0, "return": [1.0, 2.0]}}
CONFIG = {
    "algorithm": "bc",
    "dataset": "depot/first",
    "seeds": [4, 5],
    "updates": 30,
    "config": {"batch_size": 8, "network": {"width": 4}},
    "log_every": 10,
    "fingerprint": "abc",
    "version": "0.1.0",
}
DOCUMENTS: list[Document] = [
    RunConfig.from_json(CONFIG),
    SpecDocument(Spec("", ("a", "b"), (3, 2), ActionSpace("box", 1, (-1.0,), (1.0,)))),
    Summary("success rate", 32, {("last", "sampled"): SCORE, ("best", "greedy"): SCORE}),
    Summary("return", 32, {("last", "0.25"): WHOLE, ("last", "greedy"): SCORE}),
    HeldOut(4, 40, SCORE, None, BASELINE, rest={"more": [1]}),
    HeldOut(4, 40, SCORE, SCORE, BASELINE, 60, 20),
    DatasetCard("depot/first", {"mean": None}, rest={"quantiles": {"0.5": 1}}),
    DivergedSeeds({4: 10, 11: 20}),
    SecondsSpent(12.5),
    RecordingRequest(100, 3),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.file)
class TestEveryDocument:
    def test_is_read_as_it_was_written(self, document: Document, tmp_path: Path) -> None:
        run = Run(tmp_path)
        assert not run.has(type(document))
        run.write(document)
        assert run.has(type(document))
        assert run.read(type(document)) == document

    def test_has_version_and_checksum(self, document: Document, tmp_path: Path) -> None:
        Run(tmp_path).write(document)
        found = json.loads((tmp_path / document.file).read_text())
        assert found.pop("format_version") == 1
        assert len(found.pop("checksum")) == 64
        assert found == json.loads(json.dumps(document.to_json()))

    def test_is_refused_once_altered(self, document: Document, tmp_path: Path) -> None:
        Run(tmp_path).write(document)
        path = tmp_path / document.file
        whole = json.loads(path.read_text())
        name = next(iter(whole))
        for change in ({name: "other"}, {"added": 1}, {"format_version": 0}, {"checksum": None}):
            path.write_text(json.dumps({**whole, **change}))
            with pytest.raises(OryxError, match=f"{document.file} is damaged: its checksum"):
                Run(tmp_path).read(type(document))
        path.write_text(json.dumps(whole, sort_keys=True))  # spaces and order may change
        assert Run(tmp_path).read(type(document)) == document

    def test_without_both_is_of_version_0_1_0(self, document: Document, tmp_path: Path) -> None:
        (tmp_path / document.file).write_text(json.dumps(document.to_json()))
        assert Run(tmp_path).read(type(document)) == document

    def test_of_a_newer_version_says_so(self, document: Document, tmp_path: Path) -> None:
        values = {**document.to_json(), "format_version": 2, "checksum": "other"}
        (tmp_path / document.file).write_text(json.dumps(values))
        with pytest.raises(OryxError, match=rf"{document.file} cannot be read: .* a newer oryx"):
            Run(tmp_path).read(type(document))

    def test_missing_or_cut_off_is_named(self, document: Document, tmp_path: Path) -> None:
        with pytest.raises(OryxError, match=f"{document.file} is missing; is .* folder of a run"):
            Run(tmp_path).read(type(document))
        for text in ("", '{"a": ', '["a"]', '{"format_version": 1}'):
            (tmp_path / document.file).write_text(text)
            with pytest.raises(OryxError, match=f"{document.file} is damaged"):
                Run(tmp_path).read(type(document))


def test_settings_without_a_field_are_kept() -> None:
    config = RunConfig.from_json(CONFIG)
    assert config.rest == {"log_every": 10, "fingerprint": "abc"}
    assert config.to_json().items() >= CONFIG.items()


def test_summary_holds_what_the_environment_reports(tmp_path: Path) -> None:
    score = Score(0.5, 0.25, 0.75, (0.4, 0.6), (), {"won": WON})
    Run(tmp_path).write(Summary("return", 8, {("last", "sampled"): score}))
    values = json.loads((tmp_path / "summary.json").read_text())
    won = values["last"]["sampled"]["metrics"]["won"]
    assert won == {"mean": 0.25, "low": None, "high": None, "per_seed": [0.25]}
    found = Run(tmp_path).read(Summary).scores["last", "sampled"].metrics["won"]
    assert (found.mean, found.per_seed) == (0.25, (0.25,))
    assert np.isnan(found.low)


def test_seconds_spent_of_version_0_1_0_are_a_number(tmp_path: Path) -> None:
    (tmp_path / "seconds_spent.json").write_text("17.25")
    assert Run(tmp_path).read(SecondsSpent).seconds == 17.25


def test_marl_eval_keeps_its_layout(tmp_path: Path) -> None:
    """Others read this file: nothing is added."""
    seed: dict[str, Any] = {**STEPS, "absolute_metrics": {"return": [3.0]}}
    values = {"tmaze": {"tmaze/expert": {"bc": {"seed_4": seed}}}}
    Run(tmp_path).write(MarlEval(values))
    assert json.loads((tmp_path / "eval.json").read_text()) == values
    found = Run(tmp_path).read(MarlEval).by_seed("bc")
    np.testing.assert_array_equal(found["4"].by_update[10], [1, 2])
    np.testing.assert_array_equal(found["4"].absolute, [3])
    step = {"step_0": {"step_count": 10, "return": []}}
    for broken in ({}, {"tmaze": {}}, {"tmaze": {"t": {"bc": {"seed_4": step}}}}):
        (tmp_path / "eval.json").write_text(json.dumps(broken))
        with pytest.raises(OryxError, match=r"eval\.json is damaged"):
            Run(tmp_path).read(MarlEval)


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert list(run.rows(MetricRow)) == []
    run.append(MetricRow(10, 1.0, {"loss": [0.5, None]}))
    returns = np.array([[0.1, 0.2], [1.0, 2.0]])
    run.append(Evaluation(10, 1.5, returns))
    run.append(Evaluation(20, 2.5, returns, {"won": returns / 2}))
    assert list(run.rows(MetricRow)) == [MetricRow(10, 1.0, {"loss": [0.5, None]})]
    first, second = run.rows(Evaluation)
    assert (first.update, first.seconds, first.metrics) == (10, 1.5, {})
    np.testing.assert_array_equal(first.returns, returns)
    np.testing.assert_array_equal(second.metrics["won"], returns / 2)
    lines = (tmp_path / "evaluations.jsonl").read_text().splitlines()
    assert "metrics" not in json.loads(lines[0])  # as in version 0.1.0
    assert json.loads(lines[1])["metrics"] == {"won": (returns / 2).tolist()}


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for update in (10, 20, 30):
        run.append(MetricRow(update, 1.0, {}))
    path = tmp_path / "metrics.jsonl"
    whole = path.read_text()
    path.write_text(whole[:-5])
    assert [row.update for row in run.rows(MetricRow)] == [10, 20]
    run.rewind(MetricRow, 10)
    assert [row.update for row in run.rows(MetricRow)] == [10]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_damaged_line_is_lost_alone_and_told(tmp_path: Path, place: int) -> None:
    run = Run(tmp_path)
    for update in (10, 20, 30):
        run.append(MetricRow(update, 1.0, {}))
    path = tmp_path / "metrics.jsonl"
    lines = path.read_bytes().splitlines()
    altered = lines[place].replace(b"1.0", b"1.5")
    for broken in (lines[place][:-5], altered, b'{"update": 20}', b"[]", b"\xff\0", b"[" * 9_999):
        now = [*lines[:place], broken, *lines[place + 1 :]]
        path.write_bytes(b"\n".join(now) + b"\n")
        left = [update for update in (10, 20, 30) if update != 10 * (place + 1)]
        for _ in range(2):
            with pytest.warns(OryxWarning, match=rf"metrics\.jsonl has .*left out: {place + 1} \("):
                assert [row.update for row in run.rows(MetricRow)] == left
            run.rewind(MetricRow, 30)  # the line is still there to be told
        run.append(MetricRow(40, 1.0, {}))
        with pytest.warns(OryxWarning, match="damaged lines"):
            assert [row.update for row in run.rows(MetricRow)] == [*left, 40]


def test_replay_is_read_as_it_was_written(tmp_path: Path) -> None:
    frames = np.arange(3 * 2 * 2 * 3, dtype=np.uint8).reshape(3, 2, 2, 3)
    episode = Episode("episode 1", 0.75, frames, (("up",), ("stay",)), (0.25, 0.5))
    run = Run(tmp_path)
    run.write_replay([episode])
    (found,) = run.read_replay()
    np.testing.assert_array_equal(found.frames, frames)
    assert (found.title, found.episode_return) == ("episode 1", 0.75)
    assert (found.actions, found.rewards) == (episode.actions, episode.rewards)
    with np.load(tmp_path / "replay.npz") as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(tmp_path / "replay.npz", **{**arrays, "frames_0": frames[::-1]})
    with pytest.raises(OryxError, match=r"replay\.npz is damaged: its checksum differs"):
        run.read_replay()
    del arrays["seal"]  # version 0.1.0 has none
    np.savez(tmp_path / "replay.npz", **arrays)
    np.testing.assert_array_equal(run.read_replay()[0].frames, frames)


@pytest.mark.parametrize(
    ("likelihood", "accuracy", "begins"),
    [
        (-2.0, 0.9, "less likely to repeat the logs than the marginal-action baseline"),
        (-1.0, 0.1, None),
        (None, 0.1, "no better than the marginal-action baseline"),
        (None, 0.9, None),
    ],
)
def test_the_verdict_goes_by_log_likelihood_where_there_is_one(
    likelihood: float | None, accuracy: float, begins: str | None
) -> None:
    def score(mean: float) -> Score:
        return Score(mean, mean, mean, (mean,), ())

    found = HeldOut(
        episodes=1,
        steps=1,
        action_accuracy=score(accuracy),
        log_likelihood=None if likelihood is None else score(likelihood),
        baseline={"action_accuracy": 0.5, "log_likelihood": -1.5},
    )
    assert (found.verdict or "").startswith(begins or "")
    assert (found.verdict is None) == (begins is None)
    assert begins is None or "observations are those" in str(found.verdict)


def test_ways_of_acting_keep_their_order_as_the_first_is_the_headline() -> None:
    ways = ("greedy", "0.25", "sampled")
    summary = Summary("return", 8, {("last", way): SCORE for way in ways})
    found = Summary.from_json(json.loads(json.dumps(summary.to_json())))
    assert [acting for _, acting in found.scores] == list(ways)


def test_a_score_of_an_older_run_has_no_worst_tenth() -> None:
    found = Score.from_json({"mean": 1.0, "low": None, "high": None, "per_seed": [1.0]})
    assert found.worst_tenth is None
    assert found.length is None
    assert "worst_tenth" not in found.to_json()
    assert WHOLE.to_json()["worst_tenth"]["mean"] == 0.1
    assert WHOLE.to_json()["length"]["per_seed"] == [8.5, 9.5]


def test_an_altered_evaluation_of_marl_eval_is_refused(tmp_path: Path) -> None:
    """Its layout has no room for a checksum: checksums.json has it."""
    run, path = Run(tmp_path), tmp_path / "eval.json"
    for value in (1, 2):
        steps = {"step_0": {"step_count": 10, "return": [value, value]}}
        run.write(MarlEval({"tmaze": {"t": {"bc": {"seed_4": steps}}}}))
    whole = path.read_text()
    path.write_text(whole.replace("2", "3"))
    with pytest.raises(OryxError, match=r"eval\.json is damaged: its checksum differs"):
        run.read(MarlEval)
    path.write_text(whole)
    assert run.read(MarlEval).by_seed("bc")["4"].by_update[10].tolist() == [2, 2]
    noted = (tmp_path / "checksums.json").read_text()
    (tmp_path / "checksums.json").write_text(noted.replace("eval.json", "evil.json"))
    with pytest.raises(OryxError, match=r"checksums\.json is damaged"):
        run.read(MarlEval)
    (tmp_path / "checksums.json").unlink()  # as in version 0.1.0
    run.read(MarlEval)


def test_a_folder_whose_config_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "10").mkdir(parents=True)
    config = RunConfig("bc", "a/b", (0,), 10, {})
    for resume in (True, False):
        with pytest.raises(OryxError, match=r"whose config\.json is gone"):
            Run(tmp_path).begin(config, resume)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("replay.npz", b""),
        ("replay.npz", b"PK\x05\x06" + bytes(18)),
        ("config.json", b"[" * 100_000),
        ("config.json", b"\xff\xfe\x00"),
        ("config.json", b'{"format_version": 1, "format_version": 1}'),
    ],
)
def test_odd_bytes_are_told(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    run = Run(tmp_path)
    readers = {
        "replay.npz": run.read_replay,
        "config.json": lambda: run.read(RunConfig),
    }
    with pytest.raises(OryxError, match=name):
        readers[name]()


def test_odd_bytes_in_a_log_are_told(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"update": 1e999}\n\xff\xfe\n')
    with pytest.warns(OryxWarning, match=r"metrics\.jsonl has damaged lines.*: 1, 2 "):
        assert list(Run(tmp_path).rows(MetricRow)) == []
