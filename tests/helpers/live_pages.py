"""Live pages of small policies that were not trained, quickly made."""

from pathlib import Path
from typing import Any

from exports import SIZES, make_policy

from oryx_marl.envs.base import Env
from oryx_marl.envs.connector import Connector
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.eval.evaluator import Evaluator
from oryx_marl.outcomes.replay import make_replay
from oryx_marl.report import document, live_page, replay
from oryx_marl.report.page import SCRIPTS
from oryx_marl.runs.replay import Episode

ENVS: dict[str, Env] = {"tmaze": TMaze(), "connector": Connector()}
SMALL = SIZES | {"num_blocks": 1}


def play(
    env: Env, algorithm: str, temperature: float = 1.0, episodes: int = 3
) -> tuple[dict[str, Any], list[Episode]]:
    """What a page is given, and the episodes recorded in Python."""
    policy = make_policy(algorithm, env.spec, SMALL)
    evaluator = Evaluator(policy.algorithm, env, list(policy.seeds))
    recorded = make_replay(evaluator, policy.weights, 0, episodes, temperature)
    inputs = [each.inputs for each in recorded if each.inputs is not None]
    assert len(inputs) == episodes
    return live_page.collect(policy, inputs), recorded


def write_page(path: Path, env: Env, algorithm: str) -> str:
    """A page with the replay alone; its address."""
    data, episodes = play(env, algorithm)
    body = live_page.section(data, episodes) + replay.section(episodes, env.spec.agents)
    viewer = "".join(document.package_file(name) for name in SCRIPTS)
    text = document.render("replay", body, viewer, live_page.script(env.spec))
    return document.write(text, path).as_uri()
