"""Every command by name; its module is imported when it is asked for, as JAX takes seconds."""

import dataclasses
import importlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tyro.extras import SubcommandApp

from oryx_marl import registry
from oryx_marl.errors import OryxError, UnknownNameError

ALGORITHMS = "algorithms"
SUITES = "bench.suites"


class Command(NamedTuple):
    """Where the class of a command is."""

    module: str
    name: str

    def load(self) -> type:
        """The class; imports its module."""
        return getattr(importlib.import_module(self.module), self.name)

    def about(self) -> str:
        """The first sentence of its docstring, without an import."""
        return registry.read_summary(self.module, self.name)


ALONE = {
    "completion": Command("oryx_marl.cli.completion", "Completion"),
    "demo": Command("oryx_marl.cli.demo", "Demo"),
    "eval": Command("oryx_marl.cli.evaluate", "Eval"),
    "export": Command("oryx_marl.cli.export", "Export"),
    "replay": Command("oryx_marl.cli.replay", "Replay"),
    "report": Command("oryx_marl.cli.report", "Report"),
    "serve": Command("oryx_marl.cli.serve", "Serve"),
    "trust": Command("oryx_marl.cli.trust", "TrustCommand"),
    "tune": Command("oryx_marl.cli.tune", "Tune"),
}
DATA = {
    "list": Command("oryx_marl.cli.data", "DataList"),
    "info": Command("oryx_marl.cli.explore", "DataInfo"),
    "plot": Command("oryx_marl.cli.explore", "DataPlot"),
    "make": Command("oryx_marl.cli.make", "DataMake"),
    "check": Command("oryx_marl.cli.check", "DataCheck"),
    "download": Command("oryx_marl.cli.hub", "DataDownload"),
    "import": Command("oryx_marl.cli.sources", "DataImport"),
    "export": Command("oryx_marl.cli.sources", "DataExport"),
    "subsample": Command("oryx_marl.cli.sources", "DataSubsample"),
}
PUBLISHED = Command("oryx_marl.cli.bench", "BenchPublished")
TRAIN_EXAMPLE = "oryx train oryx tmaze/planner-expert --seeds 3"
GROUPS = {
    "train": f"Train an algorithm on a dataset, such as: {TRAIN_EXAMPLE}. Continue a run with its "
    "settings: oryx train --resume RUN [--updates N]",
    "data": "List, describe, check, make and download datasets.",
    "bench": "Run suites of the paper's experiments (algorithms by datasets); print published "
    "scores.",
}
MEMBER = {"train": "algorithm", "data": "data command", "bench": "suite"}
"""What one of a group is called."""
ORDER = (
    "demo",
    "train",
    "eval",
    "trust",
    "tune",
    "data",
    "bench",
    "report",
    "replay",
    "export",
    "serve",
    "completion",
)


def require_known(words: Sequence[str]) -> None:
    """Raises if the first words name no command."""
    group = words[0] if words else "-"
    if group.startswith("-"):
        return
    if group not in ORDER:
        raise UnknownNameError(registry.tell_unknown("command", group, ORDER))
    name = words[1] if len(words) > 1 and group in GROUPS else "-"
    known = [member.replace("_", "-") for member in _names(group)] if name[0:1] != "-" else []
    if known and name.replace("_", "-") not in known:
        raise UnknownNameError(registry.tell_unknown(MEMBER[group], name, known))


def list_all() -> list[tuple[str, ...]]:
    """The words of every command."""
    return [
        words
        for name in ORDER
        for words in (
            [(name, member.replace("_", "-")) for member in _names(name)]
            if name in GROUPS
            else [(name,)]
        )
    ]


def load(words: Sequence[str]) -> type:
    """The class of a command that is named whole."""
    group, name = words[0], words[1].replace("-", "_") if len(words) > 1 else ""
    if group in ALONE:
        return ALONE[group].load()
    if not name:
        raise OryxError(f"name the {MEMBER[group]}: {', '.join(_names(group))}")
    if group == "data":
        return DATA[name].load()
    if group == "train":
        return _train(name)
    return PUBLISHED.load() if name == "published" else _bench(name)


def _names(group: str) -> list[str]:
    """Of the commands of a group."""
    if group == "data":
        return list(DATA)
    rest = [] if group == "train" else ["published"]
    own = registry.names(ALGORITHMS) if group == "train" else registry.names(SUITES)
    return [*own, *rest]


def make_app(asked: Collection[str]) -> SubcommandApp:
    """All commands; of those that are not among the words `asked` only the help is known."""
    names = {word.replace("-", "_") for word in asked}
    app = SubcommandApp()
    for name in ORDER:
        if name in ALONE:
            app.command(name=name)(_load_or_list(ALONE[name], name in names))
        elif name in names:
            group = SubcommandApp()
            for own, command in _members(name, names):
                group.command(name=own)(command)
            app.command(group, name=name, help=GROUPS[name])
        else:
            app.command(name=name)(_listed(GROUPS[name]))
    return app


def _members(group: str, names: Collection[str]) -> Iterator[tuple[str, type]]:
    """The commands of a group."""
    if group == "data":
        for name, command in DATA.items():
            yield name, _load_or_list(command, name in names)
    elif group == "train":
        for name in registry.names(ALGORITHMS):
            yield name, _train(name) if name in names else _listed(_about_algorithm(name))
    else:
        for name in registry.names(SUITES):
            about = registry.describe(SUITES, name)
            yield name, _bench(name) if name in names else _listed(about)
        yield "published", _load_or_list(PUBLISHED, "published" in names)


def _load_or_list(command: Command, is_asked: bool) -> type:
    return command.load() if is_asked else _listed(command.about())


def _listed(about: str) -> type:
    """Stands in a list of commands for one that nobody has asked for."""
    return dataclasses.make_dataclass("Listed", [], namespace={"__doc__": about})


def _about_algorithm(name: str) -> str:
    if package := registry.installed(ALGORITHMS).get(name):
        return f"Train {name} of the package {package}."
    return registry.describe(ALGORITHMS, name)


def _train(name: str) -> type:
    from oryx_marl.cli import train

    return train.make_command(name)


def _bench(name: str) -> type:
    from oryx_marl.cli import bench

    return bench.make_command(name)
