"""The command line as people meet it: in processes of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import oryx_marl
from oryx_marl.bench import suite
from oryx_marl.bench.runner import Bench
from oryx_marl.cli import main as cli
from oryx_marl.cli.report import Report
from oryx_marl.data import catalog, vault
from oryx_marl.runs import checkpoint
from oryx_marl.runs.folder import Run

TINY = ["--width", "8", "--batch-size", "4", "--sequence-length", "5", "--seeds", "2"]
STEPS = ["--log-every", "5", "--checkpoint-every", "10", "--evaluate-every", "20"]
SCORES = ["--episodes", "8", "--episodes-while-training", "4", "--replays", "2"]
TRAIN = ["train", "oryx", "tmaze/planner-expert", *TINY, *STEPS, *SCORES]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Processes share what they compile."""
    folder = tmp_path_factory.mktemp("compiled")
    return {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        "COLUMNS": "200",
    }


def oryx(arguments: list[str], folder: Path, cache: dict[str, str]) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "oryx_marl", *arguments],
        cwd=folder,
        env=cache,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, cache: dict[str, str]) -> Path:
    """A folder with an unbroken run of 60 updates in `runs/whole`."""
    folder = tmp_path_factory.mktemp("work")
    done = oryx([*TRAIN, "--updates", "60", "--out", "runs/whole"], folder, cache)
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("success rate 0.")
    assert "training: 60 of 60 updates" in done.stderr.splitlines()[-1]
    return folder


def weights(run: Path) -> dict[str, np.ndarray]:
    """Every array of the newest checkpoint, by name."""
    return checkpoint.read(run / "checkpoints").tree


def test_a_run_leaves_everything_behind(finished: Path, cache: dict[str, str]) -> None:
    run = finished / "runs" / "whole"
    for name in ("config.json", "spec.json", "dataset.json", "summary.json", "eval.json"):
        assert json.loads((run / name).read_text())
    evaluations = json.loads((run / "eval.json").read_text())
    seeds = evaluations["tmaze"]["tmaze/planner-expert"]["oryx"]
    assert list(seeds) == ["seed_0", "seed_1"]
    assert [seeds["seed_0"][f"step_{i}"]["step_count"] for i in range(3)] == [20, 40, 60]
    assert len(seeds["seed_1"]["absolute_metrics"]["return"]) == 8
    page = (run / "report.html").read_text()
    assert page.count("<canvas") == 2  # the recorded episodes, and the policy that plays live
    assert 'id="live-data"' in page
    done = oryx(["eval", "runs/whole", "--episodes", "8", "--json"], finished, cache)
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    assert scores["update"] == 60
    assert len(scores["per_seed"]) == 2
    assert list(scores["scores"]) == ["sampled", "greedy"]
    assert scores["scores"]["sampled"]["mean"] == scores["mean"]
    assert scores["act"] == "sampled"


def start(arguments: list[str], folder: Path, cache: dict[str, str]) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "oryx_marl", *arguments],
        cwd=folder,
        env=cache,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_update(run: Path, update: int) -> None:
    """Until the log has reached the update."""
    path = run / "metrics.jsonl"
    for _ in range(3000):
        if path.exists() and f'"update": {update},' in path.read_text():
            return
        time.sleep(0.02)
    raise AssertionError(f"update {update} was never logged")


@pytest.mark.slow
def test_killed_and_resumed_equals_unbroken_bit_by_bit(
    finished: Path, cache: dict[str, str]
) -> None:
    arguments = [*TRAIN, "--updates", "60", "--out", "runs/killed"]
    process = start(arguments, finished, cache)
    wait_for_update(finished / "runs" / "killed", 25)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert checkpoint.updates(finished / "runs" / "killed" / "checkpoints")[-1] < 60
    refused = oryx(arguments, finished, cache)
    assert refused.returncode == 1
    assert "--resume" in refused.stderr
    done = oryx([*arguments, "--resume"], finished, cache)
    assert done.returncode == 0, done.stderr
    whole, killed = (weights(finished / "runs" / name) for name in ("whole", "killed"))
    assert whole.keys() == killed.keys()
    for name in whole:
        np.testing.assert_array_equal(whole[name], killed[name], err_msg=name)
    for name in ("eval.json", "summary.json"):
        first, second = (
            json.loads((finished / "runs" / run / name).read_text()) for run in ("whole", "killed")
        )
        assert drop_times(first) == drop_times(second)


