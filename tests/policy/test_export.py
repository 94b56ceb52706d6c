"""What an export's folder holds, and what happens to what was there."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exports import SPECS, make_policy

from oryx_marl import api, files
from oryx_marl.cli import main as cli
from oryx_marl.errors import OryxError
from oryx_marl.policy import artifact, export
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.types import Spec

NAMES = {"contract.json", "README.md", "run.py"}


@pytest.fixture(scope="module")
def policy() -> PolicyArtifact:
    return make_policy("bc", SPECS["discrete"])


@pytest.fixture(scope="module")
def exported(policy: PolicyArtifact, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("exports")
    return {kind: export.write(policy, home / kind, kind, seed=7) for kind in export.FORMATS}


def read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / export.CONTRACT).read_text())


def test_the_contract_says_all(policy: PolicyArtifact, exported: dict[str, Path]) -> None:
    for kind, folder in exported.items():
        assert {path.name for path in folder.iterdir()} == {*NAMES, f"policy.{kind}"}
        about = read(folder)
        assert Spec.from_dict(about["spec"]) == policy.spec
        assert about["policy"]["seed"] == 7
        assert about["policy"]["sha256"] == policy.sha256
        inputs = {each["name"]: each for each in about["inputs"]}
        assert list(inputs) == [
            "features",
            "action_mask",
            "agent_mask",
            "reset",
            "step_count",
            "last_rewards",
            "state",
            "noise",
        ]
        assert inputs["features"]["shape"] == ["batch", 3, 5]
        assert inputs["state"]["initial"] == 0
        assert inputs["state"]["next"] == "next_state"
        unused = {name for name, each in inputs.items() if not each["used"]}
        assert unused == {"agent_mask", "step_count", "last_rewards"}
        outputs = {each["name"]: each["shape"] for each in about["outputs"]}
        assert outputs["actions"] == ["batch", 3]
        assert outputs["log_probs"] == ["batch", 3, 4]
        assert about["noise"]["distribution"] == "gumbel"
        assert about["sha256"] == export.hash_contract(about)
        assert set(about["files"]) == {*NAMES, f"policy.{kind}"} - {export.CONTRACT}
    onnx.checker.check_model(exported["onnx"] / "policy.onnx", full_check=True)


def test_an_initial_state_that_is_not_zero_is_told() -> None:
    """MADT begins with the return that is asked for."""
    contract = export.make_contract(make_policy("madt", SPECS["discrete"]))
    inputs = {each["name"]: each for each in export.to_json(contract, SPECS["discrete"])["inputs"]}
    assert inputs["state/remaining"]["initial"] == pytest.approx(3, abs=0.5)
    assert inputs["state/steps/agent_mask"]["initial"] is False


def test_the_program_beside_it_runs(exported: dict[str, Path]) -> None:
    """Both print the same actions, as they make up the same observations and noise."""
    told = {}
    for kind, folder in exported.items():
        lines = (folder / export.PROGRAM).read_text().splitlines()
        assert sum(bool(line.strip()) for line in lines) <= 24
        found = subprocess.run(
            [sys.executable, str(folder / export.PROGRAM)],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        told[kind] = found.stdout.splitlines()
    assert len(told["onnx"]) == 5
    assert told["onnx"][0].startswith("step 0: actions [[")
    assert told["onnx"] == told["stablehlo"]


def test_only_exports_are_replaced(policy: PolicyArtifact, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    export.write(policy, folder, "onnx")
    before = read(folder)
    export.write(policy, folder, "stablehlo")
    assert read(folder)["kind"] == "stablehlo"
    assert not (folder / "policy.onnx").exists()
    (folder / "mine.txt").write_text("do not lose this")
    with pytest.raises(OryxError, match=r"something else in it than an export \('mine.txt'\)"):
        export.write(policy, folder, "onnx")
    assert (folder / "mine.txt").read_text() == "do not lose this"
    assert before["kind"] == "onnx"
    with pytest.raises(OryxError, match="is no folder"):
        export.write(policy, folder / "mine.txt", "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_kill_left_is_put_in_order(policy: PolicyArtifact, tmp_path: Path) -> None:
    folder = export.write(policy, tmp_path / "out", "stablehlo")
    folder.rename(tmp_path / "out.replaced")  # between the two renames
    (tmp_path / "out.partial").mkdir()
    export.write(policy, folder, "stablehlo")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_write_that_fails_leaves_the_earlier_export(
    policy: PolicyArtifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export.write(policy, tmp_path / "out", "stablehlo")
    before = read(folder)

    def fail(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "sync_tree", fail)
    with pytest.raises(OryxError, match=r"cannot write .*out: No space left.*Make room"):
        export.write(policy, folder, "stablehlo", seed=7)
    assert read(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.usefixtures("unchecked")
def test_wrong_requests_are_named(policy: PolicyArtifact, tmp_path: Path) -> None:
    with pytest.raises(OryxError, match="format must be one of onnx, stablehlo, got 'tflite'"):
        export.write(policy, tmp_path / "out", "tflite")  # type: ignore[arg-type]
    with pytest.raises(OryxError, match=r"no seed 5; it has \[4, 7\]"):
        export.write(policy, tmp_path / "out", "onnx", seed=5)
    assert list(tmp_path.iterdir()) == []


def test_command_and_function_write_the_same(
    policy: PolicyArtifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "last.npz"
    artifact.save(file, policy)
    cli.main(["export", str(file), "--format", "onnx", "--out", str(tmp_path / "a"), "--seed", "7"])
    assert f"python {tmp_path / 'a' / 'run.py'}" in capsys.readouterr().out
    found = api.export(file, seed=7)
    assert found == tmp_path / "last-export" / "onnx"
    pairs = zip(sorted((tmp_path / "a").iterdir()), sorted(found.iterdir()), strict=True)
    assert all(one.read_bytes() == other.read_bytes() for one, other in pairs)


def test_readme_names_every_array(exported: dict[str, Path]) -> None:
    for folder in exported.values():
        text, about = (folder / export.README).read_text(), read(folder)
        for each in (*about["inputs"], *about["outputs"]):
            assert f"| `{each['name']}` | {each['dtype']} | " in text
        assert np.all([len(line) <= 140 for line in text.splitlines() if line[:1] != "|"])
