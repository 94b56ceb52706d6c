"""Generated parts of the documents, between `<!-- results:NAME -->` and `<!-- /results -->`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PART = re.compile(r"<!-- results:(\w+) -->\n(.*?)\n<!-- /results -->", re.DOTALL)


def pages() -> list[Path]:
    """All documents that may have such parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def parts() -> Iterator[tuple[Path, str, str]]:
    """Every generated part: its document, its name and its text."""
    for page in pages():
        for name, text in PART.findall(page.read_text()):
            yield page, name, text


def fill(tables: Mapping[str, str]) -> None:
    """Puts each table between its markers, in whichever document has them."""

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        if name not in tables:
            return found[0]
        return f"<!-- results:{name} -->\n{tables[name]}\n<!-- /results -->"

    for page in pages():
        text = page.read_text()
        if (new := PART.sub(replace, text)) != text:
            page.write_text(new)
