"""Logs against the simulator that is installed: our recordings, other physics, published data."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from foreign_files import write_as_flashbax

from oryx_marl.cli import main as cli
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.hub import archives as hub
from oryx_marl.data.quality.checks.simulator import find_errors
from oryx_marl.data.quality.validate import validate
from oryx_marl.data.vault_view import VaultView
from oryx_marl.envs import base, find_predictor, mamujoco
from oryx_marl.errors import OryxError

load_model = mamujoco.load_model


def record(robot, agents, view="gymnasium", steps=120, gravity=1.0, reach=1.0):
    """Arrays of two robots one after the other, with random torques of up to `reach`."""
    with pytest.MonkeyPatch.context() as patch:

        def load(file):
            model = load_model(file)
            model.opt.gravity[:] *= gravity
            return model

        patch.setattr(mamujoco, "load_model", load)
        env = mamujoco.make(robot, agents, view, num_envs=2, num_workers=1)
    rng, found = np.random.default_rng(0), []
    now = env.reset(np.arange(2), np.arange(2))
    for _ in range(steps):
        shape = (2, env.spec.num_agents, env.spec.action.size)
        actions = rng.uniform(-reach, reach, shape).astype(np.float32)
        after = env.step(actions)
        found.append((now.observation.features, now.state, actions, after.rewards))
        now = after
        if now.terminal.any():
            break
    found.append((now.observation.features, now.state, actions, 0 * now.rewards))
    names = ("observations", "state", "actions", "rewards")
    parts = zip(*found, strict=True)
    joined = {
        name: np.concatenate(np.stack(part).swapaxes(0, 1))
        for name, part in zip(names, parts, strict=True)
    }
    return env.spec, joined, len(found)


def as_dataset(spec, arrays, length, **changes):
    """Without the row after the last step."""
    keep = np.arange(2 * length) % length != length - 1
    arrays = {name: array[keep] for name, array in arrays.items()}
    ends = np.zeros(arrays["rewards"].shape, bool)
    ends[length - 2 :: length - 1] = True
    flags = {"terminals": np.zeros_like(ends), "truncations": ends}
    starts = np.array([0, length - 1])
    return Dataset(**{"spec": spec, **arrays, **flags, "episode_starts": starts, **changes})


def as_published(name, arrays, length, folder, **changes):
    """A vault as OG-MARL has it, with a terminal at the time limit and a row after it."""
    ends = np.zeros(arrays["rewards"].shape, np.float32)
    ends[length - 1 :: length] = 1
    arrays = {**arrays, **changes}
    tree = {f"{key}.": arrays[key] for key in ("observations", "actions", "rewards")}
    tree |= {"terminals.": ends, "truncations.": 0 * ends, "infos.state.": arrays["state"]}
    family, variant = name.split("/")
    return write_as_flashbax(tree, folder / f"{family}.vlt" / variant)


def find(view, **options):
    return {found.kind: found for found in validate(view, **options)}


@pytest.mark.parametrize(
    ("robot", "agents", "view"),
    [
        ("halfcheetah", "6x1", "gymnasium"),
        ("halfcheetah", "2x3", "omar"),
        ("halfcheetah", "6x1", "omiga"),
        ("hopper", "3x1", "gymnasium"),
        ("hopper", "3x1", "omiga"),
        ("ant", "2x4", "gymnasium"),
    ],
)
def test_our_recordings_agree_and_another_gravity_does_not(robot, agents, view):
    same = find(as_dataset(*record(robot, agents, view)))
    assert "which is rounding" in same["simulator agrees"].what
    assert "mean what they say" in same["simulator agrees"].remedy
    assert "simulator differs" not in same
    changed = find(as_dataset(*record(robot, agents, view, gravity=0.8)))
    assert "this is another physics" in changed["simulator differs"].what
    assert changed["simulator differs"].severity == "warning"
    assert "say little about policies" in changed["simulator differs"].remedy


def test_one_percent_of_gravity_is_seen():
    found = find(as_dataset(*record("halfcheetah", "2x3", gravity=1.01)))
    assert "little, but it adds up" in found["simulator differs"].what


def test_the_error_is_in_units_of_what_a_step_changes():
    now = np.array([[0.0, 5.0], [0.0, 5.0]])
    after = np.array([[3.0, 5.0], [4.0, 5.0]])
    scale = np.sqrt((9 + 16) / 2)
    predicted = after + np.array([[scale, 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(find_errors(now, predicted, after), [0.5**0.5, 2**0.5])
    lost = np.array([[np.nan, 0.0], [0.0, 0.0]])
    assert np.isinf(find_errors(now, lost, after)[0])


def test_a_dataset_as_omiga_published_it(tmp_path):
    """1,001 rows an episode, terminals at the limit, actions a little outside of the box."""
    _, arrays, length = record("halfcheetah", "6x1", "omiga", steps=1000, reach=1.02)
    assert length == 1001
    view = VaultView(as_published("omiga-mamujoco-6halfcheetah/Expert", arrays, length, tmp_path))
    assert view.name == "omiga-mamujoco-6halfcheetah/Expert"
    assert view.spec.observation_sizes == (23,) * 6
    assert (view.spec.state_size, view.spec.action.size) == (23, 1)
    assert view.spec.action.high[0] == pytest.approx(1.02, abs=1e-3)
    assert view.episode_starts.tolist() == [0, 1001]
    found = find(view)
    assert "mamujoco-halfcheetah-6x1" in found["simulator agrees"].what
    told = found["row after the last step"]
    assert (told.count, told.what) == (
        2,
        "2 episodes have 1,001 rows, but 1,000 steps are the limit",
    )
    outside = found["action beyond the simulator's box"]
    assert "by up to 0.02; mamujoco-halfcheetah-6x1 has its box from -1 to 1" in outside.what
    assert not [each for each in found.values() if each.severity == "error"]


def test_a_dataset_as_omar_published_it(tmp_path):
    """The state once for each agent."""
    for gravity, kind in ((1.0, "simulator agrees"), (1.2, "simulator differs")):
        _, arrays, length = record("halfcheetah", "2x3", "omar", steps=60, gravity=gravity)
        twice = np.repeat(arrays["state"][:, None], 2, axis=1)
        name = f"omar-mamujoco-2halfcheetah/{kind.split()[1]}"
        view = VaultView(as_published(name, arrays, length, tmp_path, state=twice))
        assert view.spec.state_size == 34
        assert kind in find(view)


def test_omigas_ant_has_other_features(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "observations": rng.normal(size=(40, 2, 113)).astype(np.float32),
        "state": rng.normal(size=(40, 113)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (40, 2, 4)).astype(np.float32),
        "rewards": np.ones((40, 2), np.float32),
    }
    view = VaultView(as_published("omiga-mamujoco-2ant/Expert", arrays, 20, tmp_path))
    told = find(view)["simulator not compared"].what
    assert "cannot be made again: its state has 113 numbers where mujoco 4" in told
    assert " has 107: older versions counted forces on the world too" in told


def test_only_what_the_log_tells_whole_is_compared():
    """A hopper's velocity of 10 may have been more; numbers that are not finite tell nothing."""
    data = as_dataset(*record("hopper", "3x1"))
    state = data.state.copy()
    state[::2, -1] = 10.0
    assert "simulator differs" in find(replace(data, state=state))  # the steps that end there
    state[:, -1] = np.nan
    told = find(replace(data, state=state))["simulator not compared"].what
    assert told == "only 0 of its steps tell all of the physics"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"state_size": 16}, "its state has 16 numbers, not the 17 of mamujoco-halfcheetah-6x1"),
        ({"environment_config": {"robot": "crab", "agents": "6x1"}}, "no robot 'crab'"),
        ({"environment_config": {"legs": 4}}, "cannot be made again"),
    ],
)
def test_why_a_log_is_not_compared(changes, told):
    spec, arrays, length = record("halfcheetah", "6x1", steps=20)
    spec = replace(spec, **changes)
    arrays["state"] = arrays["state"][:, : spec.state_size]
    assert told in find(as_dataset(spec, arrays, length))["simulator not compared"].what


