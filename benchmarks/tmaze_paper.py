"""The paper's T-Maze experiment from the beginning: Sable learns, its data, Oryx on that data.

    python benchmarks/tmaze_paper.py random    # agents that know nothing
    python benchmarks/tmaze_paper.py sable     # online Sable from scratch, four seeds
    python benchmarks/tmaze_paper.py data      # record tmaze/replay, roll out tmaze/expert
    python benchmarks/tmaze_paper.py tables    # the documents from what is in results/

Needs the package (installed, or PYTHONPATH=src) and an accelerator. Finished parts are not run
again. Datasets go where `oryx data make` puts them.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from documents import insert
from oryx_marl import config as configs
from oryx_marl import experiment, recipes
from oryx_marl.algorithms.base import Policy
from oryx_marl.data import stats, vault
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.policy import artifact
from oryx_marl.recipes import _assets
from oryx_marl.recipes.tmaze import REPLAY
from oryx_marl.report import figure
from oryx_marl.rollout import episodes as rollout
from oryx_marl.runs import checkpoint
from oryx_marl.runs.documents import Evaluation, MetricRow, RunConfig
from oryx_marl.runs.folder import Run
from oryx_marl.training.online import OnlineSettings
from oryx_marl.types import Observation
from tmaze_planner import commit

VARIANTS = ("oryx", "oryx-paper-settings")
"""Names of the records of Oryx; `oryx bench tmaze` trains it."""
PUBLISHED = {
    "replay": {"oryx": 0.99, "transitions": "over 16 million", "mean_return": 0.559},
    "expert": {"oryx": 0.94, "transitions": "100,000", "mean_return": 1.0},
}
"""The paper's figure and appendix on T-Maze."""
DATASETS = ("expert", "snapshots", "replay", "replay-small")


def learn(steps: int, seeds: int, out: Path) -> dict[str, Any]:
    """Trains Sable with the settings of the recording; its run stays in `out`."""
    env = TMaze()
    settings = OnlineSettings(steps=steps, seeds=seeds)
    train = settings.in_updates(REPLAY.num_envs * REPLAY.rollout_length)
    work = experiment.Experiment(
        "sable", REPLAY, env, out, train, experiment.EvaluationSettings(replays=0)
    )
    began = time.monotonic()
    result = experiment.run(work)
    assert result.summary is not None
    summary = result.summary.to_json()
    rows = list(Run(out).rows(MetricRow))
    taken = rows[-1].seconds - rows[0].seconds
    per_update = REPLAY.num_envs * REPLAY.rollout_length
    done = (rows[-1].update - rows[0].update) * per_update * seeds
    return {
        **result.run.read(RunConfig).to_json(),
        "config": configs.to_dict(REPLAY),
        "steps": train.updates * per_update,
        "wall_seconds": round(time.monotonic() - began, 1),
        "steps_per_second": round(done / taken) if taken else None,
        "steps_per_second_note": "all seeds together, evaluations and checkpoints included, "
        "compilation left out",
        "curves": [
            [row.update * per_update, *np.round(row.metrics["return"], 4).tolist()] for row in rows
        ],
        "evaluations": [
            [row.update * per_update, *row.returns.mean(axis=1).round(4).tolist()]
            for row in Run(out).rows(Evaluation)
        ],
        "scores": summary,
    }


def run_sable(arguments: argparse.Namespace) -> None:
    """All seeds to the end, then a short run twice: the same to the last bit?"""
    target = arguments.out / "sable.json"
    if target.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        record = learn(arguments.steps, arguments.seeds or 4, Path(folder) / "run")
        target.write_text(json.dumps({"commit": arguments.commit, **record}, indent=1))
        short = min(arguments.steps, 1_000_000)
        states = []
        for name in ("a", "b"):
            learn(short, 1, Path(folder) / name)
            states.append(checkpoint.read(Run(Path(folder) / name).checkpoints).tree)
    record["repeats_exactly"] = {
        "steps": short,
        "arrays": len(states[0]),
        "equal": all(np.array_equal(states[0][name], states[1][name]) for name in states[0]),
    }
    command = "python benchmarks/tmaze_paper.py sable"
    record = {"command": command, "commit": arguments.commit, **record}
    target.write_text(json.dumps(record, indent=1))


def run_random(arguments: argparse.Namespace) -> None:
    """How many of two million episodes are solved by legal actions drawn at random."""
    env, batch, batches = TMaze(), 100_000, 20

    def step(carry: jax.Array, observation: Observation, key: jax.Array) -> tuple:
        return (
            carry,
            jax.random.categorical(key, jnp.where(observation.action_mask, 0, -jnp.inf)),
            None,
        )

    play = jax.jit(lambda key: rollout.play(env, Policy(jnp.zeros, step), key, batch).returns)
    solved = [int(play(key).sum()) for key in jax.random.split(jax.random.key(0), batches)]
    record = {
        "command": "python benchmarks/tmaze_paper.py random",
        "commit": arguments.commit,
        "device": jax.devices()[0].device_kind,
        "episodes": batch * batches,
        "solved": sum(solved),
    }
    (arguments.out / "random.json").write_text(json.dumps(record, indent=1))


def keep_policies(work: Path, folder: Path) -> None:
    """The final policy of a recording, and the first that reached each of some success rates."""
    rows = list(Run(work / "run").rows(Evaluation))
    scores = {row.update: float(row.returns.mean()) for row in rows}
    chosen = {
        name: min(update for update, score in scores.items() if score >= least)
        for name, least in {"early": 0.1, "middle": 0.5, "late": 0.9}.items()
    }
    chosen["final"] = max(scores)
    origin = recipes.open("tmaze/replay").origin
    facts = {key: origin[key] for key in ("command", "commit", "version") if key in origin}
    for name, update in chosen.items():
        found = artifact.load(work / "snapshots" / f"{update}.npz")
        about = {"evaluation": scores[update], "episodes": rows[0].returns.shape[1]}
        origin = {**found.origin, **facts, **about}
        artifact.save(folder / f"{name}.npz", replace(found, origin=origin))


