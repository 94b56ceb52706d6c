"""Commands from TOML files and from runs: the same as their flags, and refused in one sentence."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oryx_marl import registry
from oryx_marl.cli import commands, config_file, flags
from oryx_marl.cli import main as cli
from oryx_marl.errors import OryxError
from oryx_marl.runs import checkpoint
from oryx_marl.runs.documents import RunConfig
from oryx_marl.runs.folder import Run

WORDS = {
    "completion": "bash",
    "demo": "",
    "eval": "runs/mine",
    "export": "runs/mine",
    "replay": "runs/mine --gif",
    "report": "runs/mine",
    "serve": "runs/mine --port 9000",
    "trust": "runs/mine runs/other",
    "tune": "tmaze/planner-mixed",
    "data list": "",
    "data info": "tmaze/planner-mixed",
    "data plot": "tmaze/planner-mixed tmaze/planner-expert",
    "data make": "tmaze/replay",
    "data check": "tmaze/planner-mixed",
    "data download": "tmaze/replay",
    "data import": "log.csv depot/one --observation x 'y z' --action-low -1.5 0.5 --sort",
    "data export": "tmaze/planner-mixed all.parquet",
    "data subsample": "tmaze/planner-mixed tmaze/few --quantiles 0.25 0.75",
    "bench published": "--format csv",
    **{f"train {name}": "tmaze/planner-mixed" for name in registry.names("algorithms")},
    "train sable": "--env tmaze",
    **{f"bench {name}": "--table --first-seed 3" for name in registry.names("bench.suites")},
}
"""Every command, with what it cannot do without, and some more."""


def plain(command: Any) -> tuple[str, dict[str, Any]]:
    """A command to be compared: classes of algorithms are made anew each time."""
    return type(command).__name__, dataclasses.asdict(command)


def test_no_command_is_forgotten() -> None:
    named = {command.split()[0] for command in WORDS}
    assert named == {*commands.ORDER}
    for group in commands.GROUPS:
        members = {command.split()[1] for command in WORDS if command.startswith(f"{group} ")}
        assert members == {*commands._names(group)}


@pytest.mark.parametrize("command", WORDS)
def test_what_is_printed_says_the_same(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(f"{command} {WORDS[command]}")
    cli.main([*words, "--print-config"])
    file = tmp_path / "run.toml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert plain(cli.read(["--config", str(file)])) == plain(cli.read(words))
    assert plain(cli.read([*command.split(), f"--config={file}"])) == plain(cli.read(words))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.toml"
    path.write_text(
        """
