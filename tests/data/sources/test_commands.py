"""`oryx data import | export | subsample` as people meet them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from foreign_files import pymarl_batch

import oryx_marl as oryx
from oryx_marl.cli import main as cli
from oryx_marl.data import catalog
from oryx_marl.errors import OryxWarning

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
    assert "check it: oryx data check depot/one\n" in out
    dataset = catalog.open("depot/one")
    assert (dataset.name, dataset.num_episodes) == ("depot/one", 2)
    assert dataset.origin["imported_from"] == "log.csv"
    assert dataset.origin["kind"] == "table"


def test_ends_by_the_clock_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    """A column `done` may hold time-outs: import and check name the flags that say so."""
    steps = [(episode, step, agent) for episode in range(6) for step in (0, 1) for agent in "ab"]
    rows = [f"{e},{t},{a},{e + t},{(e + t) % 2},{ord(a) - 97},{t}" for e, t, a in steps]
    Path("ends.csv").write_text("\n".join([f"{LOG.splitlines()[0]},done", *rows]) + "\n")
    cli.main(["data", "import", "ends.csv", "depot/ends"])
    out = capsys.readouterr().out
    assert "individual rewards (not shared)" in out
    assert "If it marks time limits, say --truncated done" in out
    cli.main(["data", "check", "depot/ends"])
    command = "import again with `--truncated done`, or `--time-limit 2` if only some ends are"
    assert command in capsys.readouterr().out
    for name, flags in {"cut": ["--truncated", "done"], "limit": ["--time-limit", "2"]}.items():
        cli.main(["data", "import", "ends.csv", f"depot/{name}", *flags])
        found = catalog.open(f"depot/{name}")
        assert not found.terminals.any()
        assert found.truncations[1::2].all()
    assert "counts as terminal" not in capsys.readouterr().out


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


def test_flags_that_a_source_does_not_take_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("batch.npz", **pymarl_batch())
    message = refused(["data", "import", "batch.npz", "a/b", "--reward", "gain"], capsys)
    assert "kind 'pymarl' takes no --reward; it takes: --time-limit, --action-kind" in message
    Path("m.toml").write_text('reward = "gain"\n')
    message = refused(["data", "import", "batch.npz", "a/b", "--mapping", "m.toml"], capsys)
    assert "the mapping m.toml: a source of kind 'pymarl' takes no reward" in message


def test_old_flags_work_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    header = "episode,step,agent,obs_0,action,reward,ok,here\n"
    Path("log.csv").write_text(header + "1,0,a,1,0,1,1 1,1\n")
    old = ["--legal", "ok", "--present", "here"]
    cli.main(["data", "import", "log.csv", "a/b", *old])
    told = capsys.readouterr().err
    assert "--legal is called --action-mask now" in told
    assert "--present is called --agent-mask now" in told
    dataset = catalog.open("a/b")
    assert dataset.action_mask is not None
    assert dataset.agent_mask is not None


def test_a_wide_table_and_one_without_agents(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wide.csv").write_text("episode,step,red_x,blue_x,do_red,do_blue,reward\n1,0,1,2,0,1,3\n")
    flags = ["--kind", "wide", "--observation", "{agent}_x", "--action", "do_{agent}"]
    cli.main(["data", "import", "wide.csv", "depot/wide", *flags])
    assert "imported 1 steps of 2 agents" in capsys.readouterr().out
    Path("one.csv").write_text("episode,step,x,action,reward\n1,0,1,0,3\n")
    cli.main(["data", "import", "one.csv", "depot/one", "--observation", "x"])
    assert (
        "no column is known as the agent, so there is one; else say --agent COLUMN"
        in capsys.readouterr().out
    )


def test_continuous_actions_come_with_a_caution(capsys: pytest.CaptureFixture[str]) -> None:
    """Of all algorithms, those that would refuse such data are left out."""
    cli.main(["data", "import", "log.csv", "a/discrete"])
    assert "caution" not in capsys.readouterr().out
    Path("box.csv").write_text(LOG.replace(",a,1,0,", ",a,1,0.5,"))
    caution = "the actions are continuous; of the offline algorithms only bc, oryx can learn them"
    cli.main(["data", "import", "box.csv", "a/box"])
    assert f"caution: {caution}" in capsys.readouterr().out
    with pytest.warns(OryxWarning, match=caution):
        oryx.import_log("box.csv", "a/again")


def test_a_plug_in_declares_its_own_options(own_plugins, capsys) -> None:
    """They are flags like those of the package, and no other source takes them."""
    Path("mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from oryx_marl.data.sources import base, table\n"
        "@dataclass(frozen=True)\n"
        "class Options(base.Options):\n"
        "    depot: str = 'north'\n"
        "def recognises(path): return path.suffix == '.depot'\n"
        "def read(path, name, options):\n"
        "    assert options.depot == 'south'\n"
        "    return table.read(path, name, table.Options())\n"
    )
    Path("log.csv").rename("log.depot")
    mine = ["--plugin", "mine.py", "data", "import", "log.depot"]
    cli.main([*mine, "a/b", "--depot", "south"])
    assert catalog.open("a/b").origin["options"] == {"depot": "south"}
    assert "kind 'mine' takes no --reward; it takes: --time-limit, --depot" in refused(
        [*mine, "a/c", "--reward", "gain"], capsys
    )


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


def test_a_subset_is_described_as_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """From what, how and how much; what is true of the whole alone stays with the whole."""
    whole = "tmaze/planner-mixed"
    how = ["--quantiles", "0.5", "1", "--rows", "500", "--seed", "3"]
    cli.main(["data", "subsample", whole, "maze/best", *how])
    subset, source = catalog.open("maze/best"), catalog.view(whole)
    told = (
        f"{subset.num_episodes} of 6,017 episodes of {whole}: those with returns from quantile 0.5 "
        "to 1, then drawn at random until 500 steps (seed 3)"
    )
    assert subset.origin["description"] == told
    assert not {"command", "recipe", "seed", "commit"} & set(subset.origin)
    assert subset.origin["environment_version"] == source.origin["environment_version"]
    assert subset.origin["subsample"]["origin"] == source.origin
    assert subset.origin["subsample"]["episodes"] == subset.num_episodes
    capsys.readouterr()
    cli.main(["data", "list", "--json"])
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["maze/best"]["description"] == told


def test_a_mapping_may_say_the_kind(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wide.csv").write_text("episode,step,red_x,blue_x,do_red,do_blue,reward\n1,0,1,2,0,1,3\n")
    Path("m.toml").write_text('kind = "wide"\nobservation = "{agent}_x"\naction = "do_{agent}"\n')
    mapping = ["--mapping", "m.toml"]
    cli.main(["data", "import", "wide.csv", "a/b", *mapping])
    assert catalog.open("a/b").spec.agents == ("blue", "red")
    assert oryx.import_log("wide.csv", "a/c", mapping=Path("m.toml")).origin["kind"] == "wide"
    other = ["data", "import", "wide.csv", "a/d", *mapping, "--kind", "table"]
    assert "says kind = 'wide', but 'table' was told" in refused(other, capsys)
    Path("m.toml").write_text("kind = 3\n")
    odd = ["data", "import", "wide.csv", "a/d", *mapping]
    assert "kind = 3 is not understood" in refused(odd, capsys)


def test_json_with_an_object_per_line_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"episode": 0, "step": 0, "agent": "a", "obs": [1.0], "action": 0, "reward": 1.0}
    Path("log.json").write_text(json.dumps(row) + "\n" + json.dumps(row | {"step": 1}) + "\n")
    cli.main(["data", "import", "log.json", "a/b"])
    assert catalog.open("a/b").num_rows == 2
    Path("log.json").write_text(json.dumps([row], indent=1))
    assert "one object per row and line" in refused(["data", "import", "log.json", "a/c"], capsys)
