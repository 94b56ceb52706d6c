"""What online learners have reached, and the data of their trainings.

    python benchmarks/online.py keep DATASET      # after oryx data make DATASET
    python benchmarks/online.py score SCENARIO    # the last policy again, on other episodes
    python benchmarks/online.py tables

`keep` makes checkpoints of a recorded training the pretrained policies of the recipes (assets/), in
half precision, and writes its scores, curve and settings and the statistics of the data to
results/online/. Those of tmaze/replay are the first that reached some success rates, in full
precision.
"""

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from documents import fill
from oryx_marl import recipes
from oryx_marl.bench import published
from oryx_marl.data import stats
from oryx_marl.envs import base
from oryx_marl.policy import artifact
from oryx_marl.recipes import _assets, _policies
from oryx_marl.recipes.base import TRAINING
from oryx_marl.runs.documents import Evaluation, MetricRow, RunConfig, SpecDocument, Summary
from oryx_marl.runs.folder import Run

RESULTS = Path(__file__).parent.parent / "results"
RECORDS = RESULTS / "online"
ASSETS = Path(__file__).parent.parent / "assets"
STATISTICS = ("fingerprint", "transitions", "episodes", "returns", "lengths")


def keep(dataset: str) -> Path:
    """Writes both files and returns the record's."""
    folder = recipes.find(dataset)
    run = folder.with_name(folder.name + TRAINING) / "run"
    data, files = recipes.open(folder), Run(run)
    config, spec = files.read(RunConfig), files.read(SpecDocument).spec
    name = base.make(spec).name
    steps = config.steps_per_update
    if name == "tmaze":
        keep_by_success(files, data.origin)
    else:
        keep_policies(run.with_name("snapshots"), ASSETS / name)
    _assets.write_manifest()
    found = stats.describe(data)
    record = {
        "scenario": name,
        "num_agents": spec.num_agents,
        "command": data.origin["command"],
        "commit": data.origin["commit"],
        **config.to_json(),
        "seconds": list(files.rows(MetricRow))[-1].seconds,
        "scores": files.read(Summary).to_json(),
        "curve": [
            [row.update * steps, float(row.returns.mean())] for row in files.rows(Evaluation)
        ],
        "data": {each: found[each] for each in STATISTICS}
        | {"first_agent": float(stats.first_agent_returns(data).mean())},
    }
    RECORDS.mkdir(parents=True, exist_ok=True)
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def keep_policies(snapshots: Path, folder: Path) -> None:
    """In place of those that are there."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in _policies.find(snapshots):
        policy = artifact.load(path)
        origin = {**policy.origin, "sha256": policy.sha256, "half": True}
        artifact.save(folder / path.name, replace(policy, origin=origin), half=True)


def keep_by_success(run: Run, origin: dict[str, Any]) -> None:
    """The final policy, and the first that reached each of some success rates."""
    rows = list(run.rows(Evaluation))
    scores = {row.update: float(row.returns.mean()) for row in rows}
    chosen = {
        name: min(update for update, score in scores.items() if score >= least)
        for name, least in {"early": 0.1, "middle": 0.5, "late": 0.9}.items()
    }
    chosen["final"] = max(scores)
    facts = {key: origin[key] for key in ("command", "commit", "version") if key in origin}
    for name, update in chosen.items():
        policy = artifact.load(run.folder.with_name("snapshots") / f"{update}.npz")
        about = {"evaluation": scores[update], "episodes": rows[0].returns.shape[1]}
        folder = _assets.PACKAGED if name == "final" else ASSETS
        kept = replace(policy, origin={**policy.origin, **facts, **about})
        artifact.save(folder / "tmaze" / f"{name}.npz", kept)


def score(scenario: str) -> Path:
    """Writes the mean return of the last policy over many episodes to its record."""
    last = "tmaze/final.npz" if scenario == "tmaze" else _assets.checkpoints(scenario)[-1]
    path = RECORDS / f"{scenario}.json"
    returns = _policies.score(*_assets.locate([last]))
    error = float(returns.std(ddof=1) / len(returns) ** 0.5)
    expert = {"mean": float(returns.mean()), "standard_error": error, "episodes": len(returns)}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"expert": expert}, indent=1) + "\n")
    return path


def tables(records: Path = RECORDS) -> dict[str, str]:
    """Every generated table by the name of its marker."""
    found = [json.loads(path.read_text()) for path in records.glob("*.json")]
    found.sort(key=lambda record: (record["scenario"][:3], record["num_agents"]))
    random = json.loads((RESULTS / "random_scores.json").read_text())
    header = "| scenario | steps | random | data | expert | lead | data, first agent | paper's |"
    rows = [_row(record, random[record["scenario"]]["return"]) for record in found]
    return {"online": "\n".join([header, "|---" + "|---:" * 7 + "|", *rows])}


def _row(record: dict[str, Any], random: float) -> str:
    data, expert = record["data"], record["expert"]["mean"]
    facts = [each for each in published.datasets() if each.scenario == record["scenario"]]
    logged = data["returns"]["mean"]
    values = [random, logged, expert, expert - logged, data["first_agent"]]
    cells = [f"`{record['scenario']}`", f"{record['curve'][-1][0] / 1e6:.1f} million"]
    cells += [f"{value:.3f}" for value in values]
    cells += [f"{facts[0].mean_return:.2f}" if facts else ""]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["keep", "score", "tables"])
    parser.add_argument("dataset", nargs="?", help="such as con-5x5x3a/replay, or a scenario")
    given = parser.parse_args()
    if given.what == "keep":
        score(keep(given.dataset).stem)
    if given.what == "score":
        score(given.dataset)
    fill(tables())


if __name__ == "__main__":
    main()
