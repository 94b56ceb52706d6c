"""The commands `oryx bench ...`."""

import dataclasses
import inspect
import typing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import tyro

from oryx_marl import registry
from oryx_marl.bench import comparison, published, suite, tuning
from oryx_marl.bench import table as tables
from oryx_marl.bench.runner import PAIRED, Bench, tell_diverged
from oryx_marl.bench.suite import Suite
from oryx_marl.bench.summary import LEGEND, Records
from oryx_marl.cli.console import console, default_is, errors, say, say_aside
from oryx_marl.errors import OryxError, StoppedError
from oryx_marl.parallel import compilation
from oryx_marl.progress import training_bar

NARROW = (
    "Print some with --env, --scenario, --dataset and --algorithm, such as\n"
    "  oryx bench published --env smac_v1 --algorithm Oryx\n"
    "or all of them for another program with --format csv."
)

QUICK = "A small version that takes minutes on two CPU cores."


@dataclass(frozen=True)
class BenchSuite:
    """Finished cells are kept and not run again.

    In a checkout the records that come with it count as finished: --out and --work name other
    folders.
    """

    suite: typing.ClassVar[str]
    quick: typing.ClassVar[bool] = False
    """A flag of the suites that have a small version."""
    only: typing.Annotated[tuple[str, ...], default_is("all")] = ()
    """Algorithms or datasets, by the names in the table."""
    tune: bool = False
    """Try eight settings of every algorithm, with a seed that no table uses, and keep the best in
    tuned.json; the suite uses them from then on."""
    compare: typing.Annotated[tuple[str, ...], default_is("the best against all")] = ()
    """Algorithms of which the first is tested against the others, in pairs of seeds; runs
    nothing."""
    table: bool = False
    """Print what is finished and run nothing."""
    write_tables: bool = False
    """Write table.md, table.csv, marl_eval.json and the figure of what is finished; run nothing."""
    first_seed: int = 0
    """Number of the first seed."""
    out: typing.Annotated[
        Path | None, default_is("results/bench/<suite>, or runs/bench-quick/<suite> if quick")
    ] = None
    """Folder of records."""
    work: Path = Path("runs/bench")
    """Folder of the runs, which are large and needed until their cells are finished."""

    def __post_init__(self) -> None:
        self._chosen().choose(self._only())  # refuses an unknown name
        if self.first_seed < 0:
            raise OryxError(f"first_seed must not be negative, got {self.first_seed}")
        if self.first_seed <= tuning.SEED < self.first_seed + self._main().seeds:
            raise OryxError(f"seed {tuning.SEED} is that of tuning; choose another first_seed")
        comparison.require_known(self._main(), self.compare)
        if len(self.compare) == 1:
            raise OryxError("--compare takes two algorithms or more")
        if self.tune and self.compare:
            raise OryxError("--compare tests the suite's cells; give it without --tune")

    def run(self) -> None:
        compilation.use_cache()
        bench = self._bench()
        if self.write_tables:
            bench.write_tables()
        elif not self.table and not self.compare:
            self._tell_finished(bench)
            try:
                bench.run(self._only())
            except StoppedError as stop:
                raise StoppedError(stop.what, "the same command goes on from here") from stop
        cells = bench.suite.choose(self._only())
        records = {cell: record for cell, record in bench.records().items() if cell in cells}
        if records:
            self._show(bench, records)
        else:
            say(f"nothing of it is finished yet in {bench.out}; without --table it is run")
        missing = [cell for cell in bench.missing() if cell in cells]
        if missing and not self.compare:
            names = "; ".join(f"{variant} on {data}" for variant, data in missing)
            console.print(f"not finished: {names}", highlight=False, soft_wrap=True)

    def _show(self, bench: Bench, records: Records) -> None:
        """The table of what is finished, what was tested or chosen, and where it is kept."""
        tests = comparison.make_comparison(bench.suite, records, self.compare)
        if self.compare:
            print(tables.plain(tests, comparison.LEGEND, always=True))  # noqa: T201
            return
        legend = tuning.LEGEND if self.tune else "\n".join(filter(None, [LEGEND, bench.suite.note]))
        print(tables.plain(bench.make_table(bench.suite, records), legend))  # noqa: T201
        if tests.rows:
            print(f"{PAIRED}:")  # noqa: T201
            print(tables.plain(tests, comparison.LEGEND, always=True))  # noqa: T201
        told = tell_diverged(bench.suite, records)
        console.print(told, end="", highlight=False, soft_wrap=True)
        console.print(f"records: {bench.out}", soft_wrap=True)
        if self.tune and not self.table:
            path = tuning.freeze(self._main(), bench.records(), self._out(), self._command())
            if path.exists():
                say(f"chosen settings, which the suite now uses: {path}")

    def _main(self) -> Suite:
        """The suite as it is shipped."""
        return suite.load(self.suite, self.quick)

    def _chosen(self) -> Suite:
        """The suite that is run: with the settings that were tuned, or the one that tunes them."""
        main = self._main()
        if self.tune:
            return tuning.make_suite(main)
        return tuning.use(main, self._out(), suite.default_out(self.suite, self.quick))

    def _only(self) -> tuple[str, ...]:
        return tuning.expand(self._main(), self.only) if self.tune else self.only

    def _out(self) -> Path:
        return self.out or suite.default_out(self.suite, self.quick)

    def _command(self) -> str:
        words = ["oryx bench", self.suite, "--quick" * self.quick, "--tune" * self.tune]
        return " ".join(word for word in words if word)

    def _bench(self) -> Bench:
        main = self._main()
        bench = Bench(
            self._chosen(),
            self._out(),
            self.work,
            self.first_seed,
            self._command(),
            lambda title, total: training_bar(total, errors, title),
            lambda message: errors.print(message, highlight=False, soft_wrap=True),
        )
        if not self.tune:
            return bench
        return dataclasses.replace(
            bench,
            out=bench.out / tuning.FOLDER,
            first_seed=tuning.SEED,
            make_table=lambda _, records: tuning.make_table(main, records),
        )

    def _tell_finished(self, bench: Bench) -> None:
        """Which cells are not run again, and how they would be."""
        cells = bench.suite.choose(self._only())
        if finished := len(cells) - len([cell for cell in bench.missing() if cell in cells]):
            say_aside(
                f"{finished} of {len(cells)} cells are recorded in {bench.out} and not run again; "
                "to run them anew: --out FOLDER --work FOLDER"
            )


