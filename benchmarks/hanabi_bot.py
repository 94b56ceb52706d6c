"""What the bot of Hanabi scores: `python benchmarks/hanabi_bot.py`.

Random moves stand in the place of its own at several rates, those of the recipes among them. Writes
results/hanabi_bot.json, one entry per rate.
"""

import argparse
import json
from functools import partial
from pathlib import Path

import jax
import numpy as np

from oryx_marl.envs.hanabi import Hanabi
from oryx_marl.provenance import find_commit
from oryx_marl.recipes import _hanabi_bot
from oryx_marl.rollout import episodes
from oryx_marl.rollout.episodes import Episodes

RESULTS = Path(__file__).parent.parent / "results" / "hanabi_bot.json"
RATES = (0.0, 0.05, 0.1, 0.3)
SEED = 0


@partial(jax.jit, static_argnums=(0, 1, 2))
def _play(env: Hanabi, rate: float, count: int, key: jax.Array) -> Episodes:
    return episodes.play(env, _hanabi_bot.make_policy((rate,)), key, count)


def measure(rate: float, count: int, seed: int = SEED) -> dict[str, float | int]:
    """Mean score with its standard error, share of games that lose all lives, mean length."""
    found = jax.device_get(_play(Hanabi(), rate, count, jax.random.key(seed)))
    returns = np.asarray(found.returns, np.float64)
    return {
        "episodes": count,
        "seed": seed,
        "return": round(float(returns.mean()), 4),
        "standard_error": round(float(returns.std(ddof=1) / np.sqrt(count)), 4),
        "bombed": round(float(found.metrics["bombed"].mean()), 4),
        "length": round(float(found.lengths.mean()), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--episodes", type=int, default=8192)
    given = parser.parse_args()
    about = {
        "command": f"python benchmarks/hanabi_bot.py --episodes {given.episodes}",
        "commit": find_commit(),
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
    }
    scores = {f"{rate:g}": {**measure(rate, given.episodes), **about} for rate in RATES}
    RESULTS.write_text(json.dumps(scores, indent=1) + "\n")
    for rate, found in scores.items():
        print(rate, found["return"], "+-", found["standard_error"], "bombed", found["bombed"])


if __name__ == "__main__":
    main()
