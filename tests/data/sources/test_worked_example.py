"""docs/guides/your-logs.md as a newcomer follows it: a log, its import, a policy, no more."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oryx_marl.cli import main as cli
from oryx_marl.data import catalog
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.quality import screen as check

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "your-logs.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def commands(word: str) -> list[list[str]]:
    """The page's commands that begin with a word."""
    return [line.split()[1:] for line in PAGE.splitlines() if line.startswith(f"oryx {word}")]


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORYX_DATA", raising=False)
    assert "oryx" not in EXAMPLES[0]
    exec(compile(EXAMPLES[0], "your-logs.md", "exec"), {})  # noqa: S102
    cli.main(commands("data import deliveries.csv")[0])
    return catalog.open("depot/first")


def test_the_log_is_understood(imported: Dataset) -> None:
    assert imported.origin["action_names"] == ["charge", "drive", "load", "unload", "wait"]
    spec = imported.spec
    assert spec.agents == ("blue", "green", "red")
    assert (spec.observation_size, spec.action.size, spec.shared_reward) == (3, 5, False)
    assert imported.num_episodes == 40
    assert set(imported.episode_lengths.tolist()) == {20}
    assert not imported.terminals.any()
    assert imported.truncations[19].all()
    assert imported.truncations.sum() == 40 * 3
    assert not check.find_problems(imported)
    assert imported.rewards.max() == 10
    assert imported.agent_mask is None
    # Somebody who reads the file by hand finds the same first row.
    first = Path("deliveries.csv").read_text().splitlines()[1].split(",")
    agent = spec.agents.index(first[2])
    assert imported.observations[0, agent].tolist() == [float(cell) for cell in first[3:6]]


def test_out_again_and_less_of_it(imported: Dataset) -> None:
    for command in (*commands("data export"), *commands("data subsample")):
        cli.main(command)
    assert Path("deliveries.parquet").is_file()
    best, alike = catalog.open("depot/best"), catalog.open("depot/alike")
    assert best.episode_returns.min() >= np.median(imported.episode_returns) - 1e-6
    assert best.origin["subsample"]["subsample_of"] == "depot/first"
    assert alike.num_episodes >= 5
    assert 200 <= catalog.open("depot/small").num_rows < 220
    for number, path in enumerate(("deliveries.parquet", "deliveries")):
        cli.main(["data", "import", path, f"again/{number}"])
        again = catalog.open(f"again/{number}")
        assert again.fingerprint() == imported.fingerprint()


@pytest.mark.slow
def test_it_is_checked_trained_on_and_acted_with(
    imported: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    (checked,) = commands("data check")
    cli.main(checked)
    train = commands("train")[0]
    train[train.index("--updates") + 1] = "6"
    steps = ["--log-every", "3", "--checkpoint-every", "6", "--evaluate-every", "6"]
    cli.main([*train, *steps, "--batch-size", "4", "--sequence-length", "5", "--width", "16"])
    assert "of 4 held-out episodes" in " ".join(capsys.readouterr().out.split())
    names: dict[str, Any] = {}
    exec(compile(EXAMPLES[1], "your-logs.md", "exec"), names)  # noqa: S102
    assert set(names["orders"]) == {"red", "blue", "green"}
    assert all(0 <= order < 5 for order in names["orders"].values())
    words = imported.origin["action_names"]
    assert names["policy"].action_names == words
    cli.main(["data", "info", imported.name])
    assert f"{words[0]} " in capsys.readouterr().out
