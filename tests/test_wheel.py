"""What is installed: everything that is needed, nothing heavy."""

import email
import email.policy
import io
import os
import re
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path

import docs_pages
import pytest
import yaml

import oryx_marl

ROOT = Path(__file__).parent.parent
PACKAGE = Path(oryx_marl.__file__).parent
MOST_BYTES = 3_000_000
OTHER = ("__pycache__", ".DS_Store")


def test_the_wheel_is_small() -> None:
    """Everything under src/oryx_marl goes into the wheel (pyproject.toml), compressed like this."""
    found = [path for path in PACKAGE.rglob("*") if path.is_file()]
    chosen = [path for path in found if not {*path.parts} & {*OTHER}]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in chosen:
            wheel.write(path, path.relative_to(PACKAGE))
    assert len(stream.getvalue()) <= MOST_BYTES
    names = {path.relative_to(PACKAGE).as_posix() for path in chosen}
    assert {
        "py.typed",
        "recipes/assets.json",
        "recipes/pretrained/tmaze/final.npz",
        "report/viewer.js",
        "report/live/graph.js",
        "envs/live/tmaze.js",
        "data/embedded/tmaze.vlt/planner-mixed/metadata.json",
    } <= names


def build(what: str, folder: Path, **addresses: str) -> Path:
    """A wheel, or its metadata alone, made as `pip` makes it."""
    code = f"import sys, hatchling.build as b; print(b.{what}(sys.argv[1]))"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORYX_")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT,
        env={**kept, **addresses},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


def read_metadata(text: str) -> tuple[Message, str]:
    """Fields, and the README."""
    found = email.message_from_string(text, policy=email.policy.default)
    return found, found.get_payload()


def relative_links(text: str) -> list[str]:
    return [link for link in docs_pages.links(text) if not re.match("[a-z]+:", link)]


def test_the_readme_of_the_wheel_has_no_relative_links(tmp_path: Path) -> None:
    assert len(relative_links(docs_pages.README)) > 20
    wheel = build("build_wheel", tmp_path)
    assert wheel.stat().st_size <= MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
        fields, readme = read_metadata(archive.read(name).decode())
        assert "oryx_marl/report/viewer.js" in archive.namelist()
    assert fields["Version"] == oryx_marl.__version__
    assert fields["Description-Content-Type"] == "text/markdown"
    assert fields.get_all("Project-URL") is None
    assert relative_links(readme) == []
    assert docs_pages.links(readme) == []
    assert "(Picture in the repository: Normalised score over the number of agents.)" in readme
    assert "imports of tables, JSON Lines, arrays, Minari and Vaults; 41 kinds" in readme
    blocks = [block.text for block in docs_pages.blocks(docs_pages.README)]
    assert [block.text for block in docs_pages.blocks(readme)] == blocks


def test_with_an_address_links_lead_into_the_repository(tmp_path: Path) -> None:
    where = "https://example.org/team/oryx-marl"
    site = "https://docs.example.org"
    addresses = {"ORYX_REPOSITORY_URL": f"{where}/", "ORYX_DOCUMENTATION_URL": site}
    found = build("prepare_metadata_for_build_wheel", tmp_path, **addresses)
    fields, readme = read_metadata((found / "METADATA").read_text(encoding="utf-8"))
    tag = "main" if "dev" in oryx_marl.__version__ else f"v{oryx_marl.__version__}"
    assert fields.get_all("Project-URL") == [
        f"Repository, {where}",
        f"Issues, {where}/issues",
        f"Changelog, {where}/blob/{tag}/CHANGELOG.md",
        f"Documentation, {site}",
    ]
    assert relative_links(readme) == []
    assert f"![Normalised score over the number of agents]({where}/raw/{tag}/results/" in readme
    targets = [link.removeprefix(f"{where}/") for link in docs_pages.links(readme)]
    wanted = docs_pages.links(docs_pages.README)
    assert sorted(re.sub(rf"^(blob|raw)/{tag}/", "", target) for target in targets) == wanted
    assert "[data issue](" in readme


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ORYX_REPOSITORY_URL must be an address"):
        build("prepare_metadata_for_build_wheel", tmp_path, ORYX_REPOSITORY_URL="git@example.org:a")


def test_the_citation_names_this_version() -> None:
    """The fields that the format needs, and those that people need."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    assert {"cff-version", "message", "title", "authors"} <= found.keys()
    assert found["cff-version"] == "1.2.0"
    assert found["type"] == "software"
    assert found["version"] == oryx_marl.__version__
    assert found["license"] == "Apache-2.0"
    paper = found["preferred-citation"]
    assert {"type", "title", "authors", "year"} <= paper.keys()
    assert len(paper["authors"]) == 13
    assert f"version = {{{oryx_marl.__version__}}}" in docs_pages.README
    assert paper["title"].split(":")[1].split(" in ")[0] in docs_pages.README