def test_a_missing_simulator_is_named(monkeypatch):
    data = as_dataset(*record("halfcheetah", "6x1", steps=20))
    monkeypatch.setitem(sys.modules, "mujoco", None)
    told = find(data)["simulator not compared"].what
    assert "needs the package mujoco" in told
    assert "[envs]" in told


def test_a_log_of_any_name_is_compared_with_a_named_environment(tmp_path, capsys):
    _, arrays, length = record("hopper", "3x1", "omiga")
    folder = as_published("mine/log", arrays, length, tmp_path)
    assert not [kind for kind in find(VaultView(folder)) if "simulator" in kind]
    cli.main(["data", "check", str(folder), "--env", "mamujoco-hopper-3x1"])
    assert "simulator agrees" in capsys.readouterr().out
    for name, told in (("tmaze", "cannot be continued"), ("mamujoco-hop", "no environment")):
        with pytest.raises(OryxError, match=told):
            validate(VaultView(folder), environment=name)


def test_environments_of_published_datasets_are_there():
    named = {each.environment for each in hub.archives().values() if each.environment}
    assert {base.find(name)[0] for name in named} == {"mamujoco", "rware"}
    assert len([n for n in hub.archives().values() if "mamujoco" in n.env and n.environment]) == 12


def test_families_without_physics_have_no_predictor():
    for family in ("tmaze", "nowhere", "../x", "os.path", ""):
        assert find_predictor(family, {}) is None
