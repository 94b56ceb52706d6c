"""Compiled programs are kept between runs: JAX's persistent cache, in the user's cache folder.

Without it every training compiles for 17 to 48 seconds on a GPU before its first update.
"""

import hashlib
import importlib
import os
import platform
import stat
import warnings
import zlib
from pathlib import Path

import jax
import platformdirs

from oryx_marl.errors import OryxWarning

VARIABLE = "ORYX_COMPILATION_CACHE"
"""Environment variable: 0 for no cache, or another folder for it."""
MAX_BYTES = 2 * 2**30
MIN_COMPILE_SECONDS = 0.5
"""What compiles faster is not kept."""
ZSTD = b"\x28\xb5\x2f\xfd"
"""What data compressed by zstd begin with."""
CHECKED = "checked"
"""File whose time says up to when entries are known to be whole."""


def use_cache() -> Path | None:
    """From now on this process keeps what it compiles; returns the folder, None without a cache.

    A cache that the user has given to JAX is left as it is.
    """
    told = os.environ.get(VARIABLE, "")
    if told == "0" or jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        return None
    root = Path(told) if told else platformdirs.user_cache_path("oryx-marl") / "compiled"
    folder = root / _machine()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _distrust(root) or _distrust(folder)
        if problem:
            warnings.warn(
                f"{problem}: nothing compiled is kept or taken from there; {VARIABLE} "
                "names another folder, 0 none",
                OryxWarning,
                stacklevel=2,
            )
            return None
        _drop_damaged(folder)
        _prune(root, MAX_BYTES)
    except OSError:  # read-only or full: compiling anew is always possible
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
    return folder


def _machine() -> str:
    """Programs for CPUs use instructions that another machine with the same home may not have."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        processor = platform.processor()
    features = f"{platform.platform()} {processor} {jax.__version__}"
    return hashlib.sha256(features.encode()).hexdigest()[:16]


def _distrust(folder: Path) -> str | None:
    """Who can write compiled programs there can run anything in this process."""
    if not hasattr(os, "getuid"):
        return None
    found = folder.stat()
    if found.st_uid != os.getuid():
        return f"{folder} belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{folder} can be written by other users"
    return None


def _drop_damaged(folder: Path) -> None:
    """Removes what a killed process left unfinished: JAX would neither use nor replace it."""
    stamp = folder / CHECKED
    since = stamp.stat().st_mtime if stamp.exists() else 0.0
    for path in folder.glob("*-cache"):
        if path.stat().st_mtime >= since and not _is_whole(path.read_bytes()):
            path.unlink(missing_ok=True)
    stamp.touch()


def _is_whole(entry: bytes) -> bool:
    """JAX compresses with zstd if the package `zstandard` is there, else with zlib."""
    try:
        if entry.startswith(ZSTD):
            importlib.import_module("zstandard").ZstdDecompressor().decompress(entry)
        else:
            zlib.decompress(entry)
    except ImportError:
        return True
    except Exception:  # zlib.error, or that of a package that need not be there
        return False
    return True


def _prune(root: Path, most: int) -> None:
    """Removes what was not used for longest, until `most` bytes are left."""
    found = [(path, path.stat()) for path in root.rglob("*") if path.is_file()]
    excess = sum(each.st_size for _, each in found) - most
    for path, each in sorted(found, key=lambda one: max(one[1].st_atime, one[1].st_mtime)):
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= each.st_size
