"""The frame of every page: one file that loads nothing from anywhere."""

import base64
import hashlib
from html import escape
from pathlib import Path

from oryx_marl import __version__, files
from oryx_marl.report import numbers


def render(title: str, body: str, *scripts: str) -> str:
    """A page; `body` is markup, and `scripts` are the only ones that the browser will run.

    Where a browser cannot read one of them, the others run all the same.
    """
    allowed = " ".join(map(_allow, scripts)) or "'none'"
    # The browser itself is told to load nothing from anywhere and to run these scripts only.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}"
    elements = "\n".join(f"<script>{script}</script>" for script in scripts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{package_file("page.css")}</style>
</head>
<body>
<main>
{body}
<footer>Written by oryx-marl {escape(__version__)}. This page is one file and loads nothing
from the network.</footer>
</main>
{elements}
</body>
</html>
"""


def _allow(script: str) -> str:
    """A script as a page's security policy names it."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def write(page: str, target: Path) -> Path:
    """Puts a page in its place, whole or not at all; also while its run is being trained."""
    advice = "Make room, or choose another place for the page"
    files.write_text(target, page, advice, draft_per_process=True)
    return target


def section(title: str, text: str, body: str) -> str:
    """A part of the page; `body` is markup, the rest is text."""
    return f'<section><h2>{title}</h2>\n<p class="lead">{escape(text)}</p>\n{body}</section>\n'


def absent(title: str, why: str, consequence: str) -> str:
    """One quiet sentence where something is not there."""
    sentence = escape(f"{why}, so {consequence}.")
    return f'<section><h2>{title}</h2>\n<p class="quiet">{sentence}</p></section>\n'


def count(number: int, noun: str) -> str:
    """1 seed, 3 seeds."""
    return f"{numbers.one(number)} {noun}{'' if number == 1 else 's'}"


def legend(keys: list[tuple[str, str]]) -> str:
    """What the lines of a chart mean."""
    items = "".join(f'<li><i class="{kind}"></i>{escape(text)}</li>' for kind, text in keys)
    return f'<ul class="legend">{items}</ul>'


def pairs(values: dict[str, str]) -> str:
    """Names and values in two columns."""
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in values.items()
    )
    return f"<dl>{rows}</dl>" if rows else ""


def package_file(name: str) -> str:
    """A file that lies beside this one."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
