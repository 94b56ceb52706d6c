"""Several devices give the numbers of one: eight in one process, and two in two processes."""

import os
import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from train_on_devices import CONFIG, NOTHING_CARRIED, Small, load_data, train, train_whole

from oryx_marl.algorithms import bc, oryx
from oryx_marl.algorithms._split import BATCH
from oryx_marl.data.sampler import put_on_device
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.parallel import devices
from oryx_marl.parallel.seeds import SEEDS, over_seeds
from oryx_marl.runs import checkpoint
from oryx_marl.runs.documents import Evaluation, MetricRow, RunConfig, Summary
from oryx_marl.runs.folder import Run
from oryx_marl.training import loop
from oryx_marl.training.offline import run_updates

PROGRAM = Path(__file__).parents[1] / "helpers" / "train_on_devices.py"
SPEC = TMaze().spec


def start(*arguments: object, count: int = 1) -> subprocess.Popen:
    """A process of its own with `count` CPU devices."""
    flags = f"--xla_force_host_platform_device_count={count}"
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stderr=subprocess.PIPE,
        text=True,
    )


def start_two(*arguments: object) -> list[subprocess.Popen]:
    """Two processes with one device each, which know of each other."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    return [start(*arguments, "--processes", 2, own, address) for own in range(2)]


def finish(processes: list[subprocess.Popen]) -> None:
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs: on this process's one device, on eight, and in two processes."""
    folder = tmp_path_factory.mktemp("runs")
    processes = [start(folder / "eight", 8, 3, count=8), *start_two(folder / "two", 2, 1)]
    train(folder / "one" / "8", seeds=8)
    finish(processes)
    return folder


def read(run: Path) -> tuple[dict[str, np.ndarray], list[dict[str, list[float]]]]:
    """Learners by name of each array, and all lines of metrics."""
    seeds = list(range(int(run.name)))
    learner = Small(NOTHING_CARRIED, SPEC)
    like = jax.eval_shape(lambda: loop.init_state(learner, seeds))
    found = checkpoint.restore(Run(run).checkpoints, like)
    assert found.update == 4
    lines = [row.metrics for row in Run(run).rows(MetricRow)]
    return checkpoint.flatten(found.tree.learners), lines


