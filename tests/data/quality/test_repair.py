"""`--fix` repairs what is safe, says so, and never touches the dataset."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from planted import PLANTS, ROWS, build_clean, row

from oryx_marl.cli import main as cli
from oryx_marl.data import vault, view
from oryx_marl.data.quality.issues import KINDS
from oryx_marl.data.quality.repair import CHANGES, mendable, repair
from oryx_marl.data.quality.validate import validate
from oryx_marl.data.vault_view import VaultView
from oryx_marl.errors import OryxError

MENDED = [name for name, plant in PLANTS.items() if KINDS[plant.kind].is_mended]


@pytest.mark.parametrize("name", MENDED)
def test_what_can_be_mended_is(name, tmp_path):
    plant = PLANTS[name]
    dataset = plant.base()
    dataset = plant.fault(dataset) or dataset
    source = VaultView(vault.write(dataset, tmp_path / "old"))
    before = dataset.fingerprint()
    changes = repair(source, validate(source), tmp_path / "new")
    copy = vault.read(tmp_path / "new")
    left = {finding.kind for finding in validate(copy)}
    assert plant.kind not in left
    assert not [kind for kind in left if KINDS[kind].severity == "error"]
    assert sum(changes.values()) >= 1
    assert copy.origin["fixed"] == {"dataset": "planted", **changes}
    assert vault.read(tmp_path / "old").fingerprint() == before
    with pytest.raises(OryxError, match="is there already"):
        repair(source, validate(source), tmp_path / "new")


def test_each_mendable_kind_is_planted():
    assert {PLANTS[name].kind for name in MENDED} == {k for k in KINDS if KINDS[k].is_mended}


def test_exactly_what_is_said_is_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(view, "MOST_VALUES", 20 * 30)
    clean = build_clean()
    dataset = build_clean()
    dataset.observations[row(3, 4), 1, 2] = np.nan
    dataset.actions[row(9, 1), 0] = 9
    dataset.action_mask[row(0, 3), 2] = False
    dataset.observations[:, 2, 4] = -np.inf
    dataset.final_observations[:, 2, 4] = -np.inf
    dataset.truncations[row(2, 6)] = True
    dataset.terminals[row(6, 12)] = False
    source = dataset
    changes = repair(source, validate(source), tmp_path / "new")
    assert changes == {
        CHANGES["infinite padding"]: ROWS,
        CHANGES["terminal and truncated"]: 3,
        CHANGES["episode without an end"]: 1,
        CHANGES["marked absent"]: 3,
    }
    agent_mask = np.ones((ROWS, 3), bool)
    agent_mask[row(3, 4), 1] = agent_mask[row(9, 1), 0] = False
    observations = np.where(agent_mask[..., None], clean.observations, 0)
    action_mask = clean.action_mask.copy()
    action_mask[row(0, 3), 2] = True  # an absent agent's mask must not be empty
    observations[:, 2, 4] = 0
    final = clean.final_observations.copy()
    final[:, 2, 4] = 0
    truncations = clean.truncations.copy()
    truncations[row(6, 12)] = True
    terminals = dataset.terminals
    expected = replace(
        clean,
        observations=observations,
        final_observations=final,
        actions=np.where(agent_mask, clean.actions, 0).astype(np.int32),
        rewards=np.where(agent_mask, clean.rewards, 0).astype(np.float32),
        truncations=truncations,
        terminals=terminals,
        action_mask=action_mask,
        agent_mask=agent_mask & (np.arange(ROWS * 3).reshape(ROWS, 3) != row(0, 3) * 3 + 2),
    )
    copy = vault.read(tmp_path / "new")
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(copy.arrays()[name], array, err_msg=name)


def test_nothing_to_mend(tmp_path):
    source = build_clean()
    assert mendable(validate(source)) == set()
    with pytest.raises(OryxError, match="nothing in 'planted' that --fix can repair"):
        repair(source, [], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def write_spoiled(tmp_path):
    dataset = build_clean()
    dataset.rewards[row(0, 0), 2] = np.nan
    return vault.write(dataset, tmp_path / "logs.vlt" / "mine")


def test_the_command_says_what_is_wrong_and_ends_with_1(tmp_path, capsys):
    folder = write_spoiled(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["data", "check", str(folder)])
    assert stop.value.code == 1
    told = capsys.readouterr().out
    assert "error non-finite reward, once: episode 0, step 0, agent cy, column rewards: " in told
    assert "reward entry 0 is nan; repair or drop the step where the log is made" in told
    assert "12 episodes, 120 steps; kinds of issue: 1 error, 0 warnings, 0 notes" in told


def test_the_command_says_one_line_per_kind(tmp_path, capsys):
    """However often a kind occurs: its count, its share and its first place."""
    dataset = build_clean()
    dataset.rewards[::2, 1] = np.nan
    dataset.observations[5:, 2, 1:3] = np.inf
    vault.write(dataset, tmp_path / "a.vlt" / "b")
    with pytest.raises(SystemExit):
        cli.main(["data", "check", str(tmp_path / "a.vlt" / "b")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(
        "error non-finite observation, 115 times (31.94% of all): first episode 0, step 5, agent cy"
    )
    assert lines[1].startswith(
        "error non-finite reward, 60 times (16.67% of all): first episode 0, step 0, agent bo"
    )


def test_the_command_as_json_and_with_fix(tmp_path, capsys):
    folder = write_spoiled(tmp_path)
    cli.main(["data", "check", str(folder), "--fix", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["counts"] == {"error": 0, "warning": 0, "note": 0}
    assert told["fixed"]["folder"] == str(tmp_path / "logs.vlt" / "mine-fixed")
    assert told["fixed"]["changes"] == {CHANGES["marked absent"]: 1}
    with pytest.raises(SystemExit):
        cli.main(["data", "check", str(folder), "--json"])
    (first, *_) = json.loads(capsys.readouterr().out)["findings"]
    assert first == {
        "kind": "non-finite reward",
        "severity": "error",
        "episode": 0,
        "step": 0,
        "agent": "cy",
        "column": "rewards",
        "what": "reward entry 0 is nan",
        "remedy": "repair or drop the step where the log is made",
        "count": 1,
        "share": 1 / 360,
    }
    cli.main(["data", "check", f"{folder}-fixed", "--fix"])
    assert "nothing was written" in capsys.readouterr().out


def test_a_copy_of_embedded_data_never_goes_into_the_package(monkeypatch, tmp_path):
    from oryx_marl.cli import check as cli_check
    from oryx_marl.data import catalog

    monkeypatch.setenv("ORYX_DATA", str(tmp_path))
    place = cli_check._beside(catalog.EMBEDDED / "tmaze.vlt" / "replay-small")
    assert place == tmp_path / "tmaze.vlt" / "replay-small-fixed"


def test_the_exit_code_of_the_process(tmp_path):
    folder = write_spoiled(tmp_path)
    command = [sys.executable, "-m", "oryx_marl", "data", "check", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "")
