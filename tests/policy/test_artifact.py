"""Policy files: whole or refused, and readable by whoever has not even the environment."""

import io
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from oryx_marl import config as configs
from oryx_marl.algorithms import sable
from oryx_marl.envs.tmaze import TMaze
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.policy import artifact
from oryx_marl.policy.artifact import ABOUT, PolicyArtifact

SPEC = TMaze().spec
CONFIG = sable.Config(network=NetworkConfig(width=8), num_envs=4, rollout_length=40, minibatches=2)
SEEDS = (3, 5)


@pytest.fixture(scope="module")
def policy() -> PolicyArtifact:
    """Two seeds that have learned nothing."""
    algorithm = sable.make(CONFIG, SPEC)
    keys = jax.vmap(jax.random.key)(np.array(SEEDS))
    weights = jax.device_get(algorithm.weights(jax.vmap(algorithm.init)(keys)))
    return PolicyArtifact("sable", algorithm, SPEC, weights, SEEDS, {"update": 7, "by": {"a": 1}})


@pytest.fixture
def file(policy: PolicyArtifact, tmp_path: Path) -> Path:
    artifact.save(tmp_path / "policy.npz", policy)
    return tmp_path / "policy.npz"


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Text and arrays of a file."""
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files}
    return json.loads(str(arrays.pop(ABOUT))), arrays


def write(path: Path, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    content = io.BytesIO()
    np.savez_compressed(content, **{ABOUT: np.array(json.dumps(about))}, **arrays)
    path.write_bytes(content.getvalue())


def test_files_keep_everything(policy: PolicyArtifact, file: Path) -> None:
    found = artifact.load(file)
    assert (found.name, found.algorithm, found.spec) == ("sable", policy.algorithm, SPEC)
    assert (found.seeds, found.origin) == (SEEDS, policy.origin)
    assert found.sha256 == policy.sha256
    assert artifact.read_origin(file) == policy.origin
    jax.tree.map(np.testing.assert_array_equal, found.weights, policy.weights)
    assert not list(file.parent.glob("*.partial"))
    about, _ = read(file)
    assert about["format_version"] == artifact.FORMAT_VERSION == 2


def test_one_seed_is_taken_out(policy: PolicyArtifact) -> None:
    for index, seed in enumerate(SEEDS):
        expected = jax.tree.map(lambda x: x[index], policy.weights)  # noqa: B023
        jax.tree.map(np.testing.assert_array_equal, policy.weights_of(seed), expected)
    first = jax.tree.map(lambda x: x[0], policy.weights)
    jax.tree.map(np.testing.assert_array_equal, policy.weights_of(), first)
    with pytest.raises(OryxError, match=r"no seed 4; it has \[3, 5\]"):
        policy.weights_of(4)
    with pytest.raises(OryxError, match="first axis of that length"):
        PolicyArtifact("sable", policy.algorithm, SPEC, first, SEEDS, {})


def test_half_of_the_digits_are_half_of_the_file(policy: PolicyArtifact, file: Path) -> None:
    half = file.with_name("half.npz")
    artifact.save(half, policy, half=True)
    found = artifact.load(half)
    for ours, theirs in zip(
        jax.tree.leaves(found.weights), jax.tree.leaves(policy.weights), strict=True
    ):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, rtol=2**-10, atol=1e-7)
    assert half.stat().st_size < file.stat().st_size


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_files_of_version_0_1_0_open(policy: PolicyArtifact, tmp_path: Path, dtype: Any) -> None:
    """They have one seed, no axis for it, and no version."""
    one = artifact.flatten(policy.weights_of(5))
    arrays = {name: array.astype(dtype) for name, array in one.items()}
    about = {
        "algorithm": "sable",
        "config": configs.to_dict(CONFIG),
        "spec": SPEC.to_dict(),
        "origin": {"seed": 5, "update": 3},
    }
    write(tmp_path / "old.npz", {**about, "sha256": artifact._hash(arrays, about)}, arrays)
    found = artifact.load(tmp_path / "old.npz")
    assert (found.seeds, found.origin["update"]) == ((5,), 3)
    assert (found.algorithm, found.spec) == (policy.algorithm, SPEC)
    for ours, theirs in zip(
        jax.tree.leaves(found.weights_of(5)), jax.tree.leaves(policy.weights_of(5)), strict=True
    ):
        assert ours.dtype == np.float32
        np.testing.assert_array_equal(ours, theirs.astype(dtype).astype(np.float32))


def test_damaged_files_are_refused(policy: PolicyArtifact, file: Path) -> None:
    content = bytearray(file.read_bytes())
    damaged = file.with_name("damaged.npz")
    refused = 0
    for place in range(0, len(content), len(content) // 40):
        broken = content.copy()
        broken[place] ^= 0xFF
        damaged.write_bytes(broken)
        try:
            found = artifact.load(damaged)
        except OryxError:
            refused += 1
        else:  # a byte that nothing depends on, such as a date in the archive
            jax.tree.map(np.testing.assert_array_equal, found.weights, policy.weights)
    assert refused > 20
    damaged.write_bytes(content[:1000])
    with pytest.raises(OryxError, match="is damaged"):
        artifact.load(damaged)
    with pytest.raises(OryxError, match="no policy file"):
        artifact.load(file.with_name("none.npz"))


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": [3, 6]},
        {"origin": {"update": 8}},
        {"algorithm": "bc"},
        {"format_version": 1},
        {"sha256": "0" * 64},
        {"sha256": None},
    ],
)
def test_altered_files_are_refused(file: Path, change: dict[str, Any]) -> None:
    about, arrays = read(file)
    write(file, {**about, **change}, arrays)
    with pytest.raises(OryxError, match="its SHA-256 differs"):
        artifact.load(file)


def test_an_altered_weight_is_refused(file: Path) -> None:
    about, arrays = read(file)
    name = next(iter(arrays))
    arrays[name] = arrays[name] + np.float32(1e-6)
    write(file, about, arrays)
    with pytest.raises(OryxError, match="its SHA-256 differs"):
        artifact.load(file)


def test_newer_files_say_so(file: Path) -> None:
    about, arrays = read(file)
    write(file, {**about, "format_version": 3}, arrays)
    with pytest.raises(OryxError, match=r"newer oryx-marl \(format 3; this one reads up to 2\)"):
        artifact.load(file)
