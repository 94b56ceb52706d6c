"""The package speaks the field's words: names that were retired do not come back.

Names on disk (`infos.legals`, `held_out.json`) stay, and `renamed.py` knows the old ones.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
IDENTIFIERS = {
    "legal",
    "legals",
    "present",
    "Live",
    "Logged",
    "Stretch",
    "Part",
    "Parts",
    "Facts",
    "Told",
    "trace",
    "Trace",
    "target_rate",
    "act_on_average",
    "leave_out_bad_rows",
    "keep_going",
    "imitable",
    "imitated_share",
    "uses_next",
    "with_following",
    "starts_per_step",
    "mend",
    "mended",
    "init_memory",
    "Memory",
    "guess",
    "_find_out",
    "MOMENTS",
    "KEPT",
}
PHRASES = re.compile(
    r"\bforet\w+|\bmend(s|ed|ing)?\b|\bbeginnings\b|\bkept polic|\blost seeds?\b|\bimitated share\b"
    r"|\bimitable\b|--(legal|present|trace|target-rate|act-on-average|leave-out-bad-rows"
    r"|keep-going)\b|\bkeep_going\b|leave_out_bad_rows|act_on_average|target_rate",
    re.IGNORECASE,
)
OLD_NAMES = {"renamed.py"}
"""Files whose subject they are."""


def sources() -> Iterator[Path]:
    for folder in ("src", "benchmarks", "docs"):
        yield from (p for p in sorted((ROOT / folder).rglob("*.py")) if p.name not in OLD_NAMES)


def documents() -> Iterator[Path]:
    yield from [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


def identifiers(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of every identifier; inside f-strings too."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string
        elif token.type == tokenize.STRING and re.match("[rR]?[fF]", token.string):
            for braces in re.findall(r"\{([^{}]*)\}", token.string):
                for name in re.findall(r"[A-Za-z_]\w*", braces):
                    yield token.start[0], name


def test_no_retired_identifier() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sources()
        for line, name in identifiers(path.read_text())
        if name in IDENTIFIERS
    ]
    assert found == []


@pytest.mark.parametrize("kind", ["code", "documents"])
def test_no_retired_phrase(kind: str) -> None:
    paths = sources() if kind == "code" else documents()
    found = [
        f"{path.relative_to(ROOT)}:{number} {hit.group()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (hit := PHRASES.search(line))
    ]
    assert found == []


def test_what_is_looked_for_would_be_found() -> None:
    assert [name for _, name in identifiers('x = f"{a.legal} legal"')] == ["x", "a", "legal"]
    assert PHRASES.search("how well actions are foretold")
    assert PHRASES.search("use --keep-going")
    assert not PHRASES.search("a recommendation to keep going")