def require_same(one: Path, other: Path, tolerance: float) -> None:
    """All seeds of the other run are among those of the one: learners and every metric."""
    (learners, lines), (found, found_lines) = read(one), read(other)
    for name, array in found.items():
        expected = learners[name][: len(array)]
        np.testing.assert_allclose(array, expected, 0, tolerance, err_msg=name)
    for line, expected in zip(found_lines, lines, strict=True):
        for name, values in line.items():
            like = expected[name][: len(values)]
            np.testing.assert_allclose(values, like, 0, 10 * tolerance, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("other", ["eight/8", "two/2"])
def test_spread_seeds_are_the_same_seeds(runs: Path, other: str) -> None:
    require_same(runs / "one" / "8", runs / other, tolerance=0)


@pytest.mark.slow
@pytest.mark.parametrize("other", ["eight/3", "two/1"])
def test_a_spread_batch_gives_the_same_updates(runs: Path, other: str) -> None:
    """To rounding: gradients are summed in another order."""
    require_same(runs / "one" / "8", runs / other, tolerance=1e-6)


@pytest.mark.slow
def test_whole_runs_of_oryx_are_the_same(tmp_path: Path) -> None:
    """Scores, the replay (every sampled action shows in it), and the final weights."""
    runs = {
        "two": lambda: start_two(tmp_path / "two", 2, 1, "--whole"),
        "eight": lambda: [start(tmp_path / "eight", 8, 1, "--whole", count=8)],
    }
    for begin in runs.values():
        finish(begin())
    for seeds in (1, 2, 8):
        train_whole(tmp_path / "one" / str(seeds), seeds)
    for run_name in ("two/1", "two/2", "eight/1", "eight/8"):
        one, other = Run(tmp_path / "one" / run_name[-1]), Run(tmp_path / run_name)
        assert other.read(RunConfig).rest["devices"] == (2 if "two" in run_name else 8)
        assert one.read(Summary).to_json() == other.read(Summary).to_json()
        assert [row.update for row in other.rows(Evaluation)] == [2, 4]
        replays = [np.load(run.folder / "replay.npz")["frames_0"] for run in (one, other)]
        np.testing.assert_array_equal(*replays)
        states = [checkpoint.read(run.checkpoints).tree for run in (one, other)]
        # Spread seeds are the same to the bit. Spread batches are so to rounding, and recurrent
        # states, sums over steps, more coarsely than weights.
        is_exact = run_name in ("two/2", "eight/8")
        for name, array in states[0].items():
            tolerance = 0 if is_exact else 1e-5 if "/carry/" in name else 1e-6
            np.testing.assert_allclose(array, states[1][name], 0, tolerance, err_msg=name)


def test_what_is_spread() -> None:
    def chosen(seeds: int, parts: int = 0, devices_: int = 8) -> str | None:
        config = oryx.Config(batch_size=16, batch_parts=parts)
        return devices.choose_axis(oryx.make(config, SPEC), seeds, devices_)

    assert chosen(8) == chosen(16) == SEEDS
    assert chosen(3) == chosen(3, parts=2) == BATCH
    assert chosen(3, parts=4) is None  # eight shares of two windows are not cut into four parts
    assert chosen(3, devices_=7) is None
    cloner = bc.make(bc.Config(batch_size=16), SPEC)
    assert devices.choose_axis(cloner, 8, 8) == SEEDS
    assert devices.choose_axis(cloner, 3, 8) is None


def test_idle_devices_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "device_count", lambda: 7)
    learner = oryx.make(oryx.Config(), SPEC)
    with pytest.warns(UserWarning, match=r"7 devices .* 3 seeds .* 64: one device is used"):
        devices.spread(learner, 3)
    monkeypatch.setattr(jax, "process_count", lambda: 7)
    with pytest.raises(OryxError, match="choose a multiple of 7 seeds"):
        devices.spread(learner, 3)


def on_two(axis: str) -> AbstractContextManager:
    """As if there were two devices: enough to trace, not to run."""
    mesh = jax.sharding.AbstractMesh((2,), (axis,), (AxisType.Auto,))
    return jax.sharding.use_abstract_mesh(mesh)


def test_devices_do_share_the_work() -> None:
    """Each runs half of the batch, or half of the seeds."""
    learner = Small(NOTHING_CARRIED, SPEC)
    data = put_on_device(load_data())
    states, keys = loop.init_state(learner, [0, 1]).learners, loop.make_keys([0, 1])

    def trace() -> str:
        arguments = (learner, 1, states, keys, data, jnp.asarray(0))
        return str(jax.make_jaxpr(run_updates.__wrapped__, static_argnums=(0, 1))(*arguments))

    width = CONFIG.network.width
    whole, half = (f"f32[{count},4,2,{width}] = tanh" for count in (8, 4))
    assert whole in trace()
    with on_two(BATCH):
        text = trace()
    assert half in text
    assert whole not in text
    with on_two(SEEDS):
        assert "shard_map" in trace()


def test_spread_seeds_can_index_what_they_share() -> None:
    """As windows of chosen rows do; seeds that cannot be shared out evenly stay together."""

    def trace(seeds: int) -> str:
        def pick(table: jax.Array, row: jax.Array) -> jax.Array:
            return table[row]

        take = lambda table, rows: over_seeds(pick, table)(rows)  # noqa: E731
        return str(jax.make_jaxpr(take)(jnp.arange(4.0), jnp.arange(seeds)))

    with on_two(SEEDS):
        assert "shard_map" in trace(2)
        assert "shard_map" not in trace(3)


@pytest.mark.usefixtures("unchecked")
def test_a_learner_that_cannot_share_a_batch_says_so() -> None:
    learner = bc.make(bc.Config(standardise=False), SPEC)
    with on_two(BATCH), pytest.raises(OryxError, match="BC cannot share its batches"):
        learner.update(None, None, None)
