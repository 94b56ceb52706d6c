"""What the documents say can be done."""

import re
from pathlib import Path

import pytest

from oryx_marl import registry
from oryx_marl.cli import main as cli
from oryx_marl.envs import base

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCUMENTS = README + "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
PATTERN = re.compile(r"(?:^|`)oryx ((?:demo|train|eval|data|bench|report) [^#`\n]*)", re.MULTILINE)
COMMANDS = sorted(c for c in set(PATTERN.findall(DOCUMENTS)) if "smooth" not in c)
"""All but that of the algorithm that the documents add (tests/algorithms/test_new_algorithm.py)."""


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command: str) -> None:
    parsed = cli._app().cli(args=command.split(), config=cli.FLAGS)
    assert callable(parsed.run)


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 7


def test_the_two_commands_are_named() -> None:
    assert "make demo" in README
    assert "make test" in README


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def test_results_tables_are_generated(benchmarks: None) -> None:
    import online
    import speed_tables
    import tmaze_paper
    import tmaze_planner

    assert tmaze_planner.markdown(ROOT / "results" / "tmaze_planner") in README
    tables = tmaze_paper.tables(ROOT / "results" / "tmaze_paper")
    assert tables["tmaze_main"] in README
    for table in tables.values():
        assert table in (ROOT / "docs" / "tmaze.md").read_text()
    for table in online.tables().values():
        assert table in (ROOT / "docs" / "scaling.md").read_text()
    for table in speed_tables.tables(ROOT / "results" / "speed").values():
        assert table in (ROOT / "docs" / "performance.md").read_text()


def test_pictures_are_generated(benchmarks: None) -> None:
    import tmaze_paper

    records = tmaze_paper.read(ROOT / "results" / "tmaze_paper")
    for name, content in tmaze_paper.pictures(records).items():
        assert (ROOT / "docs" / "pictures" / name).read_text() == content
        assert f"pictures/{name}" in DOCUMENTS


def test_every_environment_is_shown() -> None:
    page = (ROOT / "docs" / "environments.md").read_text()
    shown = re.findall(
        r"!\[.+\]\((pictures/.+\.png)\)\n\n```\noryx train sable --env (\S+)\n", page
    )
    assert {base.find(name)[0] for _, name in shown} == {*registry.names("envs")}
    for picture, name in shown:
        assert picture == f"pictures/{name}.png"
        assert (ROOT / "docs" / picture).stat().st_size < 10_000


@pytest.mark.slow
def test_pictures_of_environments_are_generated(benchmarks: None) -> None:
    """To the byte but for SMAX, whose places depend on how a machine rounds."""
    import environment_pictures

    for name in environment_pictures.SCENES:
        kept = (ROOT / "docs" / "pictures" / f"{name}.png").read_bytes()
        made = environment_pictures.draw(name)
        assert made == kept or (
            name.startswith("smac") and len(made) == pytest.approx(len(kept), 0.1)
        )


@pytest.mark.slow
def test_pettingzoo_example_runs() -> None:
    page = (ROOT / "docs" / "environments.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found: dict = {}
    exec(compile(example, "environments.md", "exec"), found)  # noqa: S102
    assert found["picture"].shape == (320, 320, 3)
    assert all(
        a or b
        for a, b in zip(
            *(found[end].values() for end in ("terminations", "truncations")), strict=True
        )
    )


@pytest.mark.slow
def test_python_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102
    assert 0 <= float(capsys.readouterr().out.strip()) <= 1
    assert (tmp_path / "runs" / "mine" / "summary.json").exists()
