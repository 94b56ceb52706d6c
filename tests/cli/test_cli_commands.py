"""Commands import only what they need, and each of them is found by its name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from oryx_marl import registry
from oryx_marl.cli import commands
from oryx_marl.cli import main as cli

TELL = """
import sys
from oryx_marl.__main__ import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
finally:
    print(*sorted({name.split(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def imported_by(arguments: str) -> set[str]:
    """Packages that a command has imported when it ends, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", TELL, *arguments.split()],
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        ("--help", {"jax", "numpy", "tensorstore"}),
        ("--version", {"jax", "numpy", "tensorstore"}),
        ("train --help", {"jax", "numpy"}),
        ("data --help", {"jax", "numpy"}),
        ("bench --help", {"jax", "numpy"}),
        ("data list", {"jax", "equinox", "optax", "orbax"}),
        ("data list --json", {"jax", "equinox", "optax", "orbax"}),
        ("data list --remote", {"jax", "equinox", "optax", "orbax"}),
        ("data info tmaze/planner-mixed", {"equinox", "optax", "orbax"}),
    ],
)
def test_what_is_not_needed_is_not_imported(arguments: str, without: set[str]) -> None:
    assert imported_by(arguments) & without == set()


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, oryx_marl; print('jax' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_every_command_can_be_loaded() -> None:
    for command in (*commands.ALONE.values(), *commands.DATA.values(), commands.PUBLISHED):
        assert callable(command.load().run)
        assert command.about().endswith(".")


def test_algorithms_are_listed_with_their_summary(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name in registry.names("algorithms"):
        assert registry.describe("algorithms", name)[:40] in shown


@pytest.mark.parametrize(
    "command",
    [
        "data info tmaze/planer",
        "data check tmaze/planer",
        "data plot tmaze/planer",
        "data make tmaze/planer",
        "data export tmaze/planer out.parquet",
        "data subsample tmaze/planer depot/few --rows 5",
        "train oryx tmaze/planer",
        "train orix tmaze/planner-expert",
        "train sable --env tmase",
        "train oryx tmaze/planner-expert --env tmase",
        "train oryx tmaze/planner-expert --env no_such_module:make",
        "demo --data tmaze/planer",
        "eval no-run",
        "report no-run",
        "trust no-run",
        "bench tmase",
        "train --resume no-run",
        "data list2",
    ],
)
def test_the_same_typo_ends_with_2_in_every_command(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(command.split())
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    if "tmaze/planer" in command:
        assert "tmaze/planner-mixed" in told or "tmaze/planner-expert" in told
        assert "`oryx data list`" in told
        assert told.count("tmaze/") <= 4  # the name itself and the closest three
        assert "con-5x5x3a" not in told


@pytest.mark.parametrize("name", ["iql_cql", "iql-cql"])
def test_names_with_a_dash_and_with_an_underscore(name: str) -> None:
    command = cli.read(["train", name, "tmaze/planner-expert", "--seeds", "2"])
    assert (command.algorithm, command.train.seeds) == ("iql_cql", 2)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("train orix depot/d", "there is no algorithm 'orix'; did you mean oryx?"),
        ("train iql_cq depot/d --resume", "there is no algorithm 'iql_cq'; did you mean iql-cql?"),
        ("bench tmase", "there is no suite 'tmase'; did you mean tmaze?"),
        ("data imprt log.csv a/b", "there is no data command 'imprt'; did you mean import?"),
        ("trian oryx", "there is no command 'trian'; did you mean train?"),
    ],
)
def test_a_name_close_to_a_typo_is_offered(
    command: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(command.split())
    assert stop.value.code == 2
    assert expected in capsys.readouterr().err


def test_the_help_of_train_says_how_a_run_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "oryx train --resume RUN [--updates N]" in shown


def show_help(capsys: pytest.CaptureFixture[str], command: str) -> str:
    with pytest.raises(SystemExit):
        cli.main([*command.split(), "--help"])
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_the_help_of_a_suite_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """--quick was offered where there is no small version."""
    shown = show_help(capsys, "bench tmaze-paper")
    assert "The paper's T-Maze experiment from the beginning" in shown
    assert "4 cells (one algorithm on one dataset), 10 seeds, 100,000 updates" in shown
    assert "Sable: 4 seeds, 20,000,000 environment steps" in shown
    assert "--quick" not in shown
    assert "--quick" in show_help(capsys, "bench tmaze")
    assert cli.read(["bench", "tmaze", "--quick"]).quick
    assert not cli.read(["bench", "tmaze-paper"]).quick


def test_flags_that_may_be_left_out_are_shown_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--out PATH Folder for the run" in show_help(capsys, "train oryx")
    shown = show_help(capsys, "train --resume")
    assert "--updates INT" in shown
    assert "(default: as before)" in shown
    command = cli.read(["data", "subsample", "a/b", "a/c", "--rows", "10"])
    assert (command.rows, command.like, command.quantiles) == (10, None, None)


COMMANDS = (
    "train oryx|train sable|eval|report|trust|tune|demo|bench tmaze|bench published|data make|"
    "data check|data plot|data info|data download|data import|data export|data subsample|data list"
)


@pytest.mark.parametrize("command", COMMANDS.split("|"))
def test_help_shows_one_default_of_each_flag(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = show_help(capsys, command)
    assert "None" not in shown
    assert not re.search(r"\([Dd]efault:[^()]*\)\.? \(default", shown)
    if command == "train oryx":
        assert "Folder for the run. (default: runs/<algorithm>-<dataset>)" in shown
