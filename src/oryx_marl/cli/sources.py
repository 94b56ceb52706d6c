"""The commands `oryx data import | export | subsample`."""

from dataclasses import dataclass, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from oryx_marl import recipes
from oryx_marl.cli.console import DatasetRoot, console, default_is, errors, say
from oryx_marl.data import catalog, subsample, vault
from oryx_marl.data import view as views
from oryx_marl.data.sources import base
from oryx_marl.errors import OryxError
from oryx_marl.progress import counting
from oryx_marl.types import Spec


def _to_flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _flags() -> type:
    """The options of all importers as flags.

    Which of them a source takes is told once its kind is known. Those of installed plug-ins, which
    are not imported before they are asked for, are given by --mapping.
    """
    declared = dict.fromkeys(base.options_of(kind) for kind in base.own_names())
    own = [one for one in declared if not any(one in each.__mro__[1:] for each in declared)]
    return make_dataclass("ImportFlags", [], bases=tuple(own), frozen=True)


@dataclass(frozen=True)
class DataImport:
    """Import logs: tables, arrays, Minari, Vaults.

    The kind of the source is inferred from its name and content. Columns with usual names
    (episode, step, agent, obs or obs_*, action, reward, terminal, action_mask ...) need no flag.

    A wide table has one row per step and columns of each agent's own. Name the agents, and columns
    by patterns, in which {agent} stands for the name of each; what is shared has none:
    oryx data import log.csv depot/one --kind wide --agents red blue --observation {agent}_x
    {agent}_y --action {agent}_order --reward income.
    """

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """File or folder."""
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """Name of the new dataset, such as depot/week-12."""
    columns: Annotated[Any, tyro.conf.arg(constructor_factory=_flags)]
    mapping: Path | None = None
    """TOML file with the flags that name columns and kinds, instead of the flags; it may also say
    kind = "wide"."""
    kind: str | None = None
    """Kind of the source: table, jsonl, wide, pymarl, flat, minari, og_marl."""
    root: DatasetRoot = None
    """Folder that holds datasets."""

    def run(self) -> None:
        told = {
            entry.name: getattr(self.columns, entry.name)
            for entry in fields(self.columns)
            if getattr(self.columns, entry.name) != entry.default
        }
        kind = self.kind if self.mapping is None else base.read_kind(self.mapping, self.kind)
        kind = base.find(self.source, kind)
        if self.mapping is None:
            options = base.make_options(kind, told, spell=_to_flag)
        elif told:
            raise OryxError("give either --mapping or flags that name columns, not both")
        else:
            options = base.read_options(kind, self.mapping)
        folder = catalog.new_folder(self.name, self.root)
        with counting("importing", "steps", errors) as report:
            parts = base.read(self.source, self.name, options, kind)
            vault.write_parts(base.watched(parts, report), folder)
        stored = vault.describe(folder)
        spec = Spec.from_dict(stored["spec"])
        say(f"imported {stored['rows']:,} steps of {spec.num_agents} agents into {folder}")
        for line in _remarks(stored):
            say(line)
        if spec.action.kind == "box":
            from oryx_marl import api  # only here: all algorithms are imported

            say(f"caution: {api.caution_on(spec)}")
        for what, command in (("check it", "check"), ("look at it", "info")):
            say(f"{what}: oryx data {command} {self.name if self.root is None else folder}")


def _remarks(stored: dict[str, Any]) -> list[str]:
    """What was inferred rather than told."""
    spec, origin = stored["spec"], stored["origin"]
    action = spec["action"]
    what = f"{action['size']} actions" if action["kind"] == "discrete" else "continuous actions"
    sizes = sorted(set(spec["observation_sizes"]))
    seen = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    rewards = "shared rewards" if spec["shared_reward"] else "individual rewards (not shared)"
    lines = [f"{what}, {seen} features, {rewards}"]
    if action["kind"] == "box":
        ranges = zip(action["low"], action["high"], strict=True)
        told = ", ".join(f"{low:g} to {high:g}" for low, high in list(ranges)[:20])
        options = origin.get("options", {})
        known = [side for side in ("low", "high") if f"action_{side}" in options]
        ways = ("inferred; --action-low and --action-high set them", "one side inferred", "as told")
        how = ways[len(known)]
        lines.append(f"a policy acts between these bounds ({how}), dimension by dimension: {told}")
    if words := origin.get("action_names"):
        lines.append("actions: " + ", ".join(f"{i} {word}" for i, word in enumerate(words)))
    if "columns" in origin and "agent" not in origin["columns"]:
        lines.append(
            "no column is known as the agent, so there is one; else say --agent COLUMN, or --kind "
            "wide if each agent has columns of its own"
        )
    flags = origin.get("columns", {}).get("terminal", ())
    if flags and not {"terminal", "time_limit"} & {*origin.get("options", {})}:
        lines.append(
            f"{flags[0]} counts as terminal: the task ended there. If it marks time limits, say "
            f"--truncated {flags[0]}"
        )
    if count := origin.get("num_files"):
        lines.append(f"{count} files, from {origin['files'][0]} on")
    if count := origin.get("timeouts_not_terminal"):
        lines.append(
            f"{count} episodes of {origin['time_limit']} steps count as cut off by the clock, not "
            "as terminal; --time-limit 0 if they are"
        )
    return lines


