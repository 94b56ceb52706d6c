"""All tests run with shapes and types of every annotated function checked."""

import jax
import pytest
from jaxtyping import install_import_hook

with install_import_hook("oryx_marl", "beartype.beartype"):
    import oryx_marl  # noqa: F401

# Accelerators multiply float32 in lower precision by default; equalities are tested in full.
jax.config.update("jax_default_matmul_precision", "highest")

LONGEST_FIRST = ("test_cli", "test_recipes", "test_conformance_algorithms", "test_online")
"""Files with which the workers begin, so that none is left alone with a long one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all tests of a file, as they share what was compiled; of the conformance
    suites, all tests of an algorithm or environment."""
    for item in items:
        group = item.path.stem
        if group.startswith("test_conformance"):
            group += item.name.partition("[")[2]
        item.add_marker(pytest.mark.xdist_group(group))
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))