command = "train oryx"
dataset = "tmaze/planner-mixed"
updates = 1e3                # a whole number all the same
batch-size = 16
learning_rate = 1
act = ["sampled", 0.25]
log = "csv"
drop_invalid = true
memory = false
out = "runs/ä = b"
"""
    )
    return path


def read(words: str) -> Any:
    return cli.read(shlex.split(words))


@pytest.mark.parametrize(
    "words",
    [
        "--config run.toml",
        "train --config run.toml",
        "--config=run.toml train oryx",
        "train oryx tmaze/planner-mixed --config run.toml",
        "train oryx --config run.toml tmaze/planner-mixed",
    ],
)
def test_a_file_stands_for_flags(file: Path, words: str) -> None:
    found = read(words)
    assert (found.algorithm, found.dataset) == ("oryx", "tmaze/planner-mixed")
    assert (found.train.updates, found.config.batch_size) == (1000, 16)
    assert found.config.learning_rate == 1.0
    assert (found.evaluation.act, found.log) == (("sampled", 0.25), ("csv",))
    assert (found.drop_invalid, found.config.memory) == (True, False)
    assert found.out == Path("runs/ä = b")


def test_the_command_line_counts_more(file: Path) -> None:
    more = "--updates 7 --batch_size=8 --no-drop-invalid --memory --act greedy --log wandb csv"
    found = read(f"train oryx --config run.toml {more} --out x")
    assert (found.train.updates, found.config.batch_size) == (7, 8)
    assert (found.drop_invalid, found.config.memory) == (False, True)
    assert (found.evaluation.act, found.log, found.out) == (
        ("greedy",),
        ("wandb", "csv"),
        Path("x"),
    )
    assert found.dataset == "tmaze/planner-mixed"
    assert found.config.learning_rate == 1.0
    assert read("train --config run.toml --act greedy").evaluation.act == ("greedy",)
    other = read("train oryx --updates 3 tmaze/planner-expert --config run.toml")
    assert (other.dataset, other.train.updates) == ("tmaze/planner-expert", 3)


def test_words_without_a_flag_are_filled_up(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('dataset = "a/b"\nfile = "all.parquet"\nto = "minari"\n')
    found = cli.read(["data", "export", "--config", str(path)])
    assert (found.dataset, found.file) == ("a/b", Path("all.parquet"))
    found = cli.read(["data", "export", "c/d", "--config", str(path), "--to", "vault"])
    assert (found.dataset, found.file, found.to) == ("c/d", Path("all.parquet"), "vault")
    path.write_text('run = ["one", "two"]\n')  # as the help calls it
    assert cli.read(["trust", "--config", str(path)]).runs == (Path("one"), Path("two"))
    path.write_text('runs = ["one", "two"]\n')
    assert cli.read(["trust", "three", "--config", str(path)]).runs == (Path("three"),)
    path.write_text("quantiles = [0.5, 1]\n")
    found = cli.read(["data", "subsample", "a/b", "a/c", "--config", str(path)])
    assert found.quantiles == (0.5, 1.0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("updats = 3", "`oryx train oryx` has no flag 'updats'; did you mean updates?"),
        ('"upd\\u001b[31mats" = 3', "has no flag 'upd\\x1b[31mats'; did you mean updates?"),
        ("comand = 'x'", "has no flag 'comand'; did you mean command?"),
        ("zzz = 3", "has no flag 'zzz'; see oryx train oryx -h"),
        ("updates = 'many'", "updates must be a whole number, got 'many'"),
        ("updates = 2.5", "updates must be a whole number, got 2.5"),
        ("updates = true", "updates must be a whole number, got True"),
        ("updates = [1]", "updates must be a whole number, got [1]"),
        ("updates = 2026-01-02", "updates must be a whole number, got datetime.date(2026, 1, 2)"),
        ("memory = 'yes'", "memory must be true or false, got 'yes'"),
        ("memory = 1", "memory must be true or false, got 1"),
        ("discount = 'high'", "discount must be a number, got 'high'"),
        ("out = 3", "out must be a path, got 3"),
        ("objective = 'icqq'", "objective must be one of icq, bc, q_learning, got 'icqq'"),
        ("log = ['csv', 'paper']", "log must be a list, each one of tensorboard, wandb, csv, got"),
        ("log = [['csv']]", "got a list of lists or tables"),
        ("[train]\nupdates = 3", "has no flag 'train'; "),
        ("[updates]\nx = 3", "updates must be a whole number, got a table"),
        ('out = "a\\u0000b"', "out has a NUL character in 'a\\x00b'"),
        ("dataset = '--help'", "dataset is '--help', which looks like a flag"),
        ("batch_size = 1\nbatch-size = 2", "gives 'batch-size' twice"),
        ("updates = 1\nupdates = 2", "is not TOML: Cannot overwrite a value"),
        ("updates", "is not TOML: Expected '=' after a key"),
        ("updates = " + "9" * 5000, "is not TOML: "),
        ("plugin = ['a.py']", "plug-ins are code, so they are named on the command line"),
        ("config = 'b.toml'", "a file names no other file"),
        ("debug = true", "say --debug on the command line"),
        ("command = 'train --x'", "the command has a flag, '--x'"),
        ("command = 'train oryx a/b'", "it names a command alone"),
        ("command = ['train']", 'command must be a text such as "train oryx"'),
        ("a = " + "[" * 30_000, "nested too deep to be read"),
        ("a = " + "{a=" * 9_000, "nested too deep to be read"),
        ("a" + ".a" * 10_000 + " = 1", "has no flag 'a'"),
        ("# " + "x" * 70_000, "more than the 32,768 that are allowed"),
        ("updates = 1\0", "is not TOML: "),
    ],
)
def test_what_is_wrong_with_a_file(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.toml").write_text(text)
    _require_refused(["train", "oryx", "--config", str(tmp_path / "bad.toml")], told, capsys)


def _require_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    shown = capsys.readouterr()
    assert told in shown.err
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("error: ")
    assert not shown.out
    assert stop.value.code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--config", "--config needs a TOML file, or the folder of a run"),
        ("demo --config=", "--config needs a TOML file"),
        ("demo --config none.toml", "there is no file none.toml to take settings from"),
        ("demo --config a.toml --config b.toml", "give --config once, not 2 times"),
        ("--config nothing.toml", 'names no command; add one: command = "train oryx"'),
        ("--config latin.toml", "latin.toml is not TOML: 'utf-8' codec can't decode"),
        ("train --config typo.toml", "there is no algorithm 'orix'; did you mean oryx?"),
        ("--config half.toml", "name the algorithm: "),
        ("demo --config /dev/zero", "there is no file /dev/zero"),
        ("train --config folder", "config.json is missing, so folder is not the folder of a run"),
        ("data --config typo.toml", "is for `oryx train orix`, not `oryx data`"),
        ("train --print-config --resume folder", "--print-config needs a whole command"),
    ],
)
def test_what_is_wrong_with_a_command(
    words: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing.toml").touch()
    (tmp_path / "latin.toml").write_bytes("out = 'ä'".encode("latin-1"))
    (tmp_path / "typo.toml").write_text('command = "train orix"')
    (tmp_path / "half.toml").write_text('command = "train"')
    (tmp_path / "folder").mkdir()
    _require_refused(words.split(), told, capsys)


BC = (
    "--batch-size 4 --sequence-length 4 --linear-width 8 --recurrent-width 8 --seeds 2 --updates 4 "
    "--log-every 2 --evaluate-every 4 --checkpoint-every 2 --episodes 4 --first-seed 3 "
    "--episodes-while-training 4 --replays 1 --act 0.5 greedy --learning-rate 0.01 --log csv"
)


def test_a_run_begins_another_that_is_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.main(["train", "bc", "tmaze/planner-expert", *BC.split(), "--out", "one"])
    cli.main(["train", "--config", "one", "--out", "two"])
    before, after = (checkpoint.read(Path(name) / "checkpoints").tree for name in ("one", "two"))
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name], err_msg=name)
    one, two = (Run(Path(name)).read(RunConfig) for name in ("one", "two"))
    assert one == two
    assert one.seeds == (3, 4)

    capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(["train", "--config", "one/config.json", "--out", "two"])
    assert "two holds a run already" in capsys.readouterr().err
    longer = cli.read(["train", "--config", "one/config.json", "--updates", "6"])
    assert (longer.train.updates, longer.train.seeds) == (6, 2)
    with pytest.raises(OryxError, match="settings are those of `oryx train`, not of `oryx eval`"):
        cli.read(["eval", "--config", "one"])
    with pytest.raises(OryxError, match="a run that is continued has its settings"):
        cli.read(["train", "--config", "one", "--resume"])


def test_an_online_run_begins_another(tmp_path: Path) -> None:
    """Its steps are counted in updates in its folder."""
    fixture = Path(__file__).parent.parent / "fixtures" / "v0.1.0" / "run-online"
    config = Run(fixture).read(RunConfig)
    found = cli.read(["train", "--config", str(fixture), "--out", str(tmp_path / "a")])
    assert (found.algorithm, found.env) == ("sable", config.dataset)
    assert found.train.steps == config.updates * config.steps_per_update


def test_code_that_a_run_names_is_not_imported(tmp_path: Path) -> None:
    fixture = Path(__file__).parent.parent / "fixtures" / "v0.1.0" / "run"
    config = Run(fixture).read(RunConfig)
    named = {"data": None, "env": "os:getcwd", "plugins": []}
    rest = {**config.rest, "environment": "mine", "named": named}
    Run(tmp_path).write(dataclasses.replace(config, rest=rest))
    with pytest.raises(OryxError, match=r"code is never imported because a run says so"):
        cli.read(["train", "--config", str(tmp_path)])
    found = cli.read(["train", "--config", str(tmp_path), "--env", "tmaze", "--out", "x"])
    assert found.env == "tmaze"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('a"b\\c\n\x7f\x1bä', '"a\\"b\\\\c\\n\\u007f\\u001bä"'),
        (Path("a b"), '"a b"'),
        (1e-7, "1e-07"),
        (float("inf"), "inf"),
        ((True, 2, "x"), '[true, 2, "x"]'),
    ],
)
def test_values_are_written_as_toml(value: Any, text: str) -> None:
    assert flags.to_toml({"a": value, "b": None}) == f"a = {text}\n"


def test_a_name_that_is_not_utf_8_cannot_be_written() -> None:
    with pytest.raises(OryxError, match="is not UTF-8, so that no TOML file can hold it"):
        flags.to_toml({"a": "x\udcff"})


def test_words_that_name_a_command() -> None:
    assert config_file.command_words(["train", "--x", "oryx"]) == ["train"]
    assert config_file.command_words(["train", "oryx", "a/b"]) == ["train", "oryx"]
    assert config_file.command_words(["eval", "run"]) == ["eval"]
    assert config_file.command_words(["--config"]) == []