def make_command(name: str) -> type:
    """The command of one suite."""
    module = registry.load("bench.suites", name)
    quick = typing.Annotated[bool, tyro.conf.arg(help=QUICK)]
    return dataclasses.make_dataclass(
        f"Bench{name.title()}",
        [("quick", quick, False)] if hasattr(module, "QUICK") else [],
        bases=(BenchSuite,),
        namespace={"suite": name, "__doc__": _describe(module)},
        frozen=True,
    )


def _describe(module: ModuleType) -> str:
    """What a suite is, how long it trains, and what running one means."""
    chosen: Suite = module.SUITE
    online = "".join(
        f"; {name}: {each.seeds or chosen.seeds} seeds, {each.steps:,} environment steps"
        for name, each in chosen.variants.items()
        if each.steps is not None
    )
    cells = f"{len(chosen.cells())} cells (one algorithm on one dataset)"
    about, running = (inspect.cleandoc(each.__doc__ or "") for each in (module, BenchSuite))
    size = f"{cells}, {chosen.seeds} seeds, {chosen.updates:,} updates{online}"
    return f"{about.strip()}\n\n{size}. {running}"


@dataclass(frozen=True)
class BenchPublished:
    """Print published scores, of the paper and of what it compares with; alone, a list of them."""

    env: str | None = None
    """Environment: tmaze, smac_v1, mamujoco or rware. Its numbers are printed, nothing is run."""
    scenario: str | None = None
    """Task within the environment, such as 5m_vs_6m."""
    dataset: str | None = None
    """Quality of the data, such as replay, Good."""
    algorithm: str | None = None
    """Algorithm, such as Oryx, MAICQ."""
    format: typing.Literal["plain", "markdown", "csv"] = "plain"
    """How the table is written."""

    def __post_init__(self) -> None:
        self._scores()  # refuses an unknown name

    def _scores(self) -> list[published.Score]:
        return published.scores(
            environment=self.env,
            dataset=self.dataset,
            algorithm=self.algorithm,
            scenario=self.scenario,
        )

    def run(self) -> None:
        is_narrowed = any((self.env, self.scenario, self.dataset, self.algorithm))
        if self.format == "plain" and not is_narrowed:
            print(published.overview())  # noqa: T201
            console.print(NARROW, highlight=False, soft_wrap=True)
            return
        found = published.as_table(self._scores())
        if self.format == "plain":
            print(tables.plain(found, published.LEGEND))  # noqa: T201
        else:
            print({"markdown": tables.markdown, "csv": tables.csv}[self.format](found))  # noqa: T201
