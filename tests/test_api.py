"""`import oryx_marl as oryx`: from a log to a policy in a few lines, typed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import oryx_marl as oryx
from oryx_marl import api
from oryx_marl.algorithms import oryx as oryx_algorithm
from oryx_marl.errors import OryxWarning
from oryx_marl.runs.documents import Score, Summary


def test_every_public_name_is_there_and_nothing_is_imported_for_it() -> None:
    for name in oryx.__all__:
        assert getattr(oryx, name) is not None
    assert {"open", "import_log", "train", "evaluate", "load", "list_algorithms"} <= {*oryx.__all__}
    assert callable(oryx.train)
    code = "import sys, oryx_marl; dir(oryx_marl); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = oryx.nothing  # type: ignore[attr-defined]


def test_names() -> None:
    assert {"oryx", "bc", "sable"} <= {*oryx.list_algorithms()}
    assert {"tmaze/planner-mixed", "tmaze/expert"} <= {*oryx.list_datasets()}
    assert oryx.open("tmaze/planner-mixed").spec.num_agents == 2
    with pytest.raises(oryx.OryxError, match="oryx data make tmaze/replay"):
        oryx.open("tmaze/replay")


def test_settings_are_those_of_the_command_line() -> None:
    """Of the algorithm, of the networks inside it, and of the training."""
    given = {"width": 32, "learning_rate": 1e-3, "updates": 300, "seeds": 2, "log_every": 50}
    config, schedule = api._settings("oryx", given)
    assert isinstance(config, oryx_algorithm.Config)
    assert (config.network.width, config.learning_rate) == (32, 1e-3)
    assert (schedule.updates, schedule.seeds, schedule.log_every) == (300, 2, 50)
    assert api._settings("oryx", {"updates": 1e3})[1].updates == 1_000
    _, schedule = api._settings("sable", {"steps": 5_000})
    assert schedule.steps == 5_000
    with pytest.raises(oryx.OryxError, match="no setting trace; it is called td_lambda now"):
        api._settings("oryx", {"trace": 0.5})
    with pytest.raises(
        oryx.OryxError, match=r"'bc' has no setting width; it has: act_with_ema, batch_size"
    ):
        api._settings("bc", {"width": 32})
    with pytest.raises(oryx.OryxError, match="no setting widht; did you mean width"):
        api._settings("oryx", {"widht": 32})
    for name, value in (("updates", "40"), ("learning_rate", "1e-3"), ("width", 0.5)):
        with pytest.raises(oryx.OryxError, match=f"{name} must be a"):
            api._settings("oryx", {name: value})
    with pytest.raises(oryx.OryxError, match="objective must be one of icq, bc, q_learning"):
        api._settings("oryx", {"objective": "cloning"})


LOG = "episode,step,agent,obs_level,action,gain,truncated\n" + "".join(
    f"{episode},{step},{agent},{step % 3},{(step + (agent == 'b')) % 3},{step % 2},{step == 5}\n"
    for episode in range(30)
    for step in range(6)
    for agent in ("a", "b")
)


def test_from_a_log_to_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(LOG)
    dataset = oryx.import_log("log.csv", "depot/first", reward="gain")
    assert (dataset.name, dataset.num_episodes, dataset.spec.num_agents) == ("depot/first", 30, 2)
    with pytest.raises(oryx.OryxError, match="is there already"):
        oryx.import_log("log.csv", "depot/first", reward="gain")
    run = oryx.train(
        "bc",
        dataset,
        updates=60,
        seeds=2,
        batch_size=8,
        sequence_length=6,
        learning_rate=1e-2,
        progress=False,
    )
    assert run.folder == Path("runs/bc-depot-first")
    assert run.page is not None
    assert run.page.is_file()
    assert run.held_out is not None
    assert run.held_out.action_accuracy.mean > run.held_out.baseline["action_accuracy"]
    assert run.summary is None
    with pytest.raises(oryx.OryxError, match="scored in no environment"):
        _ = run.score
    with pytest.raises(oryx.OryxError, match="no environment we know"):
        oryx.evaluate(run, episodes=2)
    with pytest.raises(oryx.OryxError, match="number of actions: 3 against 7"):
        oryx.evaluate(run, "tmaze", episodes=2)
    policy = oryx.load(run, act="greedy")
    assert policy.act({"a": [0], "b": [0]}) == {"a": 0, "b": 1}
    assert policy.act({"a": [1], "b": [1]}) == {"a": 1, "b": 2}
    file = run.folder / "policy" / "last.npz"
    np.testing.assert_array_equal(oryx.load(file, act="greedy").act([[0], [0]]), [0, 1])
    with pytest.warns(OryxWarning, match=r'greedy=True is called act="greedy" now'):
        assert repr(oryx.load(file, greedy=True)).endswith("greedy)")
    assert repr(oryx.load(file, act=0.25)).endswith("0.25)")
    with pytest.raises(oryx.OryxError, match="sampled, greedy or a temperature"):
        oryx.load(file, act="warm")
    with pytest.raises(oryx.OryxError, match="which"):
        oryx.load(run, which="best")


def test_objects_introduce_themselves(tmp_path: Path) -> None:
    dataset = oryx.open("tmaze/planner-mixed")
    assert repr(dataset) == (
        "Dataset('tmaze/planner-mixed', 2 agents, 100,008 steps, 6,017 episodes)"
    )
    fixture = Path(__file__).parent / "fixtures" / "v0.1.0" / "run"
    player = oryx.load(fixture, seed=1, act="greedy")
    assert repr(player) == "Player('oryx', 2 agents, update 4, seed 1 of 2, greedy)"
    score = Score(0.875, 0.5, 1.0, (0.75, 1.0))
    summary = Summary("success rate", 8, {("last", "sampled"): score})
    run = oryx.TrainedRun(tmp_path / "run", summary, None, None)
    assert repr(run) == f"TrainedRun('{tmp_path / 'run'}', success rate 0.875)"
    assert repr(oryx.TrainedRun(tmp_path, None, None, None)).endswith("not scored)")


def test_a_name_with_dashes_is_the_same() -> None:
    one, other = (api._settings(name, {"seeds": 2}) for name in ("iql-cql", "iql_cql"))
    assert one == other
