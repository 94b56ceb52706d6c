"""A tiny run of two seeds, as files, for the tests of its page."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from oryx_marl.types import ActionSpace, Spec


def score(mean: float, low: float, high: float) -> dict[str, Any]:
    return {
        "mean": mean,
        "low": low,
        "high": high,
        "per_seed": [low, high],
        "within_seed_std": [0.125, 0.25],
    }


def put(folder: Path, name: str, value: Any) -> None:
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


DATASET = {
    "fingerprint": "5f0d",
    "transitions": 51234,
    "episodes": 4000,
    "agents": 2,
    "returns": {"mean": 0.93, "std": 0.25, "min": 0.0, "max": 1.0},
    "lengths": {"mean": 12.8, "min": 9, "max": 20},
    "histogram": {"edges": [0.0, 0.5, 1.0], "counts": [280, 3720]},
}


def log_line(update: int, word: str) -> dict[str, Any]:
    return {
        "update": update,
        "seconds": update / 10,
        "metrics": {
            "loss": [1.0 / update, 2.0 / update],
            "max_logit": [5.0, 7.0],
            "effective_sample_size": [0.5, 0.4],
            word: [1.0, 1.0],
        },
    }


def put_run(folder: Path, name: str = "tmaze/expert", word: str = "up") -> Path:
    """A whole run of two seeds; `name` and `word` are the text it shows."""
    config = {"policy_temperature": 0.1, "width": 64, "note": word}
    put(
        folder,
        "config.json",
        {
            "algorithm": "oryx",
            "dataset": name,
            "seeds": [4, 5],
            "updates": 3000,
            "config": config,
            "version": "0.1.0",
            "device": word,
        },
    )
    space = ActionSpace("discrete", 5)
    put(folder, "spec.json", Spec("tmaze", (word, "right"), (3, 3), space, 9).to_dict())
    lines = [json.dumps(log_line(update, word)) for update in (100, 200)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    seeds = {
        f"seed_{seed}": {
            "step_0": {"step_count": 0, "elapsed_time": 0.0, "return": [0.0, 0.0]},
            "step_1": {"step_count": 3000, "elapsed_time": 9.0, "return": [1.0, seed - 4.0]},
            "absolute_metrics": {"return": [1.0, 1.0, 1.0, seed - 4.0]},
        }
        for seed in (4, 5)
    }
    put(folder, "eval.json", {"tmaze": {name: {"oryx": seeds}}})
    summary = {
        "metric": "success rate",
        "episodes": 320,
        "last": {"sampled": score(0.981, 0.96, 1.0), "greedy": score(0.9, 0.8, 1.0)},
        "best": {"sampled": score(0.985, 0.97, 1.0)},
    }
    put(folder, "summary.json", summary)
    put(folder, "dataset.json", {"name": name, **DATASET})
    steps = [{"actions": [word, "stay"], "reward": reward} for reward in (0.25, 0.5)]
    captions = json.dumps([{"title": name, "return": 0.75, "steps": steps}])
    frames = np.arange(3, dtype=np.uint8)[:, None, None, None] * np.ones((3, 4, 6, 3), np.uint8)
    np.savez(folder / "replay.npz", captions=np.array(captions), frames_0=frames)
    return folder
