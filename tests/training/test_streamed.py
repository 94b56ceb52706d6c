"""Data that stay on disk: the same windows, and so the same learners, bit by bit."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import oryx_marl as oryx
from oryx_marl import experiment, registry
from oryx_marl.algorithms._making import make_algorithm
from oryx_marl.data import catalog, mapped, vault
from oryx_marl.data.dataset import Dataset
from oryx_marl.data.gathered import HostData
from oryx_marl.data.sampler import put_on_device
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.runs.documents import MetricRow, RunConfig
from oryx_marl.runs.folder import Run
from oryx_marl.training import loop, streamed
from oryx_marl.training.offline import DatasetSource
from oryx_marl.training.streamed import StreamedSource

DATA = "tmaze/planner-expert"
OFFLINE = [name for name in registry.names("algorithms") if not experiment.is_online(name)]
SMALL = {"batch_size": 3, "sequence_length": 4}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(mapped.VARIABLE, str(tmp_path / "unpacked"))
    return tmp_path / "unpacked"


def small(algorithm: str) -> Any:
    config = dataclasses.replace(registry.load("algorithms", algorithm).Config(), **SMALL)
    if isinstance(getattr(config, "network", None), NetworkConfig):
        config = dataclasses.replace(config, network=NetworkConfig(width=8))
    return config


def sources(dataset: Dataset, algorithm: Any) -> list[loop.Source]:
    needs = algorithm.needs_returns_to_go, algorithm.value_discount
    resident = put_on_device(dataset, needs[0], None, needs[1])
    return [DatasetSource(resident), StreamedSource(HostData(dataset, *needs))]


def require_equal(dataset: Dataset, name: str, sizes: tuple[int, ...] = (4, 2)) -> None:
    """Both sources lead to the same learners, and say the same of the way."""
    algorithm = make_algorithm(name, small(name), dataset.spec)
    keys = loop.make_keys([0, 1])
    found = []
    for source in sources(dataset, algorithm):
        learners, first, metrics = loop.init_state(algorithm, [0, 1]).learners, 0, {}
        for size in sizes:
            learners, _, metrics = source.advance(algorithm, size, learners, (), keys, first)
            first += size
        found.append(jax.device_get((learners, metrics)))
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_array_equal(one, other)


def test_learners_are_the_same_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "BLOCK_BYTES", 2**12)  # an update or two at a time
    require_equal(catalog.open(DATA), "iicq", sizes=(4,))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["masks", "box", "state"])
@pytest.mark.parametrize("name", OFFLINE)
def test_so_it_is_for_every_algorithm(name: str, kind: str) -> None:
    dataset = build(kind)
    try:
        make_algorithm(name, small(name), dataset.spec)
    except OryxError:
        pytest.skip("it does not learn from such data")
    require_equal(dataset, name)


def build(kind: str) -> Dataset:
    """Long and short episodes of 64-bit numbers, with absent agents, or boxes, or a state."""
    rng, rows, agents = np.random.default_rng(0), 200, 3
    starts = np.array([0, 7, 90, 91, 150])
    base = catalog.open(DATA)
    is_box = kind == "box"
    action = oryx.ActionSpace("box", 2, (-1.0, -1.0), (1.0, 1.0)) if is_box else None
    spec = dataclasses.replace(
        base.spec,
        environment="",
        agents=("a", "b", "c"),
        observation_sizes=(5, 5, 5),
        action=action or dataclasses.replace(base.spec.action, size=4),
        state_size=2 if kind == "state" else 0,
        shared_reward=False,
    )
    terminals = np.zeros((rows, agents), bool)
    terminals[starts[1:] - 1] = True
    masks = rng.random((rows, agents, 4)) < 0.7
    ids = rng.integers(0, 4, (rows, agents))
    masks[np.arange(rows)[:, None], np.arange(agents), ids] = True
    return Dataset(
        spec=spec,
        observations=rng.normal(size=(rows, agents, 5)),
        actions=rng.uniform(-0.9, 0.9, (rows, agents, 2)) if is_box else ids,
        rewards=rng.normal(size=(rows, agents)),
        terminals=terminals,
        truncations=np.zeros_like(terminals),
        episode_starts=starts,
        action_mask=masks if kind == "masks" else None,
        agent_mask=rng.random((rows, agents)) < 0.8 if kind == "masks" else None,
        state=rng.normal(size=(rows, 2)) if kind == "state" else None,
        name=f"built/{kind}",
    )


def test_a_run_goes_on_and_ends_as_one_in_memory(tmp_path: Path, own_cache: Path) -> None:
    folder = tmp_path / "log"
    vault.write(build("masks"), folder)
    given = {
        "seeds": 1,
        "log_every": 2,
        "checkpoint_every": 2,
        "progress": False,
        **SMALL,
    }
    oryx.train("bc", folder, out=tmp_path / "memory", updates=4, **given)
    oryx.train("bc", folder, out=tmp_path / "disk", updates=2, stream=True, **given)
    oryx.resume(tmp_path / "disk", updates=4, progress=False)
    runs = [Run(tmp_path / name) for name in ("memory", "disk")]
    assert [run.read(RunConfig).rest["streamed"] for run in runs] == [False, True]
    assert len({run.read(RunConfig).rest["fingerprint"] for run in runs}) == 1
    weights = [run.policy("last").weights for run in runs]
    for one, other in zip(*map(jax.tree.leaves, weights), strict=True):
        np.testing.assert_array_equal(one, other)
    rows = [[row.metrics for row in run.rows(MetricRow)] for run in runs]
    assert rows[0] == rows[1]
    # Two parts, of which nothing was unpacked again when it went on.
    assert len([each for each in own_cache.iterdir() if each.name != "fingerprints"]) == 2


def test_invalid_rows_are_found_on_disk_too(tmp_path: Path) -> None:
    dataset = build("masks")
    broken = dataset.observations.copy()
    broken[93, 1, 2] = np.nan
    vault.write(dataclasses.replace(dataset, observations=broken), tmp_path / "log")
    with pytest.raises(OryxError, match=r"(?s)episode 3, step 2, agent b.*entry 2 is nan"):
        oryx.train("oryx", tmp_path / "log", out=tmp_path / "run", stream=True, progress=False)


def test_too_large_for_memory_stays_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    small_set = catalog.view(DATA)
    assert not streamed.is_too_large(small_set)
    monkeypatch.setattr(streamed, "_host_memory", lambda: mapped.num_bytes(small_set.layout) * 2)
    assert streamed.is_too_large(small_set)
