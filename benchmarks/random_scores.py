"""What random agents score: `python benchmarks/random_scores.py [SCENARIO ...]`.

Every agent takes each of its legal actions with the same probability. Writes
results/random_scores.json, one entry per scenario; without names all of Connector and SMAX, and the
tasks of multi-agent MuJoCo that have published data.
"""

import argparse
import json
from pathlib import Path

import jax
import numpy as np

from oryx_marl.envs import base, connector, smax
from oryx_marl.eval import uniform
from oryx_marl.provenance import find_commit
from oryx_marl.recipes import mamujoco

RESULTS = Path(__file__).parent.parent / "results" / "random_scores.json"
ALL = (*connector.SCENARIOS[:-1], *smax.SCENARIOS[:-1], *mamujoco.FAMILIES)
SEED = 0


def measure(name: str, episodes: int, seed: int = SEED) -> dict[str, float | int]:
    """Mean return over agents and episodes with its standard error, and the mean length."""
    returns, lengths = uniform.play(base.make_named(name), episodes, jax.random.key(seed))
    found = np.asarray(returns, np.float64)
    return {
        "episodes": episodes,
        "seed": seed,
        "return": round(float(found.mean()), 7),
        "standard_error": round(float(found.std(ddof=1) / np.sqrt(episodes)), 7),
        "length": round(float(np.asarray(lengths).mean()), 1),
    }


def markdown(scores: dict[str, dict]) -> str:
    """The table of docs/reference/environments.md."""
    rows = [
        f"| `{name}` | {base.make_named(name).spec.num_agents} | {found['return']:.3f} "
        f"± {found['standard_error']:.3f} | {found['length']:.1f} |"
        for name, found in scores.items()
        if name in ALL
    ]
    return "\n".join(["| scenario | agents | return | length |", "|---|---|---|---|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=ALL, metavar="SCENARIO")
    parser.add_argument("--episodes", type=int, default=1024)
    given = parser.parse_args()
    commit = find_commit()
    scores = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.names:
        command = f"python benchmarks/random_scores.py {name} --episodes {given.episodes}"
        scores[name] = {
            **measure(name, given.episodes),
            "command": command,
            "commit": commit,
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
        }
        print(name, scores[name]["return"], "+-", scores[name]["standard_error"])
        scores = {each: scores[each] for each in (*ALL, *scores) if each in scores}
        RESULTS.write_text(json.dumps(scores, indent=1) + "\n")


if __name__ == "__main__":
    main()
