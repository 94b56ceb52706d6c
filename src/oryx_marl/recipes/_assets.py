"""Pretrained policies, too large for the package: found in a checkout, or downloaded once.

The manifest names every file with its size and SHA-256, so that a name means the same policy
wherever it comes from.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import platformdirs

from oryx_marl import files
from oryx_marl.data.hub.fetch import Advice, fetch
from oryx_marl.errors import OryxError

VARIABLE = "ORYX_ASSETS_URL"
"""Environment variable: base address of a copy of `assets/`, such as that of a release."""
MANIFEST = Path(__file__).parent / "assets.json"
PACKAGED = Path(__file__).parent / "pretrained"
"""The few that are small enough to be installed with the package."""
SOURCE = Path(__file__).parents[3]
"""Root of the repository, where this runs from a checkout."""
WHERE = f"{VARIABLE} must be the address of a copy of the repository's folder assets/"
ADVICE = Advice(
    f"Is there a network, and is a proxy needed ($https_proxy)? {WHERE}",
    "give the same command again",
)


class Asset(NamedTuple):
    """A file of the manifest."""

    name: str
    """Path under `assets/` and after the base address: `con-5x5x3a/123.npz`."""
    size: int
    sha256: str


@cache
def manifest() -> dict[str, Asset]:
    """Every asset by name."""
    entries = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return {name: Asset(name, each["bytes"], each["sha256"]) for name, each in entries.items()}


def checkpoints(task: str) -> list[str]:
    """Names of the checkpoints of a task's training in its order; none if there are none."""
    found = [name for name in manifest() if name.startswith(f"{task}/")]
    return sorted(found, key=lambda name: (len(name), name))  # by the number of the update


def locate(names: Sequence[str], tell: Callable[[str], None] = lambda message: None) -> list[Path]:
    """The files of these assets, checked against the manifest; downloaded if they are not here."""
    require(names)
    assets = [manifest()[name] for name in names]
    return [_find(asset) or _download(asset, tell) for asset in assets]


def require(names: Sequence[str]) -> None:
    """Raises if an asset is not here and no address to download it from is given."""
    missing = [name for name in names if _find(manifest()[name]) is None]
    if missing and not os.environ.get(VARIABLE):
        size = sum(manifest()[name].size for name in missing)
        own = "; or act with a run of yours: --policy RUN" if len(names) == 1 else ""
        raise OryxError(
            f"pretrained policies that this needs are not installed with the package: "
            f"{', '.join(missing)} ({size / 1e6:.1f} MB). Set {VARIABLE} to the address of a copy "
            "of the repository's folder assets/, from which they are downloaded once; or use "
            f"oryx-marl from a checkout, which has them{own}"
        )


def checkout() -> Path | None:
    """The folder `assets/` of the repository that this code runs from, if it does."""
    is_checkout = (SOURCE / "pyproject.toml").is_file() and (SOURCE / "assets").is_dir()
    return SOURCE / "assets" if is_checkout else None


def cache_folder() -> Path:
    """Where downloads are kept."""
    return platformdirs.user_cache_path("oryx-marl") / "assets"


def write_manifest() -> None:
    """Describes what is in the package and the checkout now."""
    places = [PACKAGED, *filter(None, [checkout()])]
    found = {
        path.relative_to(place).as_posix(): {"bytes": path.stat().st_size, "sha256": _hash(path)}
        for place in places
        for path in place.rglob("*.npz")
    }
    files.write_text(MANIFEST, json.dumps(dict(sorted(found.items())), indent=1) + "\n")
    manifest.cache_clear()


def _find(asset: Asset) -> Path | None:
    """The file in the package, the checkout or the cache; one that is damaged there is none."""
    if (packaged := PACKAGED / asset.name).is_file():
        return packaged
    if (ours := checkout()) and (ours / asset.name).is_file():
        if _hash(ours / asset.name) != asset.sha256:
            raise OryxError(
                f"{ours / asset.name} is not the file that {MANIFEST.name} names: its SHA-256 "
                "differs; restore it: git checkout -- assets"
            )
        return ours / asset.name
    cached = cache_folder() / asset.name
    return cached if cached.is_file() and _hash(cached) == asset.sha256 else None


def _download(asset: Asset, tell: Callable[[str], None]) -> Path:
    """Into a folder of its own first: others may download the same, or this process be killed."""
    base, target = os.environ[VARIABLE].rstrip("/"), cache_folder() / asset.name
    if not base.startswith(("https://", "http://")):
        raise OryxError(f"{VARIABLE} must begin with https:// or http://, got '{base}'")
    url = f"{base}/{asset.name}"
    tell(f"downloading the pretrained policy {asset.name} ({asset.size / 1e6:.1f} MB)")
    with files.explain(target, "Make room, or let XDG_CACHE_HOME name another cache folder"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as folder:
            draft = Path(folder) / target.name
            fetched = fetch(lambda _: url, "", draft, most=asset.size, advice=ADVICE)
            if fetched.sha256 != asset.sha256:
                raise OryxError(
                    f"{url} is not the file of this version: its SHA-256 is {fetched.sha256}, not "
                    f"{asset.sha256}. It was deleted. {WHERE} of this version"
                )
            draft.replace(target)
    return target


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