@dataclass(frozen=True)
class DataExport:
    """Write a dataset for other programs: Parquet, Minari, Vault."""

    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    """Name or folder."""
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """What to write: a file that ends in .parquet, or a folder."""
    to: Annotated[
        Literal["parquet", "minari", "vault"] | None,
        default_is("parquet if the file's name says so"),
    ] = None
    """Format."""

    def run(self) -> None:
        to = self.to
        if to is None and self.file.suffix in (".parquet", ".pq"):
            to = "parquet"
        if to is None:
            raise OryxError(f"say what {self.file} is to be: --to parquet, minari or vault")
        view = recipes.view(self.dataset)
        with counting("exporting", "steps", errors) as report:
            if to == "vault":
                vault.write_view(view, self.file, report=report)
            else:
                kind = {"parquet": "table", "minari": "minari"}[to]
                base.write(base.watched(views.parts(view), report), self.file, kind)
        console.print(f"wrote {self.file}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class DataSubsample:
    """Keep some whole episodes of a dataset as a new one."""

    dataset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATASET")]
    """Name or folder."""
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """Name of the new dataset."""
    quantiles: tuple[float, float] | None = None
    """First keep the episodes with returns between these quantiles, such as 0.5 1."""
    like: str | None = None
    """Then draw episodes whose returns are distributed as those of this dataset."""
    bins: int = 20
    """Ranges of returns in which `--like` compares."""
    rows: int | None = None
    """Then draw episodes until there are so many logged steps."""
    seed: int = 0
    """Random seed."""
    root: DatasetRoot = None
    """Folder that holds datasets."""

    def __post_init__(self) -> None:
        if self.rows is None and self.quantiles is None and self.like is None:
            raise OryxError("say what to keep: --rows, --quantiles or --like")
        for name in ("bins", "rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OryxError(f"{name} must be at least 1, got {value}")
        if self.quantiles is not None:
            subsample.require_quantiles(*self.quantiles)

    def run(self) -> None:
        folder = catalog.new_folder(self.name, self.root)
        whole = recipes.view(self.dataset)
        found: views.View = whole
        if self.quantiles is not None:
            found = subsample.by_return(found, *self.quantiles)
        if self.like is not None:
            found = subsample.match_returns(found, recipes.view(self.like), self.seed, self.bins)
        if self.rows is not None:
            found = subsample.whole_episodes(found, self.rows, self.seed)
        told = {
            "subsample_of": whole.name,
            "fingerprint": views.fingerprint(whole),
            "quantiles": None if self.quantiles is None else list(self.quantiles),
            "like": self.like,
            "bins": self.bins,
            "rows": self.rows,
            "seed": self.seed,
        }
        origin = subsample.describe(whole, found, self._ways(), told)
        vault.write_view(found, folder, self.name, origin)
        kept, all_ = len(found.episode_starts), len(whole.episode_starts)
        console.print(
            f"kept {kept:,} of {all_:,} episodes, {found.num_rows:,} steps, in {folder}",
            highlight=False,
            soft_wrap=True,
        )

    def _ways(self) -> list[str]:
        """How episodes were chosen, in words, in their order."""
        ways = []
        if self.quantiles is not None:
            low, high = self.quantiles
            ways.append(f"those with returns from quantile {low:g} to {high:g}")
        if self.like is not None:
            ways.append(f"drawn to have the returns of {self.like} (seed {self.seed})")
        if self.rows is not None:
            ways.append(f"drawn at random until {self.rows:,} steps (seed {self.seed})")
        return ways
