"""MkDocs hook: files of results/ that a page links to are put into the site, under records/."""

import posixpath
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(\]\()([^)#\s]+)(\))")
FOLDER = "results/"


def _record(page: str, link: str) -> str | None:
    """The path in the repository, if a link leads from a page of docs/ to a file of results/."""
    if ":" in link:
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return path if path.startswith(FOLDER) else None


def on_files(files: Any, config: Any) -> Any:
    """Adds every record that a page links to."""
    from mkdocs.structure.files import File

    root = Path(config.docs_dir).parent
    found = {
        record
        for page in files.documentation_pages()
        for _, link, _ in LINK.findall(page.content_string)
        if (record := _record(page.src_uri, link)) and (root / record).is_file()
    }
    for record in sorted(found):
        place = f"records/{record.removeprefix(FOLDER)}"
        files.append(File.generated(config, place, abs_src_path=str(root / record)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to records lead into the site."""

    def lead(found: re.Match[str]) -> str:
        record = _record(page.file.src_uri, found[2])
        if record is None:
            return found[0]
        place = f"records/{record.removeprefix(FOLDER)}"
        here = posixpath.dirname(page.file.src_uri)
        return f"{found[1]}{posixpath.relpath(place, here or '.')}{found[3]}"

    return LINK.sub(lead, markdown)
