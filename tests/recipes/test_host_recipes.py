"""A recorded training in environments outside JAX becomes a dataset, as one in JAX does."""

from pathlib import Path

import numpy as np
import pytest
import toy_parallel

from oryx_marl import registry
from oryx_marl.algorithms import sable
from oryx_marl.envs import base
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.policy import artifact
from oryx_marl.recipes import _policies
from oryx_marl.recipes.base import Request

TINY = sable.Config(network=NetworkConfig(width=8), num_envs=4, rollout_length=15, minibatches=2)
PLUGIN = """
from oryx_marl.envs.adapters.from_pettingzoo import ParallelEnvs
from toy_parallel import parallel_env

def make(num_envs=8):
    return ParallelEnvs(parallel_env, num_envs, name="host_meet", environment="host_meet")
"""


@pytest.mark.slow
def test_a_training_outside_jax_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_policies, "HOST_EPISODES", 4)
    monkeypatch.setattr(_policies, "SNAPSHOT_EVERY", 2)
    monkeypatch.syspath_prepend(Path(toy_parallel.__file__).parent)
    (tmp_path / "host_meet.py").write_text(PLUGIN)
    registry.add_file(tmp_path / "host_meet.py")
    env = base.resize(base.make_named("host_meet"), "host_meet", 4)
    assert isinstance(env, ParallelEnvs)
    assert env.num_envs == 4
    told: list[str] = []
    request = Request(work=tmp_path / "work", rows=300, seed=3, tell=told.append)
    parts = list(_policies.record_training(env, TINY, request))
    rows = sum(part.num_rows for part in parts)
    assert 0 < rows <= 5 * 60
    for part in parts:
        assert part.action_mask is None
        assert (part.episode_lengths == toy_parallel.LIMIT).all()
        assert np.abs(part.actions).max() <= 1
        assert part.origin["final_return"] == pytest.approx(float(told[0].split()[-1]), abs=1e-3)
    snapshots = sorted((tmp_path / "work" / "snapshots").iterdir())
    assert snapshots
    assert artifact.load(snapshots[0]).spec == env.spec
    (rolled,) = _policies.roll_out(env, snapshots[-1:], None, request)
    assert rolled.num_rows >= 300
    assert rolled.origin["policies"][0]["act"] == "greedy"
