"""`python -m oryx_marl.bench SUITE`: what `oryx bench` does, where the command line's own packages
are not installed."""

import argparse
from pathlib import Path

from oryx_marl.bench import suite, table
from oryx_marl.bench.runner import Bench
from oryx_marl.bench.summary import make_table


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a suite of the paper's experiments.")
    parser.add_argument("suite")
    parser.add_argument("--quick", action="store_true", help="a small version for CPU")
    parser.add_argument("--only", nargs="*", default=[], help="algorithms or datasets")
    parser.add_argument("--out", type=Path, help="folder of the records")
    parser.add_argument("--work", type=Path, default=Path("runs/bench"), help="folder of the runs")
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    chosen = suite.load(given.suite, given.quick)
    out = given.out or suite.default_out(given.suite, given.quick)
    command = f"oryx bench {given.suite}{' --quick' if given.quick else ''}"
    bench = Bench(chosen, out, given.work, given.first_seed, command)
    bench.run(tuple(given.only))
    print(table.plain(make_table(chosen, bench.records())))  # noqa: T201


if __name__ == "__main__":
    main()
