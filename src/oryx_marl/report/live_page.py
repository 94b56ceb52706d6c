"""The live replay: the policy and its environment inside the page, which plays them itself.

The scripts are `live/*.js` here and the environment's own (`envs.base.find_script`); what they run
is the program of the policy (`policy/program.py`), and the recorded episodes' starts and noise.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from oryx_marl.envs.base import find_action_names, find_script
from oryx_marl.errors import OryxError
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.program import make_program
from oryx_marl.report import numbers
from oryx_marl.report.document import package_file
from oryx_marl.report.replay import SPEEDS, embed, icon
from oryx_marl.runs.folder import Run
from oryx_marl.runs.replay import Episode, Inputs
from oryx_marl.types import Spec

SCRIPTS = ("graph.js", "player.js", "live.js")
MOST_WEIGHTS = 8_000_000
"""Letters of the weights in a page, three bytes in four; a page with more has the recorded
pictures alone."""
RESTART = "M8 3a5 5 0 1 1-4.6 3H1.2l3-3.6 3 3.6H5a3.4 3.4 0 1 0 3-1.4z"


def find(run: Run, spec: Spec, episodes: Sequence[Episode]) -> dict[str, Any] | None:
    """What the page plays live; None where it cannot: no script of the environment, episodes
    without their noise, or a policy that is too large.

    Raises an OryxError where the policy cannot be had or put into a page.
    """
    inputs = [episode.inputs for episode in episodes]
    if find_script(spec) is None or any(each is None for each in inputs):
        return None
    artifact = run.policy()
    if artifact.spec != spec:
        raise OryxError(f"the policy of {run.folder} is of another Spec than the run")
    data = collect(artifact, [each for each in inputs if each is not None])
    return None if len(data["program"]["numbers"]) > MOST_WEIGHTS else data


def collect(artifact: PolicyArtifact, episodes: Sequence[Inputs]) -> dict[str, Any]:
    """What the scripts are given: the policy of the first seed, and episodes to start from."""
    spec = artifact.spec
    return {
        "config": dict(spec.environment_config),
        "agents": list(spec.agents),
        "action_names": find_action_names(spec),
        "program": make_program(artifact),
        "episodes": [each.to_json() for each in episodes],
    }


def script(spec: Spec) -> str:
    """The JavaScript of a page that plays live."""
    environment = find_script(spec)
    assert environment is not None
    graph, *rest = (package_file(f"live/{name}") for name in SCRIPTS)
    return "".join([graph, Path(environment).read_text(encoding="utf-8"), *rest])


def section(data: dict[str, Any], episodes: Sequence[Episode]) -> str:
    """The markup that live.js fills and shows; hidden until it has."""
    starts = "".join(
        f'<option value="{place}">{escape(episode.title)}, '
        f"return {numbers.one(episode.episode_return)}</option>"
        for place, episode in enumerate(episodes)
    )
    speeds = "".join(
        f'<option value="{speed}"{" selected" if speed == 1 else ""}>{speed}×</option>'
        for speed in SPEEDS
    )
    many = ' class="many"' if len(data["agents"]) > 5 else ""
    return f"""
<p id="live-why" class="quiet" role="status">The policy does not run in this browser; these are the
recorded pictures.</p>
<div id="live" class="live" hidden role="group" aria-label="Live replay: the policy acts here">
<div class="stage">
<canvas id="live-board" class="frame" tabindex="0" role="img" aria-label="Board"></canvas>
<div class="buttons">
<button type="button" id="live-restart" aria-label="Restart"><svg viewBox="0 0 16 16"
 aria-hidden="true"><path d="{RESTART}"/></svg></button>
<button type="button" id="live-play" class="main" aria-label="Play">{icon("play")}{icon("pause")}
</button>
<button type="button" id="live-step" aria-label="One step forward">{icon("forward")}</button>
<p class="moment"><b id="live-where">step 0</b><span id="live-so-far"></span></p>
<select id="live-speed" aria-label="Speed">{speeds}</select>
</div>
</div>
<div class="panel">
<div class="choose"><label>Start <select id="live-start">{starts}
<option value="new" id="live-new">a new start</option></select></label>
<label>Actions <select id="live-noise"><option value="recorded">as recorded</option>
<option value="sampled">sampled anew</option><option value="greedy">the likeliest</option></select>
</label></div>
<h3 id="live-next">What each agent does next</h3>
<ul id="live-agents"{many} aria-labelledby="live-next"></ul>
<h3 id="live-act">Act for <b id="live-name"></b>
<span id="live-before" class="quiet"><i></i>before your choice</span></h3>
<ul id="live-actions" aria-labelledby="live-act"></ul>
<p id="live-say" aria-live="polite"></p>
</div>
<p class="keys quiet"><kbd>Space</kbd> plays and pauses, <kbd>→</kbd> steps. After a click on the
board, or <kbd>Tab</kbd> to it: <kbd>↑</kbd> <kbd>↓</kbd> choose an agent, <kbd>1</kbd> to
<kbd>{min(len(data["action_names"]), 9)}</kbd> act for it, <kbd>Esc</kbd> gives it back,
<kbd>R</kbd> restarts.</p>
</div>
<p id="live-switch" hidden><button type="button" id="live-switch-button" class="text"></button></p>
<script type="application/json" id="live-data">{embed(data)}</script>"""
