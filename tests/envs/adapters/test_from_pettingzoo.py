"""Any PettingZoo parallel environment as a HostEnv, in this process and in others."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import toy_parallel

from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
from oryx_marl.errors import OryxError

HELPERS = Path(toy_parallel.__file__).parent


def drive(env, seeds, length=12):
    """All environments reset with these seeds, then stepped with actions of a fixed stream."""
    rng = np.random.default_rng(0)
    steps = [env.reset(np.arange(env.num_envs), np.array(seeds))]
    space = env.spec.action
    for _ in range(length):
        shape = (env.num_envs, env.spec.num_agents)
        if space.kind == "box":
            actions = rng.uniform(-1, 1, (*shape, space.size)).astype(np.float32)
        else:
            actions = rng.integers(0, space.size, shape).astype(np.int32)
        steps.append(env.step(actions))
    return steps


def wait_until(is_true, seconds=10.0):
    end = time.monotonic() + seconds
    while not is_true() and time.monotonic() < end:
        time.sleep(0.05)
    return is_true()


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A process that nobody has waited for yet is listed, but does not run any more.
    return Path(f"/proc/{process}/stat").read_text().split(")")[-1].split()[0] != "Z"


def find_workers(env):
    return [member._process.pid for member in env._members]


def test_the_spec_is_read_from_the_spaces():
    env = ParallelEnvs(toy_parallel.Relay, 2)
    assert env.spec.agents == ("a", "b", "c")
    assert env.spec.observation_sizes == (1, 2, 3)
    assert (env.spec.action.kind, env.spec.action.size) == ("discrete", 3)
    assert env.spec.state_size == 2
    assert env.spec.environment == ""
    assert env.name == "relay"
    assert len(env.action_names) == 3
    meet = ParallelEnvs(
        toy_parallel.parallel_env, environment="meet", environment_config={"a": 1}, name="mine"
    )
    assert (meet.spec.action.low, meet.spec.action.high) == ((-1.0,), (1.0,))
    assert (meet.name, meet.spec.environment, meet.spec.environment_config) == (
        "mine",
        "meet",
        {"a": 1},
    )


def test_agents_leave_and_are_masked():
    relay = toy_parallel.Relay()
    env = ParallelEnvs(lambda: relay, 1)
    steps = drive(env, [5], length=5)
    agent_mask = [step.observation.agent_mask[0].tolist() for step in steps]
    assert agent_mask[:4] == [[True] * 3, [True] * 3, [False, True, True], [False, False, True]]
    flags = [(s.terminal[0].tolist(), s.truncated[0].tolist()) for s in steps]
    assert flags[2] == ([True, False, False], [False] * 3)
    # The one that was left is cut off, and with it the episode of those that are gone.
    assert flags[4] == ([False] * 3, [True] * 3)
    assert [s.observation.step_count[0] for s in steps] == [0, 1, 2, 3, 4, 4]
    assert [bool(s.observation.reset[0]) for s in steps] == [True] + [False] * 5
    assert steps[1].observation.features[0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert steps[1].observation.features.dtype == np.int16
    assert steps[1].observation.action_mask[0].tolist() == [
        [True, False, False],
        [False, True, True],
        [True] * 3,
    ]
    assert steps[3].observation.action_mask[0, 0].all()  # the policy must find some action
    assert [s.rewards[0].tolist() for s in steps[:4]] == [[0] * 3, [1, 1, 2], [2, 2, 3], [0, 3, 4]]
    assert steps[2].state.tolist() == [[2.0, 5.0]]
    assert steps[2].state.dtype == np.float32
    # Actions are counted as the space does, and sent for those who are there.
    assert [sorted(actions) for actions in relay.acted] == [[*"abc"], [*"abc"], [*"bc"], ["c"]]
    assert all(action in (1, 2, 3) for actions in relay.acted for action in actions.values())


def test_an_environment_that_has_ended_waits():
    env = ParallelEnvs(toy_parallel.Relay, 2)
    env.reset(np.array([0]), np.array([3]))
    steps = [env.step(np.zeros((2, 3), np.int32)) for _ in range(6)]
    for part in ("rewards", "terminal", "truncated", "state"):
        for later in steps[4:]:
            np.testing.assert_array_equal(getattr(steps[3], part), getattr(later, part))
    assert all(step.terminal[1].all() for step in steps)  # was never begun
    assert not any(step.observation.agent_mask[1].any() for step in steps)
    again = env.reset(np.array([1, 0]), np.array([8, 9]))
    assert again.state[:, 1].tolist() == [8, 9]
    assert again.observation.reset.all()
    assert not again.rewards.any()


def test_numbers_in_the_infos_are_metrics():
    env = ParallelEnvs(toy_parallel.Relay, 1)
    steps = drive(env, [5], length=4)
    assert [*steps[0].metrics] == []
    assert steps[2].metrics["halfway"].tolist() == [7.0]
    # Said once, a number holds until the episode's end; others are not known before.
    assert {name: values.tolist() for name, values in steps[4].metrics.items()} == {
        "halfway": [7.0],
        "won": [1.0],
    }
    fresh = env.reset(np.array([0]), np.array([1]))
    assert np.isnan([fresh.metrics[name][0] for name in ("halfway", "won")]).all()
    meet = drive(ParallelEnvs(toy_parallel.parallel_env, 3), [1, 2, 3])
    near = np.stack([step.metrics["near"] for step in meet])
    assert set(np.unique(near)) <= {0.0, 0.5, 1.0}  # the mean over two agents
    assert len(np.unique(near)) > 1


def test_workers_give_what_one_process_gives():
    seeds = [3, 1, 4, 1, 5]
    here = drive(ParallelEnvs(toy_parallel.parallel_env, 5), seeds)
    env = ParallelEnvs("toy_parallel:parallel_env", 5, num_workers=2)
    assert env.num_workers == 2
    there = drive(env, seeds)
    np.testing.assert_equal(here, there)
    again = env.reset(np.array([4, 0, 3]), np.array([5, 3, 1]))
    np.testing.assert_array_equal(
        again.observation.features, here[0].observation.features[[4, 0, 3]]
    )
    np.testing.assert_array_equal(here[0].observation.features[1], here[0].observation.features[3])
    env.close()
    with pytest.raises(OryxError, match="'meet' is closed"):
        env.reset(np.array([0]), np.array([0]))


def test_workers_do_without_jax_and_end_with_their_environment():
    env = ParallelEnvs(toy_parallel.Informer, 4, num_workers=2)
    found = env.reset(np.arange(4), np.arange(4)).metrics
    assert found["jax"].tolist() == [0.0] * 4
    here = ParallelEnvs(toy_parallel.Informer, 1).reset(np.zeros(1, int), np.zeros(1, int)).metrics
    assert here["jax"].tolist() == [1.0]
    workers = find_workers(env)
    assert os.getpid() not in workers
    assert all(map(is_running, workers))
    env.close()
    env.close()
    assert not any(map(is_running, workers))
    env = ParallelEnvs(toy_parallel.Informer, 2, num_workers=1)
    workers = find_workers(env)
    del env
    gc.collect()
    assert not any(map(is_running, workers))


def test_workers_end_when_their_parent_is_killed():
    code = """
