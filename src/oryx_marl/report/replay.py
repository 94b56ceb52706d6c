"""The replay section: recorded episodes as sprite sheets, and the markup that viewer.js drives."""

import base64
import json
from collections.abc import Sequence
from html import escape
from typing import Any

from oryx_marl.report import numbers, png
from oryx_marl.runs.replay import Episode

SHEET_WIDTH = 4096
"""Widest sheet in pixels; all browsers decode that much."""
SPEEDS = (0.5, 1, 2, 4)
"""Choices of speed; 1 is two steps per second."""
MANY_AGENTS = 8
"""From more agents than this on, the list of actions scrolls."""

ICONS = {
    "back": "M11 3v10L4 8zM3 3h1.6v10H3z",
    "play": "M4.5 2.5v11l9-5.5z",
    "pause": "M4 3h3v10H4zM9 3h3v10H9z",
    "forward": "M5 3v10l7-5zM11.4 3H13v10h-1.6z",
}
"""Outlines of the buttons in a box of 16 by 16."""


def section(episodes: Sequence[Episode], agents: Sequence[str]) -> str:
    """The viewer, showing the first frame of the first episode, and the data it plays."""
    width = max(episode.frames.shape[2] for episode in episodes)
    height = max(episode.frames.shape[1] for episode in episodes)
    most = max((len(step) for episode in episodes for step in episode.actions), default=0)
    names = [agents[n] if n < len(agents) else f"agent {n}" for n in range(most)]
    first = episodes[0]
    choices = "".join(
        f'<option value="{place}">{escape(episode.title)}, '
        f"return {numbers.one(episode.episode_return)}</option>"
        for place, episode in enumerate(episodes)
    )
    speeds = "".join(
        f'<option value="{speed}"{" selected" if speed == 1 else ""}>{speed}×</option>'
        for speed in SPEEDS
    )
    data = [_episode(episode) for episode in episodes]
    crisp = " crisp" if width < 128 else ""
    return f"""
<div id="viewer" class="viewer" role="group" aria-label="Replay of recorded episodes">
<div class="stage" style="--wide:{width};--high:{height}">
<canvas id="frame" class="frame{crisp}" width="{width}" height="{height}" tabindex="0" role="img"
 aria-label="Picture of the current step. Space plays and pauses, arrow keys step."></canvas>
</div>
<div class="panel">
<div class="choose"><label>Episode <select id="episode">{choices}</select></label>
<label>Speed <select id="speed">{speeds}</select></label></div>
<div id="caption" class="caption">
<p class="where"><span id="where">step 0 of {len(first.frames) - 1}</span>
<span id="so-far">return so far 0</span></p>
{_actions(first, names)}
<p id="reward" class="reward">&nbsp;</p>
</div>
<div class="buttons">
<button type="button" id="back" aria-label="One step back">{icon("back")}</button>
<button type="button" id="play" class="main" aria-label="Play">{icon("play")}{icon("pause")}
</button>
<button type="button" id="forward" aria-label="One step forward">{icon("forward")}</button>
<input type="range" id="place" min="0" max="{len(first.frames) - 1}" value="0"
 aria-label="Step of the episode">
</div>
</div>
<noscript><p class="quiet">The replay needs JavaScript; everything else on this page does not.</p>
</noscript>
</div>
<script type="application/json" id="replay-data">{embed(data)}</script>"""


def _actions(episode: Episode, names: Sequence[str]) -> str:
    """One row per agent, so that nothing moves when the actions change."""
    now = episode.actions[0] if episode.actions else ()
    rows = "".join(
        f"<li><span>{escape(name)}</span> <b>{escape(now[n]) if n < len(now) else ''}</b></li>"
        for n, name in enumerate(names)
    )
    many = ' class="many" tabindex="0"' if len(names) > MANY_AGENTS else ""
    return f'<ul id="actions" aria-label="Actions from here"{many}>{rows}</ul>'


def icon(name: str) -> str:
    """A small picture on a button."""
    outline = f'<path d="{ICONS[name]}"/>'
    return f'<svg class="{name}" viewBox="0 0 16 16" aria-hidden="true">{outline}</svg>'


def embed(data: Any) -> str:
    """JSON that may stand inside a script element: no `<` in it can end the element."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _episode(episode: Episode) -> dict[str, Any]:
    """One episode for the viewer."""
    length, height, width, _ = episode.frames.shape
    columns = min(length, max(1, SHEET_WIDTH // width))
    picture = png.encode(png.sheet(episode.frames, columns))
    return {
        "sheet": "data:image/png;base64," + base64.b64encode(picture).decode(),
        "frames": length,
        "columns": columns,
        "width": width,
        "height": height,
        "return": numbers.one(episode.episode_return),
        "actions": episode.actions,
        "rewards": [numbers.one(reward) for reward in episode.rewards],
        "so_far": [
            numbers.one(sum(episode.rewards[:place])) for place in range(len(episode.rewards) + 1)
        ],
    }
