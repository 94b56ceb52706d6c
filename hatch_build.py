"""Build hook: the package's addresses, and a README without relative links.

Where the repository is public, the build is told its address:

    ORYX_REPOSITORY_URL=https://example.org/team/oryx-marl python -m build

Links and pictures of the README then lead there, and the package has project URLs. Without it links
become plain text: on a package index, files of the repository are not beside the page.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "ORYX_REPOSITORY_URL"
DOCUMENTATION = "ORYX_DOCUMENTATION_URL"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
"""A picture's mark, the text, and where it leads to."""
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


class CustomMetadataHook(MetadataHookInterface):
    """Fills in `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        version = (Path(self.root) / "src" / "oryx_marl" / "__init__.py").read_text()
        found = re.search(r'^__version__ = "(.+)"', version, re.MULTILINE)
        assert found is not None
        repository = find_address(REPOSITORY)
        tag = "main" if "dev" in found[1] else f"v{found[1]}"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = make_absolute(text, repository, tag)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = make_urls(repository, find_address(DOCUMENTATION), tag)


def find_address(variable: str) -> str | None:
    """The address that the environment has, if any."""
    address = os.environ.get(variable, "").strip().rstrip("/")
    if address and not re.fullmatch(r"https://[\w.-]+(/[\w.~-]+)*", address):
        raise ValueError(f"{variable} must be an address that begins with https://, got {address}")
    return address or None


def make_urls(repository: str | None, documentation: str | None, tag: str) -> dict[str, str]:
    """The project's addresses; those that are not known are left out."""
    found = {} if documentation is None else {"Documentation": documentation}
    if repository is None:
        return found
    return {
        "Repository": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        **found,
    }


def make_absolute(text: str, repository: str | None, tag: str) -> str:
    """Markdown whose relative links lead into the repository, or are plain text without one."""

    def replace(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        if re.match(r"[a-z]+:", target):
            return link[0]
        if repository is None or target.startswith("#"):
            return f"(Picture in the repository: {words}.)" if mark else words
        kind = "raw" if mark else "blob"
        return f"{mark}[{words}]({repository}/{kind}/{tag}/{target})"

    # Blocks of code stay as they are.
    parts, codes = FENCE.split(text), [*FENCE.findall(text), ""]
    changed = (LINK.sub(replace, part) + code for part, code in zip(parts, codes, strict=True))
    return "".join(changed)
