"""The live page without a browser: its size, its markup, and the same actions as in Python."""

import re
from pathlib import Path
from typing import Any

import live_pages
import pytest
from live_pages import ENVS
from live_scripts import needs_node, run_node, script

from oryx_marl.envs.base import find_script
from oryx_marl.report import live_page

MOST_BYTES = 300_000
PLAY = """(data) => {
  const player = LivePlayer.make(data);
  const episodes = player.episodes.map((_, n) => player.compare(n));
  player.begin(0, "recorded", 1);
  player.step();
  const sums = data.agents.map((_, n) => player.probabilities(n).reduce((sum, x) => sum + x, 0));
  const { actions } = player.plan();
  const taken = data.agents.map((_, n) => [player.chance(n), player.probabilities(n)[actions[n]]]);
  return { episodes, sums, taken, reactions: player.reactions(0) };
}"""


@pytest.mark.parametrize("name", ENVS)
def test_the_javascript_is_small(name: str) -> None:
    assert 20_000 < len(live_page.script(ENVS[name].spec).encode()) <= MOST_BYTES


def in_node(folder: Path, env: Any, function: str, data: Any) -> Any:
    path = find_script(env.spec)
    assert path is not None
    own = path.read_text(encoding="utf-8")
    scripts = [script("graph.js"), own, script("player.js")]
    return run_node(folder, scripts, function, data)


@needs_node
@pytest.mark.parametrize(
    ("name", "algorithm", "temperature"),
    [
        ("tmaze", "oryx", 1.0),
        ("connector", "oryx", 0.5),
        ("tmaze", "bc", 0.0),
        ("tmaze", "sable", 1.0),  # which tells the chance of the action taken alone
    ],
)
def test_actions_are_the_recorded_ones(
    name: str, algorithm: str, temperature: float, tmp_path: Path
) -> None:
    env = ENVS[name]
    data, recorded = live_pages.play(env, algorithm, temperature)
    found = in_node(tmp_path, env, PLAY, data)
    for each, episode in zip(found["episodes"], recorded, strict=True):
        assert each["isEqual"], each
        assert each["steps"] == each["equal"] == len(episode.actions)
        assert each["total"] == pytest.approx(episode.episode_return, abs=1e-5)
    assert found["sums"] == pytest.approx([1] * env.spec.num_agents, abs=1e-5)
    for one, other in found["taken"]:
        assert one == pytest.approx(other, abs=1e-6)
    # Agents of bc do not see what those before them do, those of the others do.
    assert (found["reactions"]["same_step"] > 1e-4) == (algorithm != "bc")
    assert found["reactions"]["next_step"] > 1e-4


WRONG = """(data) => {
  data.episodes[0].actions[2] = data.episodes[0].actions[2].map((action) => action + 1);
  return LivePlayer.make(data).compare(0);
}"""
LED = """(data) => {
  const player = LivePlayer.make(data);
  player.begin(0, "recorded", 1);
  const free = player.plan().actions;
  player.choose(0, 0);  // to stay, which is not allowed in the first step
  const refused = player.chosen(0);
  const other = free[0] === 5 ? 6 : 5;
  player.choose(0, other);
  const led = player.plan().actions;
  player.step();
  const left = player.now.isAsRecorded;
  player.begin(0, "greedy", 1);
  const greedy = player.probabilities(0);
  const likeliest = greedy.indexOf(Math.max(...greedy));
  return {refused, other, led, left, likeliest, taken: player.plan().actions[0]};
}"""


@needs_node
def test_the_hand_of_the_user(tmp_path: Path) -> None:
    env = ENVS["tmaze"]
    data, _ = live_pages.play(env, "oryx")
    found = in_node(tmp_path, env, LED, data)
    assert found["refused"] is None
    assert found["led"][0] == found["other"]
    assert not found["left"]
    assert found["taken"] == found["likeliest"]
    wrong = in_node(tmp_path, env, WRONG, data)
    assert (wrong["equal"], wrong["isEqual"], wrong["isAsRecorded"]) == (2, False, False)


def test_the_page_allows_its_scripts_alone(tmp_path: Path) -> None:
    address = live_pages.write_page(tmp_path / "page.html", ENVS["tmaze"], "bc")
    assert address.startswith("file:")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert len(re.findall(r"'sha256-[^']+'", policy[1])) == text.count("<script>") == 2
    assert policy[1].startswith("default-src 'none'; img-src data:")
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    # Until the policy has run, the page says that these are the recorded pictures.
    assert 'id="live" class="live" hidden' in text
    assert "these are the\nrecorded pictures." in text
