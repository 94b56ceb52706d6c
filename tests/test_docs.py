"""What the documents say can be done, and where they lead."""

import ast
import importlib
import inspect
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from docs_pages import (
    DOCS,
    GENERATED,
    PAGES,
    README,
    ROOT,
    anchors,
    blocks,
    commands,
    links,
    load_hook,
    mentions,
    read,
)

import oryx_marl
from oryx_marl import registry
from oryx_marl.cli import main as cli
from oryx_marl.envs import base

COMMANDS = sorted({command for page in PAGES for command in commands(read(page))})
EXAMPLES = [
    (page, index)
    for page in PAGES
    for index, block in enumerate(blocks(read(page)))
    if block.language == "python"
]


def parse(words: list[str]) -> Any:
    """What the command line makes of a command, without running it."""
    words, _ = cli._take_plugins(words)
    return cli.read(words)


@pytest.fixture
def documented_plugins(own_plugins: None, tmp_path: Path) -> None:
    """The plug-ins that the pages under extend/ tell to write."""
    for name, page in {"smooth": "algorithm", "meet": "environment", "lines": "importer"}.items():
        code = next(b.text for b in blocks(read(f"docs/extend/{page}.md")) if b.language)
        (tmp_path / f"{name}.py").write_text(code)
        registry.add_file(tmp_path / f"{name}.py")


