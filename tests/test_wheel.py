"""What is installed: everything that is needed, nothing heavy."""

import io
import zipfile
from pathlib import Path

import oryx_marl

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