def run_data(arguments: argparse.Namespace) -> None:
    """All datasets, and what is in them.

    The policies of the package are those of a recording; to keep those of this one, remove them.
    """
    kept = _assets.checkpoints("tmaze")
    for variant in DATASETS if kept else ("replay", *DATASETS):
        target = arguments.out / f"{variant}.json"
        if target.exists():
            continue
        began = time.monotonic()
        name = f"tmaze/{variant}"
        rows = arguments.steps if variant == "replay" else None
        folder = recipes.make(name, rows=rows, seed=arguments.first_seed, tell=print)
        made = time.monotonic() - began
        if variant == "replay" and not kept:
            keep_policies(folder.with_name("replay.training"), Path("assets/tmaze"))
        dataset = vault.read(folder)  # the package may have another of that name
        record = {
            "commit": arguments.commit,
            "device": jax.devices()[0].device_kind,
            "wall_seconds": round(made, 1),
            "origin": dataset.origin,
            **stats.describe(dataset),
        }
        target.write_text(json.dumps(record, indent=1))


def read(out: Path) -> dict[str, Any]:
    """All records by the names of their files."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(out.glob("*.json"))}


def score(record: dict[str, Any] | None, which: str) -> str:
    """Mean and interval over seeds of sampled episodes."""
    if record is None:
        return "not run"
    found = record["scores"][which]["sampled"]
    return f"{found['mean']:.3f} [{max(found['low'], 0):.3f}, {min(found['high'], 1):.3f}]"


def main_row(records: dict[str, Any]) -> str:
    """Oryx beside the paper."""
    lines = [
        "| data | paper | Oryx, last | Oryx, best | the paper's settings, last | best |",
        "|---|---|---|---|---|---|",
    ]
    for data, published in PUBLISHED.items():
        ours, theirs = (records.get(f"{variant}--{data}") for variant in VARIANTS)
        cells = [score(record, which) for record in (ours, theirs) for which in ("last", "best")]
        lines.append(f"| `tmaze/{data}` | {published['oryx']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def data_table(records: dict[str, Any]) -> str:
    """What is in the datasets, beside the paper's."""
    lines = [
        "| | transitions | episodes | mean return | mean length | transitions (paper) | "
        "mean return (paper) |",
        "|---|---|---|---|---|---|---|",
    ]
    for data in (*PUBLISHED, "snapshots", "replay-small"):
        found, published = records[data], PUBLISHED.get(data, {})
        lines.append(
            f"| `tmaze/{data}` | {found['transitions']:,} | {found['episodes']:,} | "
            f"{found['returns']['mean']:.3f} | {found['lengths']['mean']:.1f} | "
            f"{published.get('transitions', '')} | {published.get('mean_return', '')} |"
        )
    return "\n".join(lines)


def sable_table(records: dict[str, Any]) -> str:
    """Every seed of the online learner."""
    found = records["sable"]
    curves = np.array(found["evaluations"])
    lines = ["| seed | sampled | greedy | steps to 0.99 |", "|---|---|---|---|"]
    for number, seed in enumerate(found["seeds"]):
        last = [found["scores"]["last"][a]["per_seed"][number] for a in ("sampled", "greedy")]
        reached = curves[curves[:, number + 1] >= 0.99, 0]
        when = f"{reached[0] / 1e6:.1f} million" if len(reached) else "not reached"
        lines.append(f"| {seed} | {last[0]:.3f} | {last[1]:.3f} | {when} |")
    return "\n".join(lines)


def pictures(records: dict[str, Any]) -> dict[str, str]:
    """File name and content of each picture."""
    curves = np.array(records["sable"]["curves"])
    series = {
        f"seed {seed}": (curves[:, 0] / 1e6, curves[:, number + 1])
        for number, seed in enumerate(records["sable"]["seeds"])
    }
    found = {
        "tmaze-sable.svg": figure.lines(
            "Online Sable on T-Maze", "million environment steps", "success while training", series
        )
    }
    for data in PUBLISHED:
        histogram = records[data]["histogram"]
        middles = (np.array(histogram["edges"][1:]) + np.array(histogram["edges"][:-1])) / 2
        counts = dict(zip([f"{m:g}" for m in middles], histogram["counts"], strict=True))
        title = f"Returns of the episodes of tmaze/{data}"
        found[f"tmaze-{data}-returns.svg"] = figure.bars(title, "return", "episodes", counts)
    return found


def tables(out: Path) -> dict[str, str]:
    """Every generated table by the name of its marker."""
    records = read(out)
    return {
        "tmaze_main": main_row(records),
        "tmaze_data": data_table(records),
        "tmaze_sable": sable_table(records),
        "tmaze_bench": Path("results/bench/tmaze/table.md").read_text().strip(),
    }


def write_documents(arguments: argparse.Namespace) -> None:
    """Tables and pictures of the documents, from the records."""
    for name, text in tables(arguments.out).items():
        insert(Path("docs/results/tmaze.md"), name, text)
    for name, content in pictures(read(arguments.out)).items():
        (Path("docs/pictures") / name).write_text(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["random", "sable", "data", "tables"])
    parser.add_argument("--steps", type=int, default=20_000_000, help="of online training")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/tmaze_paper"))
    parser.add_argument("--commit", default=commit())
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    parts = {
        "random": run_random,
        "sable": run_sable,
        "data": run_data,
        "tables": write_documents,
    }
    parts[arguments.what](arguments)


if __name__ == "__main__":
    main()