def drop_times(value: object) -> object:
    """JSON without wall-clock times."""
    if isinstance(value, dict):
        return {k: drop_times(v) for k, v in value.items() if k != "elapsed_time"}
    return value


def test_ctrl_c_saves_and_says_how_to_continue(finished: Path, cache: dict[str, str]) -> None:
    arguments = [*TRAIN, "--updates", "100000", "--out", "runs/stopped"]
    process = start(arguments, finished, cache)
    wait_for_update(finished / "runs" / "stopped", 15)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "continue with `oryx train --resume runs/stopped`" in stderr
    run = finished / "runs" / "stopped"
    newest = checkpoint.updates(run / "checkpoints")[-1]
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["update"] == newest


def test_ctrl_c_while_packages_load_is_not_swallowed(tmp_path: Path) -> None:
    """The stand-in for a package is interrupted and goes on, as some do."""
    (tmp_path / "tyro.py").write_text(
        "import os, signal\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = oryx(["data", "list"], tmp_path, {**os.environ, "PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "stopped before anything was begun\n"


def test_ctrl_c_at_any_other_moment_leaves_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After an interrupted compilation the interpreter must not be torn down: that crashes."""

    class Left(BaseException):
        pass

    def interrupt(command: Report) -> None:
        raise KeyboardInterrupt

    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(Report, "run", interrupt)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(Left, match="130"):
        cli.main(["report", "runs/none"])
    assert "with --resume" in capsys.readouterr().err


def test_errors_are_one_message_and_a_code(finished: Path, cache: dict[str, str]) -> None:
    cases = {
        ("data", "info", "tmaze/nothing"): (2, "`oryx data list`"),
        ("train", "oryx", "nowhere"): (2, "nowhere"),
        ("eval", "runs/nothing"): (2, "no run"),
        ("train", "oryx", "tmaze/planner-expert", "--log-every", "7"): (2, "multiple of log_every"),
    }
    for arguments, (code, expected) in cases.items():
        done = oryx(list(arguments), finished, cache)
        assert done.returncode == code, arguments
        assert done.stderr.startswith("error: "), done.stderr
        assert expected in done.stderr
        assert "Traceback" not in done.stderr


ON_EXPERT = "train oryx tmaze/planner-expert"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (f"{ON_EXPERT} --learning-rate -1", "learning_rate must be positive, got -1.0"),
        (f"{ON_EXPERT} --seeds 0", "seeds must be at least 1, got 0"),
        (f"{ON_EXPERT} --seeds 1000000", "seeds must be at most 1,000, got 1,000,000: all seeds"),
        (f"{ON_EXPERT} --first-seed 3000000000", "first_seed must be below 2³¹"),
        ("train sable --env tmaze --seeds 1000000", "seeds must be at most 1,000"),
        ("demo --seeds 1000000", "seeds must be at most 1,000"),
        (f"{ON_EXPERT} --first-seed -1", "first_seed must not be negative, got -1"),
        (f"{ON_EXPERT} --log-every 7", "multiple of log_every (7), got 2000"),
        (f"{ON_EXPERT} --episodes-while-training 0", "episodes_while_training must be at least 1"),
        (f"{ON_EXPERT} --replays -1", "replays must not be negative, got -1"),
        (f"{ON_EXPERT} --preset paper --td-lambda 0.5", "not both; given were td_lambda 0.5"),
        ("train sable --env nowhere", "no environment 'nowhere'; there is: anticoordination ("),
        ("demo --updates 0", "updates must be at least 1, got 0"),
        ("eval runs/none --episodes 0", "episodes must be at least 1, got 0"),
        ("eval runs/none --stream -1", "stream must not be negative, got -1"),
        ("eval runs/none --act -0.5", "act must be sampled, greedy or a temperature from 0"),
        ("eval runs/none --act sampled nan", "or a temperature from 0 (greedy) to 1000, such as"),
        ("eval runs/none --act warm", "{sampled,greedy}|FLOAT"),
        ("eval runs/none --act", "name at least one way of acting"),
        (f"{ON_EXPERT} --act 0.5 -1", "act must be sampled, greedy or a temperature from 0"),
        ("data make tmaze/planner-mixed --act greedy", "--act goes with --env"),
        ("data make tmaze/planner-mixed --rows -5", "rows must be at least 1, got -5"),
        ("data make tmaze/nonsense", "there is no recipe for 'tmaze/nonsense'"),
        ("data make tmaze/planer-mixed", "did you mean tmaze/planner-mixed"),
        ("data make con-5x6x3a/expert", "boards are square"),
        ("bench tmaze --only QMIX", "suite 'tmaze' has no QMIX; it has the algorithms 'Oryx',"),
        ("bench tmaze --first-seed -1", "first_seed must not be negative, got -1"),
        ("bench tmaze --first-seed 995", "seed 1000 is that of tuning"),
        ("bench tmaze --compare Oryx QMIX", "suite 'tmaze' has no QMIX"),
        ("bench tmaze --compare Oryx", "--compare takes two algorithms or more"),
        ("bench tmaze --tune --compare Oryx BC", "give it without --tune"),
        ("bench published --env chess", "environment 'chess'"),
    ],
)
def test_bad_values_are_named_and_end_with_2(
    arguments: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments.split())
    assert stop.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("only", "expected", "unexpected"),
    [
        ([], "nothing of it is finished yet", "records:"),
        (["BC"], "not finished: BC on ", "Oryx on "),
    ],
)
def test_a_table_of_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    only: list[str],
    expected: str,
    unexpected: str,
) -> None:
    cli.main(["bench", "tmaze", "--table", "--out", str(tmp_path), "--only", *only])
    shown = capsys.readouterr().out
    assert expected in shown
    assert unexpected not in shown
    assert f"finished yet in {tmp_path}" in shown.replace("\n", "")


def test_two_algorithms_are_compared_by_their_records(capsys: pytest.CaptureFixture[str]) -> None:
    shipped = Path(__file__).parents[2] / "results" / "bench" / "connector"
    cli.main(["bench", "connector", "--compare", "Oryx", "BC", "--out", str(shipped)])
    shown = capsys.readouterr().out
    assert "+0.150 [+0.106, +0.195]  3      significant" in shown
    assert "MAICQ" not in shown
    assert "not finished" not in shown


def test_cells_that_are_not_run_again_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Bench, "run", lambda self, only: None)
    monkeypatch.setattr(Bench, "records", lambda self: {})
    chosen = suite.load("tmaze").choose(("BC",))
    monkeypatch.setattr(Bench, "missing", lambda self: chosen[1:])
    cli.main(["bench", "tmaze", "--out", str(tmp_path), "--only", "BC"])
    told = capsys.readouterr().err
    assert f"1 of {len(chosen)} cells are recorded in {tmp_path} and not run again" in told
    assert "--out FOLDER" in told


def test_unwritable_and_unfitting(finished: Path, cache: dict[str, str]) -> None:
    (finished / "a-file").write_text("")
    done = oryx([*TRAIN, "--updates", "5", "--out", "a-file/run"], finished, cache)
    assert done.returncode == 1
    assert "the run a-file/run could not be written: " in done.stderr
    assert "Not a directory" in done.stderr
    # The policy of `whole` was made for seven actions; its spec now says eight.
    shutil.copytree(finished / "runs" / "whole", finished / "runs" / "other")
    path = finished / "runs" / "other" / "spec.json"
    spec = json.loads(path.read_text())
    spec["action"]["size"] = 8
    path.write_text(json.dumps(spec))
    done = oryx(["eval", "runs/other"], finished, cache)
    assert done.returncode == 1
    assert "spec.json is damaged: its checksum differs" in done.stderr


def test_faulty_data_is_refused_or_trained_around(finished: Path, cache: dict[str, str]) -> None:
    clean = catalog.open("tmaze/planner-expert")
    actions = clean.actions.copy()
    actions[1234, 1] = np.flatnonzero(~clean.action_mask[1234, 1])[0]
    faulty = type(clean)(**{**vars(clean), "actions": actions, "name": "faulty"})
    vault.write(faulty, finished / "faulty.vlt" / "one")
    episode, step = clean.locate(1234)
    arguments = ["train", "oryx", "faulty.vlt/one", *TINY, *STEPS, *SCORES, "--updates", "5"]
    done = oryx([*arguments, "--out", "runs/faulty"], finished, cache)
    assert done.returncode == 1
    assert f"episode {episode}, step {step}, agent agent_1" in done.stderr
    assert "--drop-invalid" in done.stderr
    done = oryx([*arguments, "--out", "runs/faulty", "--drop-invalid"], finished, cache)
    assert done.returncode == 0, done.stderr
    assert "0 are left out and 1 more are left out of the policy loss alone" in done.stderr


def test_data_commands(finished: Path, cache: dict[str, str]) -> None:
    done = oryx(["data", "list", "--json"], finished, cache)
    names = {entry["name"] for entry in json.loads(done.stdout)}
    assert {"tmaze/planner-expert", "tmaze/planner-mixed"} <= names
    done = oryx(["data", "info", "tmaze/planner-mixed", "--json"], finished, cache)
    found = json.loads(done.stdout)
    assert 0.3 < found["returns"]["mean"] < 0.5
    done = oryx(["data", "make", "tmaze/planner-mixed", "--rows", "500"], finished, cache)
    assert done.returncode == 0, done.stderr
    assert (finished / "datasets" / "tmaze.vlt" / "planner-mixed" / "metadata.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "result"),
    [("tmaze", "success rate 0.00"), ("con-5x5x3a", "return "), ("smacv2_5_units", "return ")],
)
def test_sable_learns_online_and_resumes(
    env: str, result: str, tmp_path: Path, cache: dict[str, str]
) -> None:
    tiny = ["--width", "8", "--num-envs", "4", "--rollout-length", "8", "--minibatches", "2"]
    often = ["--log-every", "2", "--checkpoint-every", "2", "--evaluate-every", "2"]
    command = ["train", "sable", "--env", env, *tiny, *often, *SCORES]
    begun = oryx([*command, "--steps", "64"], tmp_path, cache)
    assert begun.returncode == 0, begun.stderr
    assert begun.stdout.strip().splitlines()[-1].startswith(result)
    again = oryx([*command, "--steps", "128"], tmp_path, cache)
    assert again.returncode == 1
    assert "--resume" in again.stderr
    resumed = oryx([*command, "--steps", "128", "--resume"], tmp_path, cache)
    assert resumed.returncode == 0, resumed.stderr
    run = tmp_path / "runs" / f"sable-{env}"
    assert Run(run).newest_update() == 4
    page = (run / "report.html").read_text()
    assert f"learned in\n<b>{env}</b>" in page
    assert f"oryx train sable --env {env} --steps 128 --seeds 1 --log-every 2" in page
    assert "dataset is not described" not in page
    scored = oryx(["eval", str(run), "--episodes", "4", "--json"], tmp_path, cache)
    assert json.loads(scored.stdout)["update"] == 4


def test_expert_data_is_made_in_seconds(tmp_path: Path, cache: dict[str, str]) -> None:
    done = oryx(["data", "make", "tmaze/expert", "--rows", "500"], tmp_path, cache)
    assert done.returncode == 0, done.stderr
    assert "of the episodes were discarded" in done.stdout
    made = catalog.open(tmp_path / "datasets" / "tmaze.vlt" / "expert")
    assert 500 <= made.num_rows < 520
    assert (made.episode_returns == 1).all()
    assert made.origin["policies"][0]["steps"] == 20_004_864


def test_the_papers_settings_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "oryx", "tmaze/replay-small", "--preset", "paper"]
    parsed = cli.read(arguments)
    config = parsed._choose(catalog.open("tmaze/replay-small"))
    assert (config.network.decay_scale, config.td_lambda, config.act_with_ema) == (0.5, 0.0, False)
    for algorithm, is_offered in {"oryx": True, "bc": False}.items():
        with pytest.raises(SystemExit):
            cli.main(["train", algorithm, "--help"])
        assert ("--preset" in capsys.readouterr().out) == is_offered


def test_published_scores(tmp_path: Path, cache: dict[str, str]) -> None:
    done = oryx(["bench", "published", "--env", "tmaze", "--format", "csv"], tmp_path, cache)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("environment,dataset,I-ICQ mean")


def test_all_published_scores_are_listed_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["bench", "published"])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) < 100
    assert "tmaze: 12 scores\n  dataset    replay, expert\n" in text
    assert "--format csv" in text


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["--version"])
    assert capsys.readouterr().out.strip() == oryx_marl.__version__


def test_a_run_that_is_not_there_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "none"
    with pytest.raises(SystemExit) as stop:
        cli.main([*TRAIN, "--out", str(out), "--resume"])
    assert stop.value.code == 2
    assert f"there is no run at {out} to resume" in capsys.readouterr().err.replace("\n", " ")
    assert not out.exists()
