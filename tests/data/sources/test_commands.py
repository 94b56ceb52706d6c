"""`oryx data import | export | subsample` as people meet them."""

import subprocess
import sys
from pathlib import Path

import pytest

from oryx_marl.cli import main as cli
from oryx_marl.data import catalog

LOG = "episode,step,agent,obs_0,action,reward\n1,0,a,1,0,1\n1,1,a,2,1,1\n2,0,a,3,1,0\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORYX_DATA", raising=False)
    Path("log.csv").write_text(LOG)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        cli.main(arguments)
    return capsys.readouterr().err.replace("\n", " ")


def test_import(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["data", "import", "log.csv", "depot/one"])
    out = capsys.readouterr().out
    assert "imported 3 steps of 1 agents into datasets/depot.vlt/one" in out
    assert "2 actions, 1 features, shared rewards" in out
    dataset = catalog.open("depot/one")
    assert (dataset.name, dataset.num_episodes) == ("depot/one", 2)
    assert dataset.origin["imported_from"] == "log.csv"
    assert dataset.origin["kind"] == "table"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "nothing.csv", "a/b"], "there is no file or folder nothing.csv"),
        (["import", "log.csv", "plain"], "'plain' is no name for a dataset"),
        (["import", "log.csv", "../a"], "is no name for a dataset"),
        (["import", "log.csv", "tmaze/planner-mixed"], "is a dataset of the package"),
        (["import", "log.csv", "a/b", "--kind", "zip"], "no kind of source 'zip'"),
        (["import", "log.csv", "a/b", "--mapping", "none.toml"], "none.toml cannot be read"),
        (["import", "log.csv", "a/b", "--kind", "minari"], "log.csv cannot be read"),
        (["export", "tmaze/planner-mixed", "out"], "--to parquet, minari or vault"),
        (["export", "a/b", "out.parquet"], "there is no dataset 'a/b'"),
        (["export", "tmaze/planner-mixed", "log.csv", "--to", "minari"], "is there already"),
        (["subsample", "tmaze/planner-mixed", "a/b"], "say what to keep"),
        (["subsample", "tmaze/planner-mixed", "a/b", "--rows", "1", "--bins", "0"], "bins must"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(["data", *arguments], capsys)
    assert sorted(path.name for path in Path().iterdir()) in (["log.csv"], ["datasets", "log.csv"])
    assert not list(Path().glob("datasets/*/*"))


def test_flags_and_a_mapping_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.toml").write_text('action = "action"\n')
    cli.main(["data", "import", "log.csv", "a/b", "--mapping", "m.toml"])
    both = ["data", "import", "log.csv", "a/c", "--mapping", "m.toml", "--action", "action"]
    assert "not both" in refused(both, capsys)


def test_a_failed_export_leaves_nothing(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    cli.main(["data", "import", "log.csv", "a/b"])
    monkeypatch.setattr("pathlib.Path.rename", lambda *_: (_ for _ in ()).throw(OSError("full")))
    for path, to in (("x.parquet", "parquet"), ("x", "minari")):
        message = refused(["data", "export", "a/b", path, "--to", to], capsys)
        assert "could not be written: full. Is there space" in message
    assert sorted(path.name for path in Path().iterdir()) == ["datasets", "log.csv"]


def test_optional_packages_are_not_imported_by_the_library() -> None:
    program = (
        "import sys, oryx_marl.cli, oryx_marl.data.sources.base as base; base.names(); "
        "print([name for name in ('pyarrow', 'h5py', 'minari', 'pettingzoo', 'gymnasium') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
