"""MkDocs hook: reference/cli.md, made of what every `oryx ... --help` prints."""

import contextlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PAGE = "reference/cli.md"
WIDTH = "100"
"""Columns of the help; boxes stand one below the other up to about 120."""
INTRODUCTION = """# Command line

Generated from `oryx ... --help` of the installed version.

With any command, `--plugin FILE` adds the algorithm, environment, importer or recipes of a Python
file ([Plug-ins](../extend/index.md)); it can be repeated. `--allow-large` lifts the
[limits](untrusted.md#limits) on what files may ask for, `--debug` shows the stack of an unexpected
error. `--config FILE` takes flags from a [TOML file or a run](../guides/training.md#config-files),
and `--print-config` prints such a file instead of doing anything. `oryx --version` prints the
version. Flags that switch something on, such as `--x`, have a `--no-x`.

Exit codes: 0 done; 1 an error while working, whose message says what to do; 2 wrong arguments or
values; 70 an error of the program, whose stack is in the file that the message names; 130 stopped
with Ctrl-C, with everything saved.
"""


@dataclass
class Group:
    """A box of a help text."""

    title: str
    about: str = ""
    rows: list[tuple[str, str]] = field(default_factory=list)
    """Flag, or sub-command, and its help."""


@dataclass
class Help:
    """What one `--help` says."""

    usage: str
    description: str
    groups: list[Group]

    @property
    def commands(self) -> list[str]:
        """Names of sub-commands."""
        return [
            name for group in self.groups if group.title == "subcommands" for name, _ in group.rows
        ]


def help_text(words: list[str]) -> str:
    """What `oryx WORDS --help` prints."""
    from oryx_marl.cli.main import main

    before = os.environ.get("COLUMNS")
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # which is why boxes are drawn
    os.environ["COLUMNS"] = WIDTH
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    printed.seek(0)
    return re.sub(r"\x1b\[[0-9;]*m", "", printed.read())


def parse(text: str) -> Help:
    """A help text in its parts."""
    head, *boxes = re.split(r"^╭─ ", text, flags=re.MULTILINE)
    usage, _, description = head.partition("\n\n")
    groups = []
    for box in boxes:
        title, *lines = box.splitlines()
        inner = [line[2:].rstrip("│ ") for line in lines if line.startswith("│")]
        groups.append(_parse_box(title.split(" ─")[0].strip(), inner))
    return Help(" ".join(usage.split()), " ".join(description.split()), groups)


def _parse_box(title: str, lines: list[str]) -> Group:
    group = Group(title)
    pattern = r"  • (\S+)\s*(.*)" if title == "subcommands" else r"(\S.*?)(?:\s{2,}(.*)|$)"
    if (
        rule := next((i for i, line in enumerate(lines) if line.startswith("──")), None)
    ) is not None:
        group.about, lines = " ".join(" ".join(lines[:rule]).split()), lines[rule + 1 :]
    for line in lines:
        found = re.fullmatch(pattern, line)
        if found and line != "(required)":
            group.rows.append((found[1], (found[2] or "").strip()))
        elif group.rows and line.strip():
            name, text = group.rows[-1]
            group.rows[-1] = (name, f"{text} {line.strip()}".strip())
    return group


def walk(words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Help]]:
    """Every command with its help, from the top down."""
    found = parse(help_text([*words]))
    yield words, found
    for name in found.commands:
        yield from walk((*words, name))


def render() -> str:
    """The page."""
    found = dict(walk())
    sections = [INTRODUCTION]
    for words, help_ in found.items():
        children = [found[*words, name] for name in help_.commands]
        siblings = (
            [found[*words[:-1], name] for name in found[words[:-1]].commands] if words else []
        )
        if words:
            own = [group for group in help_.groups if not _is_shared(group, siblings)]
            shared = [group for group in _all_groups(children) if _is_shared(group, children)]
            sections.append(_render_command(words, help_, own, shared))
    return "\n".join(sections)


def _all_groups(helps: list[Help]) -> list[Group]:
    """The different groups of some commands."""
    found: list[Group] = []
    for group in (group for each in helps for group in each.groups):
        if group not in found:
            found.append(group)
    return found


def _is_shared(group: Group, helps: list[Help]) -> bool:
    """Whether several commands have the same group, which is then shown once, above them."""
    return group.title != "subcommands" and sum(group in each.groups for each in helps) > 2


def _render_command(
    words: tuple[str, ...], help_: Help, own: list[Group], shared: list[Group]
) -> str:
    lines = [f"{'#' * min(len(words) + 1, 3)} oryx {' '.join(words)}", "", help_.description, ""]
    if not help_.commands:
        lines += ["```text", help_.usage.removeprefix("usage: "), "```", ""]
    if any(_rows(group) for group in shared):
        lines += ["Most of these commands take:", ""]
    for group in (*shared, *own):
        lines += _render_group(group)
    return "\n".join(lines)


def _render_group(group: Group) -> list[str]:
    rows = _rows(group)
    if group.title == "subcommands" or not rows:
        return []
    about = f": {_escape(group.about)}" if group.about else ""
    table = [f"| {_flag(name)} | {_escape(text)} |" for name, text in rows]
    heads = "| flag | |" if rows[0][0].startswith("-") else "| argument | |"
    return [f"**{group.title}**{about}", "", heads, "|---|---|", *table, ""]


def _rows(group: Group) -> list[tuple[str, str]]:
    return [(name, text) for name, text in group.rows if not name.startswith("-h,")]


def _flag(name: str) -> str:
    """A flag and its value, without how to switch it off or that it may be left out."""
    name = re.sub(r"^(--\S+), --no-\S+$", r"\1", name).replace("{None}|", "")
    return f"`{name}`".replace("|", "\\|")


def _escape(text: str) -> str:
    text = re.sub(r" *\(default: (None)?\)$", "", text)
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def on_files(files: Any, config: Any) -> Any:
    """Adds the page."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=render()))
    return files
