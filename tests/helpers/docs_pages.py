"""The documents in pieces: links, anchors, blocks of code, commands."""

import importlib.util
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md")),
]
"""Every document, by its path in the repository."""
GENERATED = {"docs/reference/cli.md": "commands", "docs/tutorials/own-logs.md": "notebooks"}
"""Pages that a hook of the site makes, and the hook."""
COMMAND = re.compile(r"oryx ((?:demo|train|eval|data|bench|report|replay|serve|completion)\b[^#]*)")
"""A command up to its comment."""


class Block(NamedTuple):
    """A block of code; without a language it is for the shell."""

    language: str
    text: str


@cache
def read(page: str) -> str:
    return (ROOT / page).read_text()


@cache
def _tokens(text: str) -> list[Token]:
    found = MarkdownIt("commonmark").enable("table").parse(text)
    return found + [child for token in found for child in token.children or ()]


def blocks(text: str) -> list[Block]:
    return [
        Block(token.info.strip(), token.content) for token in _tokens(text) if token.type == "fence"
    ]


def links(text: str) -> list[str]:
    """Where links and pictures lead to."""
    found = [token.attrGet("href") or token.attrGet("src") for token in _tokens(text)]
    # What is indented under a footnote is code to this parser, and text to the site's.
    found += re.findall(r"^    .*?\]\(([^)\s]+)\)", text, re.MULTILINE)
    return sorted({str(link) for link in found if link})


def commands(text: str) -> list[str]:
    """Every whole command, in blocks for the shell and in the text."""
    lines = [
        line for block in blocks(text) if not block.language for line in block.text.split("\n")
    ]
    lines += [each for each in _inline(text) if each not in mentions(text)]
    found = [COMMAND.fullmatch(re.sub(r"\s+#.*", "", line).strip()) for line in lines]
    words = [match[1].strip() for match in found if match]
    # A run that is continued or repeated has its settings in its folder, which is not here.
    return [each for each in words if not re.match("train --(resume|config runs/)", each)]


def mentions(text: str) -> list[str]:
    """Flags in the text, and names of commands without arguments."""
    name = re.compile(r"oryx (?:\w+|(?:data|train|bench) [\w-]+)")
    return [each for each in _inline(text) if each.startswith("--") or name.fullmatch(each)]


def _inline(text: str) -> list[str]:
    """Code within the text; of a command that is cut off (`...`) what stands before that."""
    found = [token.content for token in _tokens(text) if token.type == "code_inline"]
    return [each.split(" ...")[0] for each in found]


@cache
def anchors(page: str) -> set[str]:
    """What `#...` can name on a page of the site."""
    text = load_hook(GENERATED[page]).render() if page in GENERATED else read(page)
    tokens = _tokens(text)
    titles = [
        following.content for token, following in pairwise(tokens) if token.type == "heading_open"
    ]
    return {slug(title) for title in titles} | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


def slug(title: str) -> str:
    """The anchor of a heading, as Python-Markdown makes it."""
    plain = re.sub(r"[^\w\s-]", "", title.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


@cache
def load_hook(name: str) -> ModuleType:
    """A hook of the site as a module."""
    spec = importlib.util.spec_from_file_location(f"hook_{name}", DOCS / "hooks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
