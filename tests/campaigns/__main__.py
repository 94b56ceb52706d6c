"""`python -m tests.campaigns NAME`: tries to lose something, and counts what came of it."""

import argparse
import gc
import importlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

NAMES = ("kill", "crashpoints", "mutate", "archives", "disk", "writers")
COUNTS = {"kill": 110, "crashpoints": 10**6, "mutate": 5_200, "disk": 10**6, "writers": 50}
"""How much is tried where nothing else is asked for."""
SMALL = {"kill": 1, "crashpoints": 12, "mutate": 60, "archives": 5, "disk": 2, "writers": 2}
"""How much of it belongs to `make test`."""
SMALL_ONLY = {"kill": "train", "crashpoints": "import", "disk": "import", "writers": "import"}
"""Of which jobs, as each needs an unbroken one to compare with."""


def main() -> None:
    """Runs campaigns one after another; exits with 1 if something happened that must not."""
    asked = _read()
    work = Path(tempfile.mkdtemp(prefix="campaigns-", dir=asked.folder))
    _set_up(work)
    from tests.campaigns.lab import Campaign

    told = []
    for name in NAMES if "all" in asked.names else asked.names:
        count = asked.count or (SMALL if asked.small else COUNTS).get(name, 10**6)
        only = asked.only or (SMALL_ONLY.get(name, "") if asked.small else "")
        found = Campaign(name, asked.seed, count, asked.minutes, work / name, only=only)
        module = importlib.import_module(f"tests.campaigns.{name}")
        module.campaign(found)
        if found.is_over():
            found.notes.append("the time was up before all was tried")
        told.append(found.to_json())
        _show(told[-1])
        if asked.out:
            asked.out.write_text(json.dumps(told, indent=1))
    if not asked.keep:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(any(each["failures"] for each in told))


def _read() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parser.add_argument(
        "names", nargs="+", choices=(*NAMES, "all"), metavar="NAME", help=f"{NAMES}"
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed, other trials")
    parser.add_argument("--count", type=int, help="how much to try, of each campaign")
    parser.add_argument("--minutes", type=float, default=60.0, help="most, of each campaign")
    parser.add_argument("--only", default="", help="parts of names, between commas")
    parser.add_argument("--small", action="store_true", help="as much as belongs to `make test`")
    parser.add_argument("--out", type=Path, help="JSON file for counts and failures")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary one if not told")
    parser.add_argument("--keep", action="store_true", help="leave behind what was worked on")
    return parser.parse_args()


def _set_up(work: Path) -> None:
    """Imports all that children need, so that they are forked and not started."""
    sys.path[:0] = [str(Path(__file__).parent.parent / "helpers")]
    os.environ["ORYX_COMPILATION_CACHE"] = str(work / "compiled")
    os.environ["ORYX_DATA"] = str(work / "nowhere")
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    os.environ["JAX_PLATFORMS"] = "cpu"
    modules = """oryx_marl.cli.main oryx_marl.cli.train oryx_marl.cli.resume oryx_marl.cli.make
    oryx_marl.cli.sources oryx_marl.algorithms.bc oryx_marl.algorithms.sable oryx_marl.envs.tmaze
    oryx_marl.recipes._policies oryx_marl.report.page oryx_marl.data.hub.download h5py pyarrow
    pyarrow.parquet pyarrow.csv minari tests.campaigns.results"""
    for name in modules.split():
        importlib.import_module(name)
    from oryx_marl.parallel import compilation

    compilation.MIN_COMPILE_SECONDS = 0.0  # children share all that they compile
    gc.collect()
    gc.freeze()  # or every child would go through all that was imported, again and again
    sys.stderr.write(f"{sys.modules['oryx_marl'].__file__}, in {work}\n")


def _show(told: dict) -> None:
    """A table of counts, and how to do each failure again."""
    lines = [f"{told['campaign']} (seed {told['seed']}, {told['seconds']:.0f} s)"]
    lines += [f"  {name:42} {count:8,}" for name, count in sorted(told["counts"].items())]
    lines += [f"  note: {note}" for note in told["notes"]]
    lines += [f"  failure: {json.dumps(failure)[:700]}" for failure in told["failures"][:40]]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
