"""What version 0.1.0 wrote and what its users typed is understood by its names of then."""

from pathlib import Path

import numpy as np
import pytest

from oryx_marl import renamed
from oryx_marl.cli.main import main, read
from oryx_marl.trees import flatten, unflatten


def test_settings() -> None:
    found = renamed.settings(
        {"trace": 0.9, "objective": "clone", "network": {"target_rate": 0.1}, "seeds": [0]}, False
    )
    assert found == {"td_lambda": 0.9, "objective": "bc", "network": {"tau": 0.1}, "seeds": [0]}
    assert renamed.settings({"trace": 0.9}, online=True) == {"gae_lambda": 0.9}


def test_arrays() -> None:
    assert renamed.branch("world/observation/legal") == "source_state/observation/action_mask"
    assert renamed.branch("learners/network/norm/scale") == "learners/network/norm/scale"


def test_flags() -> None:
    words, changed = renamed.flags(["train", "oryx", "--trace=0.5", "--keep_going"], online=False)
    assert words == ["train", "oryx", "--td-lambda=0.5", "--continue-on-divergence"]
    assert changed == {"--trace": "--td-lambda", "--keep_going": "--continue-on-divergence"}
    assert renamed.flags(["--trace", "1"], online=True)[0] == ["--gae-lambda", "1"]


def test_greedy_is_a_way_to_act() -> None:
    """At the end of the line: the folder that follows is no second way to act."""
    given = ["eval", "--greedy", "run", "--episodes", "5", "--json"]
    words, changed = renamed.flags(given, online=False)
    assert words == ["eval", "run", "--episodes", "5", "--json", "--act", "greedy"]
    assert changed == {"--greedy": "--act greedy"}
    assert (read(words).act, read(words).run_folder) == (("greedy",), Path("run"))
    words, _ = renamed.flags(["eval", "run", "--no-greedy"], online=False)
    assert read(words).act == ("sampled",)


def test_old_flags_work_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "oryx", "nowhere/nothing", "--target-rate", "0.01"])
    told = capsys.readouterr().err
    assert "--target-rate is called --tau now" in told
    assert "nowhere/nothing" in told


def test_names_that_are_still_right_stay(tmp_path: Path) -> None:
    """A network of somebody's own may well call a part of it its memory."""
    tree = {"network": {"memory": np.ones(2)}, "source_state": {"agent_mask": np.zeros(3)}}
    assert unflatten(flatten(tree), tree, tmp_path).keys() == tree.keys()
    old = {"network/memory": np.ones(2), "world/present": np.zeros(3)}
    np.testing.assert_array_equal(unflatten(old, tree, tmp_path)["network"]["memory"], np.ones(2))
