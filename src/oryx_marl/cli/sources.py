"""The commands `oryx data import | export | subsample`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from oryx_marl import recipes
from oryx_marl.cli.console import console, errors
from oryx_marl.data import catalog, subsample, vault
from oryx_marl.data import view as views
from oryx_marl.data.sources import base
from oryx_marl.data.sources.base import Options
from oryx_marl.errors import OryxError
from oryx_marl.progress import counting


@dataclass(frozen=True)
class DataImport:
    """Bring logs from elsewhere: tables, arrays, Minari, Vaults.

    The kind of the source is found out from its name and content. Columns with usual names
    (episode, step, agent, obs or obs_*, action, reward, terminal ...) need no flag.
    """

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """File or folder."""
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """Name of the new dataset, such as depot/week-12."""
    columns: Options = field(default_factory=Options)
    mapping: Path | None = None
    """TOML file with the flags that name columns and kinds, instead of the flags."""
    kind: str | None = None
    """Kind of the source: table, pymarl, flat, minari, og_marl."""
    root: Path | None = None
    """Folder that holds datasets (default: $ORYX_DATA, or datasets/ here)."""

    def run(self) -> None:
        options = self.columns
        if self.mapping is not None:
            if options != Options():
                raise OryxError("give either --mapping or flags that name columns, not both")
            options = base.read_options(self.mapping)
        folder = catalog.new_folder(self.name, self.root)
        with counting("importing", "steps", errors) as report:
            parts = base.read(self.source, self.name, options, self.kind)
            vault.write_parts(base.watched(parts, report), folder)
        stored = vault.describe(folder)
        spec = stored["spec"]
        console.print(
            f"imported {stored['rows']:,} steps of {len(spec['agents'])} agents into {folder}",
            highlight=False,
            soft_wrap=True,
        )
        for line in _remarks(stored):
            console.print(line, highlight=False, soft_wrap=True)
        for what, command in (("check it", "check"), ("look at it", "info")):
            line = f"{what}: oryx data {command} {folder}"
            console.print(line, highlight=False, soft_wrap=True)


def _remarks(stored: dict[str, Any]) -> list[str]:
    """What was found out rather than told."""
    spec, origin = stored["spec"], stored["origin"]
    action = spec["action"]
    what = f"{action['size']} actions" if action["kind"] == "discrete" else "continuous actions"
    sizes = sorted(set(spec["observation_sizes"]))
    seen = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    rewards = "shared" if spec["shared_reward"] else "own"
    lines = [f"{what}, {seen} features, {rewards} rewards"]
    if words := origin.get("action_names"):
        lines.append("actions: " + ", ".join(f"{i} {word}" for i, word in enumerate(words)))
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
    to: Literal["parquet", "minari", "vault"] | None = None
    """Format (default: parquet if the file's name says so)."""

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
    root: Path | None = None
    """Folder that holds datasets (default: $ORYX_DATA, or datasets/ here)."""

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
        origin = {**whole.origin, "subsample": told}
        vault.write_view(found, folder, self.name, origin)
        kept, all_ = len(found.episode_starts), len(whole.episode_starts)
        console.print(
            f"kept {kept:,} of {all_:,} episodes, {found.num_rows:,} steps, in {folder}",
            highlight=False,
            soft_wrap=True,
        )


COMMANDS = {"import": DataImport, "export": DataExport, "subsample": DataSubsample}
