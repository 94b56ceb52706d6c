"""docs/your_data.md as a newcomer follows it: a log, its import, a policy; no environment."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl import cli, experiment
from oryx_marl.data import catalog, check
from oryx_marl.data.dataset import Dataset
from oryx_marl.types import Observation

PAGE = (Path(__file__).parents[3] / "docs" / "your_data.md").read_text()


def commands(word: str) -> list[list[str]]:
    """The page's commands that begin with a word."""
    return [line.split()[1:] for line in PAGE.splitlines() if line.startswith(f"oryx {word}")]


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORYX_DATA", raising=False)
    (log,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert "oryx" not in log
    exec(compile(log, "your_data.md", "exec"), {})  # noqa: S102
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
    assert imported.present is None
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


def test_a_policy_is_trained_and_called(imported: Dataset) -> None:
    train = commands("train")[0]
    train[train.index("--updates") + 1] = "6"
    steps = ["--log-every", "3", "--checkpoint-every", "6", "--evaluate-every", "6"]
    cli.main([*train, *steps, "--batch-size", "4", "--sequence-length", "5", "--out", "run"])
    run = experiment.load(Path("run"))
    assert run.update == 6
    weights = jax.tree.map(lambda leaf: leaf[0], run.algorithm.weights(run.state.learners))
    policy = run.algorithm.policy(weights, greedy=True)
    seen = Observation(
        features=jnp.array([[[3.0, 1.0, 9.0], [0.0, 1.0, 5.0], [2.0, 0.0, 1.0]]]),
        legal=jnp.ones((1, 3, 5), bool),
        present=jnp.ones((1, 3), bool),
        reset=jnp.ones(1, bool),
        step_count=jnp.zeros(1, jnp.int32),
    )
    _, actions, _ = policy.step(policy.init(1), seen, jax.random.key(0))
    assert actions.shape == (1, 3)
    assert ((actions >= 0) & (actions < 5)).all()
