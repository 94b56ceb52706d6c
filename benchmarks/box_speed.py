"""What continuous actions cost: an update beside that of discrete ones, timed in turn.

    python benchmarks/box_speed.py --agents 2 6 50

Both have the paper's shapes (width 64 and one head for 2 agents, else 128 and four) and are equal
but for their actions: 6 ids, or a box of 1 to 3 dimensions, as in MuJoCo. Both compile, then they
are timed in alternation, so that a machine that is busy slows both down alike. The table holds
medians of milliseconds, and the median of the ratios of neighbours; the last line is JSON.
`--cpu-time` counts the processor's time instead of the wall's.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

from oryx_marl.provenance import find_commit
from oryx_marl.training import offline
from oryx_marl.training.loop import init_state, make_keys
from speed_shapes import SMALL, Shape, make_data

DIMENSIONS = {2: 3, 6: 1}
"""Of an agent's action in HalfCheetah, by the number of agents; 2 elsewhere."""
ROWS = 5_000


def make_shapes(agents: int, precision: Any) -> dict[str, Shape]:
    """The task with ids, and with vectors."""
    base = SMALL if agents == SMALL.num_agents else Shape(agents)
    base = replace(base, num_rows=ROWS, num_actions=6, precision=precision)
    box = replace(base, kind="box", num_actions=DIMENSIONS.get(agents, 2))
    return {"discrete": base, "box": box}


def make_timer(shape: Shape, updates: int, clock: Callable[[], float]) -> Callable[[], float]:
    """Milliseconds of one update; compiled when it comes back."""
    algorithm, data, keys = shape.algorithm, make_data(shape), make_keys([0])
    held = [init_state(algorithm, [0]).learners]

    def measure() -> float:
        began = clock()
        held[0], _ = offline.run_updates(algorithm, updates, held[0], keys, data, jnp.asarray(0))
        jax.block_until_ready(held[0])
        return 1000 * (clock() - began) / updates

    measure()
    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", nargs="*", type=int, default=[2, 6, 50])
    parser.add_argument("--updates", type=int, default=10, help="in one timing")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--cpu-time", action="store_true", help="where the processor is shared")
    given = parser.parse_args()
    clock = time.process_time if given.cpu_time else time.perf_counter
    table, found = Table("agents", "discrete ms", "box ms", "box / discrete"), []
    for agents in given.agents:
        shapes = make_shapes(agents, given.precision)
        timers = {kind: make_timer(shape, given.updates, clock) for kind, shape in shapes.items()}
        times: dict[str, list[float]] = {kind: [] for kind in timers}
        for _ in range(given.repeats):
            for kind, measure in timers.items():
                times[kind].append(measure())
        ratios = [b / d for b, d in zip(times["box"], times["discrete"], strict=True)]
        row = {kind: median(each) for kind, each in times.items()} | {"ratio": median(ratios)}
        spread = [min(ratios), max(ratios)]
        found.append({"agents": agents, **row, "ratios": spread})
        cells = (f"{row[name]:.2f}" for name in ("discrete", "box", "ratio"))
        table.add_row(str(agents), *cells)
    console = Console()
    console.print(table)
    about = {"device": jax.devices()[0].device_kind, "commit": find_commit()}
    settings = {
        "precision": given.precision,
        "updates": given.updates,
        "cpu_time": given.cpu_time,
    }
    console.print(json.dumps({**about, **settings, "rows": found}), soft_wrap=True)


if __name__ == "__main__":
    main()
