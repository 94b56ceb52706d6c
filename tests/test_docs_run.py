"""Examples of the documents that are run: in Python, and each way to extend the package."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import env_conformance
import numpy as np
import pytest
from docs_pages import ROOT, blocks, commands, read
from pettingzoo.test import parallel_api_test

import oryx_marl as oryx
from oryx_marl import registry
from oryx_marl.cli import main as cli
from oryx_marl.envs import base
from oryx_marl.errors import OryxError


def example(page: str, index: int = 0) -> str:
    """A Python block of a page."""
    return [block.text for block in blocks(read(page)) if block.language == "python"][index]


def run(code: str, page: str) -> dict[str, Any]:
    """The names that a block defines."""
    names: dict[str, Any] = {}
    exec(compile(code, page, "exec"), names)  # noqa: S102
    return names


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORYX_DATA", raising=False)
    return tmp_path


@pytest.fixture
def lines(here: Path, own_plugins: None) -> Path:
    """The importer of the page, and a log for it."""
    (here / "lines.py").write_text(example("docs/extend/importer.md"))
    log = here / "depot.lines"
    log.write_text("7 | 0.1 0.5 | 2 0 | 1.0\n7 | 0.2 0.4 | 1 1 | 0\n8 | 0 0 | 0 2 | -1\n")
    return log


def test_the_documented_importer_reads(lines: Path) -> None:
    for command in commands(read("docs/extend/importer.md")):
        cli.main(shlex.split(command))
    found = oryx.open("depot/lines")
    assert (found.num_rows, found.num_episodes, found.spec.num_agents) == (3, 2, 2)
    np.testing.assert_allclose(found.observations[:, :, 0], [[0.1, 0.5], [0.2, 0.4], [0, 0]])
    assert found.actions.tolist() == [[2, 0], [1, 1], [0, 2]]
    assert found.rewards.tolist() == [[1, 1], [0, 0], [-1, -1]]
    assert found.truncations.tolist() == [[False] * 2, [True] * 2, [True] * 2]


def test_the_documented_importer_explains(lines: Path) -> None:
    lines.write_text("7 | 0.1 0.5 | 2 0\n")
    oryx.load_plugin("lines.py")
    with pytest.raises(OryxError, match=r"line 1 is not"):
        oryx.import_log(lines, "depot/broken")
    assert not list(Path("datasets").rglob("metadata.json"))


@pytest.fixture(scope="module")
def meet_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The environment of the page, once, so that its checks share what is compiled."""
    kept, file = dict(registry._added), tmp_path_factory.mktemp("meet") / "meet.py"
    file.write_text(example("docs/extend/environment.md"))
    oryx.load_plugin(file)
    yield file
    registry._added.clear()
    registry._added.update(kept)


@pytest.fixture
def meet(meet_file: Path) -> base.Env:
    return base.require_jax(base.make_named("meet"), "this test")


@pytest.mark.parametrize("check", env_conformance.CHECKS, ids=lambda check: check.__name__)
def test_the_documented_environment_conforms(meet: base.Env, check: Any) -> None:
    check(meet)


@pytest.mark.slow
def test_the_documented_environment_is_learned_in_and_scored(here: Path, meet: base.Env) -> None:
    settings = {"num_envs": 16, "rollout_length": 8, "minibatches": 2, "width": 16}
    run = oryx.train("sable", "meet", steps=512, seeds=1, out="runs/sable-meet", **settings)
    assert 0 <= run.score.metrics["arrived"].mean <= 1


def test_the_documented_pettingzoo_environment_is_scored_in(
    here: Path, own_plugins: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "my_env.py").write_text(example("docs/guides/your-environment.md"))
    env = oryx.Recorder(run((here / "my_env.py").read_text(), "my_env.py")["make"]())
    parallel_api_test(env, 50)
    for seed in range(12):
        env.reset(seed=seed)
        while env.agents:
            env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    env.save("depot/seen")
    small = {"updates": 2, "seeds": 2, "batch_size": 4, "sequence_length": 4, "log_every": 2}
    oryx.train("bc", "depot/seen", out="runs/oryx-depot-first", progress=False, **small)
    shown = commands(read("docs/guides/your-environment.md"))
    scored = next(each for each in shown if "eval " in each and "--plugin" in each)
    cli.main([*shlex.split(scored), "--episodes", "4", "--workers", "0"])
    out = capsys.readouterr().out
    assert "2 seeds x 4 episodes" in out
    assert {"sampled", "greedy", "return", "delivered"} <= {*out.split()}


def test_recording_example_runs(here: Path) -> None:
    run(example("docs/guides/your-environment.md", 2), "your-environment.md")
    found = oryx.open("mine/first")
    assert found.num_episodes == 3
    assert found.spec.environment == "tmaze"


def test_readme_is_short_and_has_ten_lines_of_python() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 115
    code = [line for line in example("README.md").splitlines() if line.strip()]
    assert len(code) <= 10


@pytest.mark.slow
def test_readme_example_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(example("README.md"), "README.md")
    assert 0 <= float(capsys.readouterr().out.strip()) <= 1
    assert (here / "runs" / "mine" / "summary.json").exists()


@pytest.mark.slow
def test_quickstart_example_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(example("docs/quickstart.md"), "quickstart.md")
    assert set(found["rewards"]) == set(found["dataset"].spec.agents)
    assert "(" in capsys.readouterr().out


@pytest.mark.slow
def test_pettingzoo_example_runs() -> None:
    found = run(example("docs/reference/environments.md", -1), "environments.md")
    assert found["picture"].shape == (320, 320, 3)
    assert all(
        a or b
        for a, b in zip(
            *(found[end].values() for end in ("terminations", "truncations")), strict=True
        )
    )


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs_autorefs", reason="the extra `docs` is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    assert (tmp_path / "search" / "search_index.js").is_file()
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe)[^>]+src=\"?(https?:[^\">]+)", page.read_text())
        loaded += re.findall(r"<link[^>]+href=\"?(https?:[^\">]+)", page.read_text())
        assert not loaded, page
