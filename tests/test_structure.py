"""What keeps the package readable: short functions, no copies, environments named at home."""

import ast
import difflib
import itertools
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import jaxtyping
import pytest

from oryx_marl import registry
from oryx_marl.ops.masked import masked_mean

SOURCE = Path(__file__).parent.parent / "src" / "oryx_marl"
LONGEST_FUNCTION = 60
KERNELS = {"ops/retention_kernel.py"}
"""A kernel is one program: cut into functions, it would hide which memory is alive when."""
LARGEST_LIKENESS = 0.20
"""Of algorithm files, mean over pairs."""
ENVIRONMENT = re.compile(
    r"tmaze|connector|smax|con-|smacv2|anticoordination|recall-|hanabi", re.IGNORECASE
)
AT_HOME = ("envs/", "recipes/", "bench/", "data/hub/")
"""Where environments may be named: their rules, their data, the paper's experiments, archives."""
EXAMPLES = {
    ("cli/demo.py", "tmaze/planner-expert"): "the demo's dataset, which its user can change",
    (
        "cli/explore.py",
        "name at least one dataset, such as tmaze/planner-mixed",
    ): "an example in a message for people",
    ("cli/commands.py", "oryx train oryx tmaze/planner-expert --seeds 3"): "an example in the help",
}
"""Literals that are allowed elsewhere, and why."""


def files() -> Iterator[tuple[str, str]]:
    """Path within the package, and text."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path.read_text()


def test_no_function_is_long() -> None:
    found = {}
    for name, text in files():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                found[f"{name}:{node.name}"] = node.end_lineno - node.lineno + 1
    assert len(found) > 500
    long = {name: lines for name, lines in found.items() if lines > LONGEST_FUNCTION}
    assert {name for name in long if name.split(":")[0] not in KERNELS} == set()


def test_algorithms_are_no_copies_of_each_other() -> None:
    algorithms = [SOURCE / "algorithms" / f"{name}.py" for name in registry.names("algorithms")]
    lines = {
        path.stem: [line.strip() for line in path.read_text().splitlines() if line.strip()]
        for path in algorithms
        if path.exists()  # all but plug-ins
    }
    assert len(lines) >= 8
    likeness = {
        pair: difflib.SequenceMatcher(None, *(lines[name] for name in pair)).ratio()
        for pair in itertools.combinations(lines, 2)
    }
    assert statistics.mean(likeness.values()) < LARGEST_LIKENESS, likeness


def literals(text: str) -> Iterator[str]:
    """All strings of a module but docstrings, which address people."""
    tree = ast.parse(text)
    told = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value
        if isinstance(node, ast.ImportFrom | ast.Import):
            module = getattr(node, "module", None) or ""
            yield from (f"{module}.{alias.name}" for alias in node.names)


def test_environments_are_named_at_home_alone() -> None:
    found = {
        (name, literal)
        for name, text in files()
        if not name.startswith(AT_HOME)
        for literal in literals(text)
        if ENVIRONMENT.search(literal)
    }
    assert found - {*EXAMPLES} == set()


def test_literals_are_seen() -> None:
    code = '"""tmaze"""\nfrom oryx_marl.envs import tmaze\nx = 1\n"""smax"""\ny = f"con-{x}"\n'
    assert [each for each in literals(code) if ENVIRONMENT.search(each)] == [
        "oryx_marl.envs.tmaze",
        "con-",
    ]


def test_shapes_are_checked_while_tests_run() -> None:
    """By the hook of conftest.py, which once ended before the first module was imported."""
    with pytest.raises(jaxtyping.TypeCheckError):
        masked_mean(jnp.zeros((2, 3)), jnp.ones((3, 2), bool))
