"""Messages name what works for this installation, and both readers understand them."""

import ast
import re
from pathlib import Path

import pytest

from oryx_marl import installation
from oryx_marl.envs import base
from oryx_marl.errors import OryxError

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "oryx_marl"
COMMAND_LINE = (
    *("cli/", "bench/", "recipes/", "serve/", "data/hub/", "data/quality/", "data/sources/"),
)
"""Where messages are those of commands that Python's interface does not have."""


def test_a_checkout_installs_itself() -> None:
    assert installation.find_checkout() == ROOT
    assert installation.how_to_install("envs") == f"pip install -e '{ROOT}[envs]'"
    with pytest.raises(
        OryxError, match=r"needs the package nothing_of.*pip install -e '.*\[envs\]'"
    ):
        base.optional("nothing_of_the_kind")


def test_a_wheel_is_installed_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "lib" / "site-packages" / "oryx_marl" / "installation.py"
    assert installation.find_checkout(installed) is None
    installed.parent.mkdir(parents=True)
    (tmp_path / "lib" / "pyproject.toml").write_text('name = "other"')
    assert installation.find_checkout(installed) is None
    monkeypatch.setattr(installation, "find_checkout", lambda: None)
    assert installation.how_to_install("envs") == "pip install 'oryx-marl[envs]'"
    assert installation.point_to_page("Your logs", "no.md") == (
        'the page "Your logs" of the documentation'
    )
    monkeypatch.setattr(installation, "find_site", lambda: "https://site.example")
    assert installation.point_to_page("Your logs", "guides/your-logs.md").endswith(
        "https://site.example/guides/your-logs.html"
    )


def test_pages_are_named_where_they_are() -> None:
    page = next(ROOT.glob("docs/**/*.md")).relative_to(ROOT / "docs").as_posix()
    told = installation.point_to_page("Some page", page)
    assert Path(told.partition(": ")[2]).is_file()


def texts() -> list[tuple[str, str]]:
    """File and text of every error that is raised."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id.endswith("Error"):
                parts = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
                found.append((name, "".join(str(part.value) for part in parts)))
    return found


def test_nobody_is_told_to_install_or_read_what_may_not_be_there() -> None:
    told = [(name, text) for name, text in texts() if "pip install" in text or "docs/" in text]
    assert told == []
    assert len(texts()) > 200


def test_errors_of_the_library_do_not_speak_in_flags_alone() -> None:
    flags = [
        (name, text)
        for name, text in texts()
        if not name.startswith(COMMAND_LINE)
        and re.search(r"(?<![\w-])--[a-z]", text)
        and "Python" not in text
        and "`oryx " not in text
    ]
    assert flags == []
