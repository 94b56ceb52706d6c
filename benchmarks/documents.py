"""Generated parts of the documents."""

from pathlib import Path


def insert(path: Path, name: str, text: str) -> None:
    """Puts a table between its two markers."""
    marker = f"<!-- results:{name} -->\n"
    before, rest = path.read_text().split(marker)
    _, after = rest.split("<!-- /results -->", 1)
    path.write_text(f"{before}{marker}{text}\n<!-- /results -->{after}")
