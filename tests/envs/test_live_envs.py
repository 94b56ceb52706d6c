"""Environments in JavaScript, compared step by step with those in Python."""

from pathlib import Path
from typing import Any

import env_conformance
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from live_scripts import needs_node, run_node, script

from oryx_marl.envs import base
from oryx_marl.envs.base import Env, find_script, require_jax
from oryx_marl.envs.connector import Connector
from oryx_marl.envs.tmaze import TMaze

ENVS = {
    "tmaze": TMaze(),
    "tmaze, long": TMaze(length=3, width=4, time_limit=9),
    "tmaze, published": TMaze(observation_mode="published"),
    "connector": Connector(),
    "connector, clean": Connector(grid_size=7, num_agents=5, observation_mode="clean"),
    "connector, ten": Connector(grid_size=10, num_agents=10),
}
EPISODES, STEPS = 24, 40
PLAY = """({config, starts, actions}) => {
  const environment = Environment.make(config);
  const mask = (state) => environment.actionMask(state).map((row) => row.map(Boolean));
  const see = (state) => [environment.features(state), mask(state)];
  return starts.map((start, n) => {
    let state = environment.read(start);
    const found = [[...see(state)]];
    for (const chosen of actions[n]) {
      const after = environment.step(state, chosen);
      state = after.state;
      found.push([...see(state), after.rewards, after.isTerminal, after.isTruncated]);
      if (after.isTerminal || after.isTruncated) break;
    }
    return found;
  });
}"""


def play(env: Env) -> tuple[Any, Any, np.ndarray]:
    """States, Steps and actions of random episodes, one action in ten not allowed."""

    def one(key: jax.Array) -> Any:
        def advance(carry: Any, index: jax.Array) -> Any:
            state, step = carry
            act_key, any_key, step_key = jax.random.split(jax.random.fold_in(key, index), 3)
            actions = env_conformance.draw_actions(env, step.observation, act_key)
            other = jax.random.randint(any_key, actions.shape, 0, env.spec.action.size)
            actions = jnp.where(jax.random.uniform(act_key, actions.shape) < 0.1, other, actions)
            after = env.step(state, actions, step_key)
            return after, (*after, actions)

        first = env.reset(key)
        _, (states, steps, actions) = jax.lax.scan(advance, first, jnp.arange(STEPS))
        whole = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, (states, steps))
        return *whole, actions

    states, steps, actions = jax.device_get(jax.jit(jax.vmap(one))(env_conformance.KEYS[:EPISODES]))
    return states, steps, np.asarray(actions)


@needs_node
@pytest.mark.parametrize("name", ENVS)
def test_every_step_is_that_of_python(name: str, tmp_path: Path) -> None:
    env = require_jax(ENVS[name], "this test")
    path = find_script(env.spec)
    assert path is not None
    states, steps, actions = play(env)
    starts = [
        jax.tree.map(lambda x: x[n, 0].tolist(), states)._asdict()  # noqa: B023
        for n in range(EPISODES)
    ]
    given = {
        "config": dict(env.spec.environment_config),
        "starts": starts,
        "actions": actions.tolist(),
    }
    episodes = run_node(tmp_path, [path.read_text(encoding="utf-8")], PLAY, given)
    ends = 0
    for n, episode in enumerate(episodes):
        for t, (features, mask, *after) in enumerate(episode):
            seen = jax.tree.map(lambda x: x[n, t], steps)  # noqa: B023
            np.testing.assert_array_equal(np.float32(features), seen.observation.features)
            np.testing.assert_array_equal(mask, seen.observation.action_mask)
            if t == 0:
                continue
            rewards, is_terminal, is_truncated = after
            np.testing.assert_array_equal(np.float32(rewards), seen.rewards)
            assert is_terminal == seen.terminal.all() == seen.terminal.any()
            assert is_truncated == seen.truncated.all() == seen.truncated.any()
            ends += is_terminal or is_truncated
    assert ends > EPISODES / 2  # most episodes were played to their end


def test_only_environments_with_a_script_play_live() -> None:
    scripts = {path.stem for path in base.SCRIPTS.glob("*.js")}
    assert scripts == {"tmaze", "connector"}
    assert find_script(base.make_named("recall").spec) is None


POINT = """({config, start, cell}) => {
  const environment = Environment.make(config);
  const state = environment.read(start);
  const [x, y] = cell;
  const find = ([right, down]) => environment.moveTo(state, 0, x + right, y + down);
  const moves = [[0, 0], [0, -1], [1, 0], [0, 1], [-1, 0]].map(find);
  return {moves, self: environment.agentAt(state, x, y), far: find([3, 0])};
}"""


@needs_node
@pytest.mark.parametrize("name", ["tmaze", "connector"])
def test_a_point_of_the_picture_is_an_agent_or_a_move(name: str, tmp_path: Path) -> None:
    """Stay, up, right, down, left, as a user sees the board; rows of T-Maze are counted upwards."""
    env = require_jax(ENVS[name], "this test")
    path = find_script(env.spec)
    assert path is not None
    state = jax.device_get(env.reset(env_conformance.KEY)[0])
    row, column = np.asarray(state.positions)[0].tolist()
    point = (column + 0.5, row + 0.5) if name == "connector" else (column + 3.5, 6.5 - row)
    start = jax.tree.map(lambda x: x.tolist(), state)._asdict()
    given = {"config": dict(env.spec.environment_config), "start": start, "cell": point}
    found = run_node(tmp_path, [path.read_text(encoding="utf-8")], POINT, given)
    assert found == {"moves": [0, 1, 2, 3, 4], "self": 0, "far": -1}


DRAW = """({config, start}) => {
  const environment = Environment.make(config);
  const random = LivePlayer.makeRandom(3);
  const drawn = Array.from({length: 400}, () => environment.reset(random));
  const share = (is) => drawn.filter(is).length / drawn.length;
  return [share((s) => s.greenLeft), share((s) => s.positions[0][1] === 0)];
}"""


@needs_node
def test_new_starts_are_drawn_evenly(tmp_path: Path) -> None:
    env = ENVS["tmaze"]
    path = find_script(env.spec)
    assert path is not None
    scripts = [path.read_text(encoding="utf-8"), script("player.js")]
    shares = run_node(tmp_path, scripts, DRAW, {"config": dict(env.spec.environment_config)})
    assert all(0.4 < share < 0.6 for share in shares)