@pytest.fixture
def documented_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that the guide of training shows."""
    text = next(b.text for b in blocks(read("docs/guides/training.md")) if b.language == "toml")
    (tmp_path / "run.toml").write_text(text)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(documented_plugins: None, documented_config: None, command: str) -> None:
    command = command.split(" > ")[0].replace("--print-config", "")
    assert callable(parse(shlex.split(command)).run)


@pytest.mark.parametrize("page", PAGES)
def test_flags_and_names_of_commands_exist(page: str) -> None:
    """Those that the text names by themselves, such as `--seeds` and `oryx data check`."""
    flags, titles = set(re.findall(r"`(--[\w-]+)", command_page())), command_titles()
    own = {
        "--plugin",
        "--config",
        "--print-config",
        "--version",
        "--help",
        "--x",
        "--no-x",
        "--smoothing",
    }
    for mention in mentions(read(page)):
        if mention.startswith("oryx "):
            assert mention.replace("_", "-") in titles, page
        for flag in re.findall(r"(?<!\S)--[\w-]+", mention):
            known = flags | own | {flag.replace("--", "--no-", 1) for flag in flags}
            assert flag in known, page


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 60
    assert "make demo" in README
    assert "make test" in README


def test_make_targets_and_extras_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for page in PAGES:
        for block in blocks(read(page)):
            used = re.findall(r"^make ([a-z-]+)", block.text, re.MULTILINE)
            assert set(used) <= set(targets), page
        extras = re.findall(r"pip install [^`\n]*\[([a-z]+)\]", read(page))
        assert set(extras) <= set(project["optional-dependencies"]), page


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in links(read(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        name = target.resolve().relative_to(ROOT).as_posix()
        if name not in GENERATED:
            assert target.is_file(), f"{page} leads to {link}"
        if anchor:
            assert anchor in anchors(name), f"{page} leads to {link}"


@pytest.mark.parametrize("page", PAGES)
def test_footnotes_are_defined_and_used(page: str) -> None:
    defined = re.findall(r"^\[\^(\w+)\]:", read(page), re.MULTILINE)
    used = re.findall(r"\[\^(\w+)\](?!:)", read(page))
    assert sorted(defined) == sorted(set(used))


def test_code_leads_to_pages_that_exist() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    for file in files:
        for path, anchor in re.findall(r"(docs/[\w/.-]+\.md)(?:#([\w-]+))?", file.read_text()):
            assert (ROOT / path).is_file(), f"{file} names {path}"
            assert not anchor or anchor in anchors(path), f"{file} names {path}#{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    here = {page.removeprefix("docs/") for page in (*PAGES, *GENERATED) if page.startswith("docs/")}
    assert sorted(listed) == sorted(here)


def test_nothing_is_loaded_from_other_hosts() -> None:
    site = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in site
    assert "http" not in site
    for file in (DOCS / "assets").iterdir():
        assert "http" not in file.read_text()


@pytest.mark.parametrize(("page", "index"), EXAMPLES)
def test_names_in_examples_exist(page: str, index: int) -> None:
    """Imports, what is taken from imported modules, and arguments of our public functions."""
    tree = ast.parse(blocks(read(page))[index].text)
    modules: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = importlib.import_module(alias.name)
                top = importlib.import_module(alias.name.split(".")[0])
                modules[alias.asname or alias.name.split(".")[0]] = whole if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found = getattr(importlib.import_module(node.module or ""), alias.name, None)
                assert found is not None or importlib.import_module(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            assert module is None or hasattr(module, node.attr), f"{page}: {ast.unparse(node)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = getattr(node.func.value, "id", "")
            if modules.get(owner) is oryx_marl:
                inspect.signature(getattr(oryx_marl, node.func.attr)).bind(
                    *node.args, **{each.arg: None for each in node.keywords if each.arg}
                )


def test_every_public_name_is_in_the_reference() -> None:
    listed = re.findall(r"^::: oryx_marl\.(\S+)$", read("docs/reference/python.md"), re.MULTILINE)
    assert sorted(name.split(".")[-1] for name in listed) == sorted(oryx_marl.__all__)
    for name in listed:
        module, _, attribute = name.rpartition(".")
        found = getattr(importlib.import_module(f"oryx_marl.{module}"), attribute)
        assert found is getattr(oryx_marl, attribute)


@cache
def command_page() -> str:
    return load_hook("commands").render()


@cache
def command_titles() -> set[str]:
    return set(re.findall(r"^#+ (oryx .+)$", command_page(), re.MULTILINE))


def test_every_command_is_in_the_reference() -> None:
    wanted = {f"oryx train {name.replace('_', '-')}" for name in registry.names("algorithms")}
    suites = registry.names("bench.suites")
    wanted |= {f"oryx bench {name.replace('_', '-')}" for name in suites}
    wanted |= {"oryx demo", "oryx eval", "oryx report", "oryx data import", "oryx data check"}
    assert wanted <= command_titles()


def test_flags_are_in_the_reference_with_their_help() -> None:
    page = command_page()
    section = page.split("### oryx train oryx\n")[1].split("\n### ")[0]
    default = registry.load("algorithms", "oryx").Config().td_lambda
    (text,) = re.findall(r"^\| `--td-lambda FLOAT` \| (.+) \|$", section, re.MULTILINE)
    assert re.fullmatch(rf".{{20,}} \(default: {default}\)", text)
    assert "| `--num-heads INT` |" in section
    shared = page.split("## oryx train\n")[1].split("\n### ")[0]
    assert "| `--seeds INT` | " in shared
    assert "--seeds" not in section.split("```")[2]
    assert "│" not in page


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def test_results_tables_are_generated(benchmarks: None) -> None:
    import documents
    import online
    import ope_validation
    import speed_tables
    import suite_tables

    speed = speed_tables.tables(ROOT / "results" / "speed")
    tables = {**suite_tables.tables(), **online.tables(), **ope_validation.tables(), **speed}
    found = list(documents.parts())
    assert {name for _, name, _ in found} == {*tables}
    for page, name, text in found:
        assert text == tables[name], f"{name} in {page}"


def test_pictures_are_generated(benchmarks: None) -> None:
    import suite_tables

    for name, content in suite_tables.pictures().items():
        assert (DOCS / "pictures" / name).read_text() == content
        assert f"pictures/{name}" in read("docs/results/tmaze.md")


def test_every_environment_is_shown() -> None:
    shown = re.findall(
        r"!\[.+\]\(\.\./(pictures/.+\.png)\)\n\n```\noryx .+ --env (\S+)",
        read("docs/reference/environments.md"),
    )
    assert {base.find(name)[0] for _, name in shown} == {*registry.names("envs")}
    for picture, name in shown:
        assert picture == f"pictures/{name}.png"
        assert (DOCS / picture).stat().st_size < 10_000


@pytest.mark.slow
def test_pictures_of_environments_are_generated(benchmarks: None) -> None:
    """To the byte but for SMAX, whose places depend on how a machine rounds."""
    import environment_pictures

    for name in environment_pictures.SCENES:
        kept = (DOCS / "pictures" / f"{name}.png").read_bytes()
        made = environment_pictures.draw(name)
        assert made == kept or (
            name.startswith("smac") and len(made) == pytest.approx(len(kept), 0.1)
        )