import sys, time
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
env = ParallelEnvs("toy_parallel:parallel_env", 2, num_workers=2)
print(*(member._process.pid for member in env._members), flush=True)
time.sleep(60)
"""
    path = os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")])
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert parent.stdout is not None
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2
    assert all(map(is_running, workers))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert wait_until(lambda: not any(map(is_running, workers)))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_error_names_the_environment(num_workers):
    env = ParallelEnvs(toy_parallel.Breaking, 2, num_workers)
    with pytest.raises(
        OryxError, match=r"'meet' \(number 0\) could not make step 3: ValueError: the wheel"
    ):
        drive(env, [1, 2])
    with pytest.raises(OryxError, match="is closed"):
        env.step(np.zeros((2, 2, 1)))
    with pytest.raises(OryxError, match=r"could not be made.*no 'nothing'"):
        ParallelEnvs("toy_parallel:nothing", 1, num_workers)


def test_a_worker_that_dies_is_told():
    with pytest.raises(OryxError, match=r"ended all by itself \(exit code 3\)"):
        drive(ParallelEnvs(toy_parallel.Dying, 2, num_workers=2), [1, 2])


def test_what_cannot_travel_stays_here_and_says_so():
    with pytest.warns(UserWarning, match=r"run in this process.*[Pp]ickl"):
        env = ParallelEnvs(lambda: toy_parallel.Meet(), 3, num_workers=2)
    assert env.num_workers == 0
    assert len(drive(env, [1, 2, 3])) == 13


def test_a_script_is_not_run_again_by_its_workers(tmp_path):
    """Nobody is forced to write `if __name__ == "__main__"`: a factory in the script stays here."""
    script = tmp_path / "script.py"
    script.write_text("""
import warnings
import toy_parallel
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
print("begun")
class Own(toy_parallel.Meet):
    pass
assert ParallelEnvs("toy_parallel:Meet", 2, num_workers=1).num_workers == 1
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    assert ParallelEnvs(Own, 2, num_workers=1).num_workers == 0
assert "not in a script" in str(told[-1].message), told
""")
    path = os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["begun"]


def test_what_a_policy_cannot_act_on_is_refused():
    class Blind(toy_parallel.Meet):
        def _see(self):
            return {agent: x * np.nan for agent, x in super()._see().items()}

    class Locked(toy_parallel.Relay):
        def _tell(self, agents):
            return {agent: {"action_mask": np.zeros(2)} for agent in agents if agent == "a"}

    class Wide(toy_parallel.Meet):
        def _see(self):
            return {agent: np.append(x, 0) for agent, x in super()._see().items()}

    for broken, told in [
        (Blind, "agent left sees a number that is not finite"),
        (Locked, "agent a has no legal action"),
        (Wide, "agent left sees 3 numbers, but its observation space has 2"),
    ]:
        with pytest.raises(OryxError, match=f"could not be reset with seed 7: {told}"):
            ParallelEnvs(broken, 1).reset(np.array([0]), np.array([7]))
    with pytest.raises(OryxError, match="at least 1 environment"):
        ParallelEnvs(toy_parallel.Meet, 0)


def test_a_limit_cuts_episodes_off():
    steps = drive(ParallelEnvs(toy_parallel.parallel_env, 2, episode_limit=3), [1, 2], length=4)
    assert [bool(step.truncated.all()) for step in steps] == [False, False, False, True, True]
    assert not any(step.terminal.any() for step in steps)
