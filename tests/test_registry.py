"""Names of the package's own modules, of files and of installed packages."""

import sys
from pathlib import Path

import pytest
from plugins import LINE, SLOW, install

from oryx_marl import registry
from oryx_marl.data.sources import base as sources
from oryx_marl.envs import base
from oryx_marl.errors import OryxError, OryxWarning
from oryx_marl.types import ActionSpace, Spec

pytestmark = pytest.mark.usefixtures("own_plugins")


def write(folder: Path, name: str, code: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(code)
    return path


def test_modules_have_names_but_not_all() -> None:
    found = registry.names("envs")
    assert {"connector", "smax", "tmaze"} <= {*found}
    assert not {"base", "adapters", "_tmaze_render"} & {*found}
    assert registry.load("envs", "tmaze").__name__ == "oryx_marl.envs.tmaze"


@pytest.mark.parametrize(
    ("code", "rooms"),
    [
        ("class Config: ...\ndef make(config, spec): ...", {"algorithms"}),
        ("def make(): ...", {"envs"}),
        ("def recognises(path): ...\ndef read(path, name, options): ...", {"data.sources"}),
        ("FAMILIES = ()\ndef find_family(name): ...", {"recipes"}),
        ("def make(): ...\nFAMILIES = ()\ndef find_family(name): ...", {"envs", "recipes"}),
    ],
)
def test_a_file_provides_what_it_defines(tmp_path: Path, code: str, rooms: set[str]) -> None:
    module = registry.add_file(write(tmp_path, "mine", code))
    assert {room for room in registry.PLUGGABLE if "mine" in registry.names(room)} == rooms
    for room in rooms:
        assert registry.load(room, "mine") is module
        assert registry.given(room) == ["mine"]
        assert registry.names(room)[-1] == "mine"  # the package's own come first
    assert registry.files() == [tmp_path / "mine.py"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = 1", "provides nothing: an algorithm defines Config and make"),
        ("def recognises(path): ...", "provides nothing"),
        ("def make(:", r"cannot be loaded: SyntaxError: .*mine\.py, line 1"),
        ("\n\nundefined", r"NameError: name 'undefined' is not defined \(.*mine\.py, line 3\)"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_files_that_are_none(tmp_path: Path, code: str, expected: str) -> None:
    with pytest.raises(OryxError, match=expected):
        registry.add_file(write(tmp_path, "mine", code))
    assert registry.files() == []


@pytest.mark.parametrize("name", ["none.py", "notes.txt", "."])
def test_what_is_no_python_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(OryxError, match="there is no plug-in"):
        registry.add_file(tmp_path / name)


def test_a_changed_file_counts(tmp_path: Path) -> None:
    path = write(tmp_path, "mine", "def make(): return 1")
    registry.add_file(path)
    write(tmp_path, "mine", "def make(): return 2")
    registry.add_file(path)
    assert registry.load("envs", "mine").make() == 2
    assert registry.files() == [path]


def test_names_that_are_taken(tmp_path: Path) -> None:
    with pytest.warns(OryxWarning, match="the package has a 'tmaze' of its own"):
        registry.add_file(write(tmp_path, "tmaze", "def make(): ..."))
    assert registry.load("envs", "tmaze").__name__ == "oryx_marl.envs.tmaze"
    assert registry.given("envs") == []
    registry.add_file(write(tmp_path, "mine", "def make(): return 1"))
    (tmp_path / "other").mkdir()
    with pytest.warns(OryxWarning, match="which has the same name"):
        registry.add_file(write(tmp_path / "other", "mine", "def make(): return 2"))
    assert registry.load("envs", "mine").make() == 2


def test_an_environment_of_a_file(tmp_path: Path) -> None:
    spec = Spec("walk", ("a",), (2,), ActionSpace("discrete", 2), environment_config={"limit": 3})
    with pytest.raises(
        OryxError, match=r"there is no environment 'walk'; .*--plugin FILE.*install"
    ):
        base.make(spec)
    registry.add_file(write(tmp_path, "walk", LINE))
    assert base.make(spec).spec.episode_limit == 3
    assert base.make_named("walk").name == "walk"
    assert base.find("con-5x5x3a")[0] == "connector"


def test_nothing_is_imported_because_data_say_so(tmp_path: Path, monkeypatch) -> None:
    """Not even if it could be."""
    write(tmp_path, "trap", "raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("trap", "trap:make", "..trap", "oryx_marl.envs.tmaze", "base", "adapters"):
        with pytest.raises(OryxError, match="no environment"):
            base.make(Spec(name, ("a",), (1,), ActionSpace("discrete", 2)))
        with pytest.raises(OryxError, match="no algorithm"):
            registry.load("algorithms", name)
    assert "trap" not in sys.modules


def test_a_source_of_a_file_is_asked_first(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("x\n")
    assert sources.find(log) == "table"
    code = "def recognises(path): return path.suffix == '.csv'\ndef read(*_): ..."
    registry.add_file(write(tmp_path, "mine", code))
    assert sources.find(log) == "mine"
    assert sources.find(log, "table") == "table"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


def test_an_installed_package_is_imported_when_asked_for(installed: Path) -> None:
    group = "oryx_marl.algorithms"
    install(installed, "slowpackage", SLOW, {group: {"slow": "slowpackage"}})
    assert registry.names("algorithms")[-1] == "slow"
    assert registry.installed("algorithms") == {"slow": "slowpackage"}
    assert "slow" not in registry.names("envs")
    assert "slowpackage" not in sys.modules
    assert registry.load("algorithms", "slow").Config().slowness == 2.0
    del sys.modules["slowpackage"]


def test_a_room_within_a_room(installed: Path) -> None:
    code = "def recognises(path): return path.suffix == '.depot'\ndef read(*_): ..."
    install(installed, "depotlogs", code, {"oryx_marl.data.sources": {"depot": "depotlogs"}})
    log = installed / "week.depot"
    log.touch()
    assert sources.find(log) == "depot"
    del sys.modules["depotlogs"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("broken", r"'slow' of the package broken cannot be loaded: ZeroDivisionError.*uninstall"),
        ("no_such_module", "cannot be loaded: ModuleNotFoundError"),
        ("json", r"\(json\) does not fit into algorithms: .* defines Config and make"),
        ("json:loads", "must name a module"),
    ],
)
def test_broken_packages_are_named(installed: Path, value: str, expected: str) -> None:
    install(installed, "broken", "1 / 0", {"oryx_marl.algorithms": {"slow": value}})
    assert "slow" in registry.names("algorithms")
    with pytest.raises(OryxError, match=expected):
        registry.load("algorithms", "slow")


def test_names_of_packages_that_are_taken(installed: Path, tmp_path: Path) -> None:
    install(installed, "first", "make = 1", {"oryx_marl.envs": {"tmaze": "first", "a": "first"}})
    install(installed, "second", "make = 2", {"oryx_marl.envs": {"a": "second"}})
    with pytest.warns(OryxWarning) as told:
        winner = registry.installed("envs")["a"]
    assert registry.load("envs", "tmaze").__name__ == "oryx_marl.envs.tmaze"
    messages = sorted(str(each.message) for each in told)
    loser = {"first": "second", "second": "first"}[winner]
    assert messages == [
        f"'a' of the package {loser} is not used in envs: the package {winner} has one of that "
        "name",
        "'tmaze' of the package first is not used in envs: oryx-marl has one of that name",
    ]
    with pytest.warns(OryxWarning, match=f"instead of 'a' of the package {winner}"):
        registry.add_file(write(tmp_path, "a", "make = 3"))
    assert registry.load("envs", "a").make == 3
    assert "a" not in registry.installed("envs")
