"""All tests run with shapes and types of every annotated function checked."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import jax
import jaxtyping
import pytest

os.environ["ORYX_COMPILATION_CACHE"] = "0"  # nothing of the user's is read or changed
os.environ["ORYX_CLONES"] = "0"

# Nobody pulls the plug here: to wait for the disk takes minutes. What is synced before success is
# reported is seen by the campaigns, in processes of their own.
os.fsync = lambda descriptor: None

# For as long as the tests run: the package imports most of its modules when they are asked for.
jaxtyping.install_import_hook("oryx_marl", "checked.check")

# Accelerators multiply float32 in lower precision by default; equalities are tested in full.
jax.config.update("jax_default_matmul_precision", "highest")


MOST_MAPS = 25_000
"""Memory maps of a process before compiled programs are given up; Linux allows 65,530, and beyond
them the compiler crashes."""


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Every compiled program holds some memory maps, and files hardly share any."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def own_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plug-ins that a test adds are forgotten after it."""
    from oryx_marl import registry

    monkeypatch.setattr(registry, "_added", {})


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that give a wrong type on purpose, to see what a user would be told."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


LONGEST_FIRST = (
    "test_conformance_algorithms",
    "test_cli",
    "test_recurrent_state",
    "test_data_units",
    "test_conformance_envs",
    "test_recipes",
    "test_online",
    "test_runner",
    "test_devices",
    "test_sable_ppo",
    "test_split",
)
"""Files with which the workers begin, so that none is left alone with a long one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of the files; one worker runs all tests of a file, which share what is compiled."""
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))
