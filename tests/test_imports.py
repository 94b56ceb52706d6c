"""The rooms of the package form a line: of two, the right one may import the left one.

Every import counts, inside functions too, and so does every call that loads a module by its name:
`importlib.import_module("oryx_marl...")`, helpers that take such a string, and `registry.load`,
whose room is a literal or a constant of the module.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "oryx_marl"
PACKAGE = "oryx_marl"
ROOMS = [
    "envs",
    "data",
    "ops",
    "networks",
    "algorithms",
    "policy",
    "parallel",
    "rollout",
    "eval",
    "runs",
    "loggers",
    "training",
    "ope",
    "outcomes",
    "experiment",
    "recipes",
    "resuming",
    "report",
    "trusting",
    "replaying",
    "api",
    "tuning",
    "bench",
    "serve",
    "cli",
]
ROOT = {
    "config",
    "errors",
    "files",
    "installation",
    "limits",
    "locks",
    "progress",
    "provenance",
    "reading",
    "registry",
    "renamed",
    "texts",
    "trees",
    "types",
}
"""Modules that all may import, and that import no room."""
ENTRANCES = {"__init__", "__main__"}
"""The public API and the command: they may import everything, and only the last room them."""
REGISTRY = {"load", "names", "given", "installed"}
"""Functions of the registry that take a room."""


class Edge(NamedTuple):
    """An import of another part of the package."""

    module: str
    line: int
    target: str
    """A room, a module of the root, or `__init__` for the public API."""


def part_of(module: str) -> str:
    """The room or root module that a dotted name below `oryx_marl` belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def is_part(name: str) -> bool:
    return name in ROOMS or name in ROOT or name == "__main__"


class Finder(ast.NodeVisitor):
    """All edges of one module."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.module, self.found, self.unclear = module, [], []
        self.constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self.registry: dict[str, str] = {}
        self.visit(tree)

    def add(self, node: ast.AST, target: str) -> None:
        self.found.append(Edge(self.module, node.lineno, target))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.startswith(f"{PACKAGE}."):
                self.add(node, part_of(alias.name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.level == 0, f"{self.module}:{node.lineno}: write imports in full"
        origin = node.module or ""
        if origin == PACKAGE:
            for alias in node.names:
                if alias.name != "__version__":
                    self.add(node, alias.name if is_part(alias.name) else "__init__")
        elif origin.startswith(f"{PACKAGE}."):
            self.add(node, part_of(origin))
        if origin == f"{PACKAGE}.registry":
            self.registry |= {alias.asname or alias.name: alias.name for alias in node.names}

    def visit_Attribute(self, node: ast.Attribute) -> None:
        is_package = isinstance(node.value, ast.Name) and node.value.id == PACKAGE
        if is_package and node.attr != "__version__":
            self.add(node, node.attr if is_part(node.attr) else "__init__")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        for argument in (*node.args, *(word.value for word in node.keywords)):
            value = self.text(argument)
            if value is not None and value.split(":")[0].startswith(f"{PACKAGE}."):
                self.add(node, part_of(value))
        if self.asks_registry(node.func):
            room = self.text(node.args[0]) if node.args else None
            if room is None:
                self.unclear.append(f"{self.module}:{node.lineno}")
            else:
                self.add(node, room.split(".")[0])
        self.generic_visit(node)

    def text(self, node: ast.AST) -> str | None:
        """A literal string, or that of a constant of the module."""
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Name):
            value = self.constants.get(node.id)
        return value if isinstance(value, str) else None

    def asks_registry(self, called: ast.AST) -> bool:
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            return called.value.id == "registry" and called.attr in REGISTRY
        return isinstance(called, ast.Name) and self.registry.get(called.id) in REGISTRY


def find(module: str, code: str) -> Finder:
    return Finder(module, ast.parse(code))


def is_allowed(edge: Edge) -> bool:
    source = part_of(edge.module)
    if source in ENTRANCES or edge.target == source or edge.target in ROOT:
        return True
    if source in ROOT:
        return False
    if edge.target in ENTRANCES:
        return source == ROOMS[-1]
    return edge.target in ROOMS and ROOMS.index(edge.target) < ROOMS.index(source)


def modules() -> Iterator[tuple[str, str]]:
    """Names and code of all modules of the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        is_room = parts[-1] == "__init__" and len(parts) > 2
        yield ".".join(parts[:-1] if is_room else parts), path.read_text()


def test_every_module_has_a_place() -> None:
    found = {part_of(name) for name, _ in modules()}
    assert found - {*ROOMS, *ROOT, *ENTRANCES} == set()
    assert {"envs", "data", "experiment", "recipes", "cli", "registry"} <= found


def test_no_edge_to_the_right() -> None:
    edges = [edge for name, code in modules() for edge in find(name, code).found]
    assert len(edges) > 400
    wrong = [f"{e.module}:{e.line} imports {e.target}" for e in edges if not is_allowed(e)]
    assert wrong == []


def test_every_name_that_is_loaded_is_plain_to_see() -> None:
    """But for the registry itself, which loads what it is asked for."""
    unclear = [
        place
        for name, code in modules()
        if name != f"{PACKAGE}.registry"
        for place in find(name, code).unclear
    ]
    assert unclear == []


@pytest.mark.parametrize(
    ("module", "code", "targets"),
    [
        ("data.catalog", "from oryx_marl.recipes.base import Recipe", ["recipes"]),
        ("data.catalog", "from oryx_marl import recipes, errors", ["recipes", "errors"]),
        ("data.catalog", "import oryx_marl.cli.main as cli", ["cli"]),
        ("data.catalog", "def f():\n    import oryx_marl.bench", ["bench"]),
        ("data.catalog", "if TYPE_CHECKING:\n    from oryx_marl.runs import folder", ["runs"]),
        ("data.catalog", "registry.load('recipes', name)", ["recipes"]),
        ("data.catalog", "ROOM = 'recipes'\nregistry.names(ROOM)", ["recipes"]),
        (
            "data.catalog",
            "from oryx_marl.registry import load\nload('cli', 'x')",
            ["registry", "cli"],
        ),
        ("data.catalog", "importlib.import_module('oryx_marl.recipes.tmaze')", ["recipes"]),
        ("data.catalog", "optional(module='oryx_marl.envs.adapters')", ["envs"]),
        ("data.catalog", "import oryx_marl\noryx_marl.experiment.run()", ["experiment"]),
        ("data.catalog", "import oryx_marl\noryx_marl.load('run')", ["__init__"]),
        ("data.catalog", "import oryx_marl\noryx_marl.__version__", []),
        (
            "errors",
            "from oryx_marl.types import Spec\nfrom oryx_marl.envs import base",
            ["types", "envs"],
        ),
    ],
)
def test_edges_are_seen(module: str, code: str, targets: list[str]) -> None:
    assert [edge.target for edge in find(f"{PACKAGE}.{module}", code).found] == targets


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        ("data.catalog", "recipes", False),
        ("data.catalog", "envs", True),
        ("envs.base", "data", False),
        ("cli.main", "__init__", True),
        ("bench.runner", "__init__", False),
        ("errors", "envs", False),
        ("experiment", "runs", True),
        ("training.loop", "experiment", False),
        ("registry", "errors", True),
    ],
)
def test_what_is_allowed(source: str, target: str, allowed: bool) -> None:
    assert is_allowed(Edge(f"{PACKAGE}.{source}", 1, target)) == allowed


def test_a_room_that_is_not_told_is_unclear() -> None:
    assert find(f"{PACKAGE}.data.x", "registry.load(room, 'x')").unclear == ["oryx_marl.data.x:1"]
