"""Tables and pictures of the documents from the records in results/bench/.

python benchmarks/suite_tables.py
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from documents import ROOT, fill
from oryx_marl.bench import suite, tuning
from oryx_marl.bench.record import read_cell
from oryx_marl.bench.runner import CELLS, DATA, Bench
from oryx_marl.report import figure

RESULTS = ROOT / "results" / "bench"
PICTURES = ROOT / "docs" / "pictures"
PUBLISHED = {
    "replay": {"oryx": 0.99, "transitions": "over 16 million", "mean_return": 0.559},
    "expert": {"oryx": 0.94, "transitions": "100,000", "mean_return": 1.0},
}
"""The paper's figure and appendix on T-Maze."""
MAIN = {
    "replay": ("tmaze_paper/cells/oryx--tmaze-replay", "tmaze/cells/{}--tmaze-replay"),
    "expert": ("tmaze_paper/cells/oryx--tmaze-expert", "tmaze_paper/cells/{}--tmaze-expert"),
}
"""Records of Oryx, and of Oryx with the paper's settings."""
PLANNER_ROWS = {
    "oryx": "**Oryx**",
    "oryx--the-paper-s-settings": "Oryx, the paper's settings for T-Maze",
    "oryx--own-advantage": "Oryx, own advantage",
    "oryx--plain-cloning": "plain cloning",
    "oryx--no-recurrent-state": "without memory",
    "oryx-w-o-memory": "trained on windows of 2 steps (the paper's ablation of memory)",
    "oryx-w-o-autoregressive-actions": "without autoregressive actions",
    "oryx-w-o-icq": "without ICQ (Q-learning alone)",
}
PLANNER_DATA = {
    "planner-expert": "`planner-expert`",
    "planner-mixed": "`planner-mixed`",
    "planner-expert-3-percent-illegal": "`planner-expert` with 3% illegal labels",
}


def interval(scores: dict[str, Any]) -> str:
    """Mean and interval over seeds of success rates, which cannot leave 0 to 1."""
    low, high = max(scores["low"], 0), min(scores["high"], 1)
    return f"{scores['mean']:.3f} [{low:.3f}, {high:.3f}]"


def tmaze_main() -> str:
    """Oryx beside the paper."""
    lines = [
        "| data | paper | Oryx, last | Oryx, best | the paper's settings, last | best |",
        "|---|---|---|---|---|---|",
    ]
    for data, names in MAIN.items():
        paths = [RESULTS / f"{each.format('oryx--the-paper-s-settings')}.json" for each in names]
        cells = [
            interval(read_cell(path)["scores"][which]["sampled"])
            for path in paths
            for which in ("last", "best")
        ]
        lines.append(f"| `tmaze/{data}` | {PUBLISHED[data]['oryx']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tmaze_data() -> str:
    """What is in the datasets, beside the paper's."""
    lines = [
        "| | transitions | episodes | mean return | mean length | transitions (paper) | "
        "mean return (paper) |",
        "|---|---|---|---|---|---|---|",
    ]
    for data in (*PUBLISHED, "snapshots", "replay-small"):
        found, published = read_data(data), PUBLISHED.get(data, {})
        lines.append(
            f"| `tmaze/{data}` | {found['transitions']:,} | {found['episodes']:,} | "
            f"{found['returns']['mean']:.3f} | {found['lengths']['mean']:.1f} | "
            f"{published.get('transitions', '')} | {published.get('mean_return', '')} |"
        )
    return "\n".join(lines)


def tmaze_sable() -> str:
    """Every seed of the online learner."""
    found = read_cell(RESULTS / "tmaze_paper" / CELLS / "sable--tmaze.json")
    curves = np.array(found["evaluations"])
    lines = ["| seed | sampled | greedy | steps to 0.99 |", "|---|---|---|---|"]
    for number, seed in enumerate(found["seeds"]):
        last = [found["scores"]["last"][a]["per_seed"][number] for a in ("sampled", "greedy")]
        reached = curves[curves[:, number + 1] >= 0.99, 0]
        when = f"{reached[0] / 1e6:.1f} million" if len(reached) else "not reached"
        lines.append(f"| {seed} | {last[0]:.3f} | {last[1]:.3f} | {when} |")
    return "\n".join(lines)


def tmaze_planner() -> str:
    """Success by variant, data and way of acting."""
    lines = ["| | data | sampled | greedy |", "|---|---|---|---|"]
    for variant, row in PLANNER_ROWS.items():
        for data, name in PLANNER_DATA.items():
            path = RESULTS / "tmaze_planner" / CELLS / f"{variant}--tmaze-{data}.json"
            if path.exists():
                last = read_cell(path)["scores"]["last"]
                cells = [interval(last[acting]) for acting in ("sampled", "greedy")]
                lines.append(f"| {row} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def whole(name: str) -> str:
    """The table of a suite as `oryx bench NAME` writes it."""
    chosen = tuning.use(suite.load(name), RESULTS / name)
    return Bench(chosen, RESULTS / name, Path("runs")).markdown().strip()


def read_data(variant: str) -> dict[str, Any]:
    """What is recorded of a dataset of T-Maze."""
    return json.loads((RESULTS / "tmaze_paper" / DATA / f"tmaze-{variant}.json").read_text())


def tables() -> dict[str, str]:
    """Every generated table by the name of its marker."""
    return {
        "tmaze_main": tmaze_main(),
        "tmaze_data": tmaze_data(),
        "tmaze_sable": tmaze_sable(),
        "tmaze_planner": tmaze_planner(),
        "tmaze_bench": whole("tmaze"),
        "connector": whole("connector"),
        "connector_replay": whole("connector_replay"),
    }


def pictures() -> dict[str, str]:
    """File name and content of each picture."""
    sable = read_cell(RESULTS / "tmaze_paper" / CELLS / "sable--tmaze.json")
    curves = np.array(sable["curves"])
    series = {
        f"seed {seed}": (curves[:, 0] / 1e6, curves[:, number + 1])
        for number, seed in enumerate(sable["seeds"])
    }
    found = {
        "tmaze-sable.svg": figure.lines(
            "Online Sable on T-Maze", "million environment steps", "success while training", series
        )
    }
    for data in PUBLISHED:
        histogram = read_data(data)["histogram"]
        middles = (np.array(histogram["edges"][1:]) + np.array(histogram["edges"][:-1])) / 2
        counts = dict(zip([f"{m:g}" for m in middles], histogram["counts"], strict=True))
        title = f"Returns of the episodes of tmaze/{data}"
        found[f"tmaze-{data}-returns.svg"] = figure.bars(title, "return", "episodes", counts)
    return found


def main() -> None:
    fill(tables())
    for name, content in pictures().items():
        (PICTURES / name).write_text(content)


if __name__ == "__main__":
    main()
