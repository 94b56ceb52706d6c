"""A run goes on with the settings that it has, in all ways in which it can be asked for."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugins import LINE

import oryx_marl
from oryx_marl import registry
from oryx_marl.cli import main as cli
from oryx_marl.data import catalog, vault
from oryx_marl.runs.documents import MetricRow, RunConfig, Summary
from oryx_marl.runs.folder import Run, _complete

FIXTURES = Path(__file__).parent.parent / "fixtures" / "v0.1.0"
BC = (
    "--batch-size 4 --sequence-length 4 --linear-width 8 --recurrent-width 8 --seeds 2 --updates 4 "
    "--log-every 2 --evaluate-every 4 --checkpoint-every 2 --episodes 4 "
    "--episodes-while-training 4 --replays 1"
)

RESUME = ["train", "oryx", "tmaze/fixture", "--resume", "--out", "run"]


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the runs of version 0.1.0, whose data are found by name."""
    monkeypatch.setenv("ORYX_DATA", str(FIXTURES))
    for name in ("run", "run-online"):
        shutil.copytree(FIXTURES / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def oryx(command: str, expected: int = 0) -> None:
    """Runs a command and requires how it ends."""
    try:
        cli.main(command.split())
        code: Any = 0
    except SystemExit as stop:
        code = stop.code
    assert code == expected, command


@pytest.mark.slow
def test_a_run_of_version_0_1_0_goes_on_by_its_folder_alone(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Run(old / "run").read(RunConfig)
    oryx("train --resume run --updates 6 --episodes 3")
    run = Run(old / "run")
    after = run.read(RunConfig)
    assert (after.updates, run.newest_update()) == (6, 6)
    assert after.config == _complete(before).config  # settings that came later are added
    assert (after.seeds, after.rest["log_every"]) == (before.seeds, before.rest["log_every"])
    later = {"act": None, "trust": True}
    assert after.rest["evaluation"] == {**before.rest["evaluation"], **later, "episodes": 3}
    assert run.read(Summary).episodes == 3
    assert [row.update for row in run.rows(MetricRow)] == [2, 4, 6]
    assert capsys.readouterr().out.strip().splitlines()[-1].startswith("success rate ")


@pytest.mark.slow
def test_an_online_run_of_version_0_1_0_goes_on(old: Path) -> None:
    """From Python, and its steps may grow."""
    found = oryx_marl.resume("run-online", steps=5 * 192, progress=False)
    assert found.folder == Path("run-online")
    assert Run(old / "run-online").newest_update() == 5
    assert Run(old / "run-online").read(RunConfig).rest["log_every"] == 2


@pytest.mark.parametrize(
    ("command", "code", "expected"),
    [
        ("train --resume nowhere", 2, "there is no run at nowhere to resume"),
        ("train --resume run --updates 3", 1, "is at update 4 already, past 3"),
        ("train --resume run --steps 900", 1, "steps for an online learner alone"),
        ("train --resume run --width 3", 2, "Unrecognized options: --width"),
        ("train --resume", 2, "RUN"),
        ("train bc tmaze/fixture --resume --out run", 2, "with the algorithm oryx, not bc"),
        ("train oryx tmaze/fixture --resume --out run --width 8", 1, "width 16, not 8"),
        ("train oryx tmaze/fixture --resume --out run --seeds 3", 1, "seeds [0, 1], not [0, 1, 2]"),
        ("train oryx tmaze/fixture --resume --out run --hold-out 0.2", 1, "hold_out None, not 0.2"),
        ("train oryx tmaze/fixture --resume --out=nowhere", 2, "there is no run at nowhere"),
        ("train oryx tmaze/fixture --resume", 2, "no run at runs/oryx-tmaze-fixture"),
        ("train oryx tmaze/planner-expert --resume --out run", 1, "dataset tmaze/fixture, not"),
        ("train oryx run", 2, "continue it with `oryx train --resume run`"),
    ],
)
def test_what_does_not_fit_is_refused(
    old: Path, capsys: pytest.CaptureFixture[str], command: str, code: int, expected: str
) -> None:
    oryx(command, code)
    assert expected in capsys.readouterr().err
    assert Run(old / "run").newest_update() == 4


def test_help_of_a_run_that_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    oryx("train --resume --help")
    shown = capsys.readouterr().out
    assert "Continue a run with its settings" in shown
    assert "--width" not in shown
    oryx("train oryx --resume --help")
    assert "--width" in capsys.readouterr().out


def test_long_lists_are_not_printed(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    oryx("train oryx tmaze/fixture --resume --out run --seeds 900", 1)
    told = capsys.readouterr().err
    assert "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] and 890 more" in told
    assert len(told) < 500


def test_the_old_form_needs_no_settings_either(old: Path) -> None:
    command = cli.read(
        ["train", "oryx", "tmaze/fixture", "--resume", "--out", "run", "--updates", "8"]
    )
    assert command.config.network.width == 16
    assert (command.train.seeds, command.train.updates, command.train.log_every) == (2, 8, 2)
    assert command.evaluation.episodes == 8
    named = cli.read(["train", "oryx", "--resume", "--out", "run"])
    assert (named.dataset, named.train.updates) == ("tmaze/fixture", 4)
    online = cli.read(["train", "sable", "--env", "tmaze", "--resume", "--out", "run-online"])
    assert (online.train.steps, online.config.num_envs) == (4 * 192, 8)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run on a dataset that has no name, scored in an environment of a file."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "walk.py").write_text(LINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_added", {})
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        mine = replace(catalog.open("tmaze/planner-expert"), name="mine/unnamed")
        vault.write(mine, folder / "mine.vlt" / "one")
        oryx(f"train bc mine.vlt/one --env tmaze {BC} --out run")
    return folder


def test_what_the_user_named_is_found_again(walked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(walked)
    config = json.loads((walked / "run" / "config.json").read_text())
    assert config["named"] == {"data": "mine.vlt/one", "env": "tmaze", "plugins": []}
    again = shutil.copytree(walked / "run", walked / "again")
    found = oryx_marl.resume(again, updates=6, progress=False)
    assert Run(found.folder).newest_update() == 6
    (walked / "elsewhere").mkdir()
    monkeypatch.chdir(walked / "elsewhere")
    with pytest.raises(oryx_marl.OryxError, match=r"'mine.vlt/one', is not found.*--data"):
        oryx_marl.resume(again)


def test_code_is_never_imported_because_a_run_says_so(
    walked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(walked)
    run = Run(shutil.copytree(walked / "run", walked / "custom"))
    config = run.read(RunConfig)
    named = {"data": "mine.vlt/one", "env": "walk:make", "plugins": ["walk.py"]}
    config.rest.update(environment="walk", named=named)
    run.write(config)
    with pytest.raises(oryx_marl.OryxError) as refused:
        oryx_marl.resume(run.folder)
    told = str(refused.value)
    assert "code is never imported because a run says so" in told
    assert "--env walk:make (env= in Python)" in told
    assert "--plugin walk.py" in told
