"""The runtime without JAX plays as the library's own player does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from exports import SPECS, make_policy

import oryx_marl_runtime
from oryx_marl.errors import OryxError
from oryx_marl.policy import export
from oryx_marl.policy.artifact import PolicyArtifact
from oryx_marl.policy.player import Player

RUNTIME = Path(oryx_marl_runtime.__file__).parent
WITHOUT_JAX = """
import sys

class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "equinox", "oryx_marl", "onnx"):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Forbid())
sys.path.insert(0, sys.argv[1])
import oryx_marl_runtime

player = oryx_marl_runtime.load(sys.argv[2], act="greedy")
for _ in range(3):
    print(player.act([[1, 0, 2, 0, 1], [0, 1, 1], [1, 1, 0, 0]]).tolist())
"""


@pytest.fixture(scope="module")
def policy() -> PolicyArtifact:
    return make_policy("oryx", SPECS["discrete"], {"width": 8, "num_heads": 2})


@pytest.fixture(scope="module")
def folder(policy: PolicyArtifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export.write(policy, tmp_path_factory.mktemp("runtime") / "onnx", "onnx")


def show(rng: np.random.Generator, spec: Any) -> tuple[dict[str, Any], dict, dict]:
    """Observations, masks and rewards of some of the agents, by name."""
    sizes = zip(spec.agents, spec.observation_sizes, strict=True)
    seen = {name: rng.normal(size=size) for name, size in sizes if rng.random() < 0.8}
    masks = {name: rng.random(spec.action.size) < 0.6 for name in seen if rng.random() < 0.7}
    masks = {name: mask for name, mask in masks.items() if mask.any()}
    return seen, masks, {name: rng.normal() for name in seen}


@pytest.mark.parametrize("act", ["greedy", 0.5])
def test_plays_as_the_library_does(policy: PolicyArtifact, folder: Path, act: Any) -> None:
    """By name, with absent agents, masks and resets; given the noise that the library draws."""
    ours, theirs = Player(policy, act=act), oryx_marl_runtime.load(folder, act=act)
    rng = np.random.default_rng(0)
    draw = jax.jit(lambda key: ours._policy.draw_noise(key, 1))
    for step in range(40):
        if step % 13 == 0:
            ours.reset()
            theirs.reset()
        seen, masks, rewards = show(rng, policy.spec)
        key = jax.random.fold_in(jax.random.fold_in(ours._key, ours._episode), ours._count)
        noise = np.asarray(draw(key)[0]) / (0.5 if act == 0.5 else 1)  # which is scaled already
        known = ours.act(seen, masks, rewards)
        assert theirs.act(seen, masks, rewards, noise=noise) == known


def test_random_numbers_repeat_by_seed_and_differ_by_episode(folder: Path) -> None:
    def play(random_seed: int) -> list[Any]:
        player = oryx_marl_runtime.load(folder, random_seed=random_seed)
        episodes = []
        for _ in range(5):
            player.reset()
            shown = [np.zeros(size) for size in player.spec.observation_sizes]
            episodes.append([player.act(shown).tolist() for _ in range(4)])
        return episodes

    first = play(3)
    assert play(3) == first
    assert play(4) != first
    assert len({str(each) for each in first}) > 2


def test_drawn_actions_have_the_odds_of_the_policy(folder: Path) -> None:
    step = oryx_marl_runtime.load_step(folder)
    batch, rng = 4000, np.random.default_rng(0)
    features = np.repeat(rng.normal(size=(1, 3, 5)), batch, axis=0)
    reset = np.ones(batch, bool)
    found = step(step.init(batch), features, reset=reset, noise=step.draw_noise(rng, batch))
    odds = np.exp(found.told["log_probs"][0, 0])
    shares = np.bincount(found.actions[:, 0], minlength=4) / batch
    np.testing.assert_allclose(shares, odds, atol=0.04)
    greedy = step(step.init(batch), features, reset=reset)
    assert set(greedy.actions[:, 0]) == {odds.argmax()}


def test_a_batch_goes_as_single_episodes_do(folder: Path) -> None:
    step = oryx_marl_runtime.load_step(folder)
    rng = np.random.default_rng(1)
    features = rng.normal(size=(6, 5, 3, 5))
    state, singles = step.init(5), [step.init(1) for _ in range(5)]
    for count, seen in enumerate(features):
        reset = np.full(5, count in (0, 3))
        together = step(state, seen, reset=reset, step_count=np.full(5, count % 3))
        state = together.state
        for row in range(5):
            alone = step(
                singles[row], seen[row : row + 1], reset=reset[:1], step_count=np.array([count % 3])
            )
            singles[row] = alone.state
            np.testing.assert_array_equal(alone.actions[0], together.actions[row])


def test_nothing_of_jax_is_imported(policy: PolicyArtifact, folder: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAX, str(RUNTIME.parent), str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    player = Player(policy, act="greedy")
    shown = [[1, 0, 2, 0, 1], [0, 1, 1], [1, 1, 0, 0]]
    known = [str(player.act(shown).tolist()) for _ in range(3)]
    assert found.stdout.splitlines() == known


FINE = [[0] * 5, [0] * 3, [0] * 4]


@pytest.mark.parametrize(
    "arguments",
    [
        {"observations": [[0] * 5]},
        {"observations": {"ship": [0]}},
        {"observations": {"ant": {"features": [0] * 5}}},
        {"observations": [[0] * 2, *FINE[1:]]},
        {"observations": [[0, 0, 0, 0, np.nan], *FINE[1:]]},
        {"observations": FINE, "action_mask": [[1, 1]] * 3},
        {"observations": FINE, "action_mask": [[0] * 4] * 3},
        {"observations": FINE, "rewards": [1.0]},
    ],
)
def test_errors_are_those_of_the_library(
    policy: PolicyArtifact, folder: Path, arguments: dict[str, Any]
) -> None:
    with pytest.raises(OryxError) as known:
        Player(policy).act(**arguments)
    with pytest.raises(oryx_marl_runtime.OryxError) as found:
        oryx_marl_runtime.load(folder).act(**arguments)
    assert str(found.value) == str(known.value)


def test_other_errors_are_sentences(folder: Path) -> None:
    step = oryx_marl_runtime.load_step(folder)
    error = oryx_marl_runtime.OryxError
    with pytest.raises(error, match=r"features must have shape \(2, 3, 5\), got \(2, 5\)"):
        step(step.init(2), np.zeros((2, 5)))
    with pytest.raises(error, match="the state has no 'state/encoder'"):
        step({}, np.zeros((2, 3, 5)))
    player = oryx_marl_runtime.load(folder)
    with pytest.raises(error, match=r"noise must have shape \(3, 4\), got \(4,\)"):
        player.act(FINE, noise=np.zeros(4))
    with pytest.raises(error, match="act must be sampled, greedy or a temperature"):
        oryx_marl_runtime.load(folder, act="wild")
    with pytest.raises(error, match="random_seed must be a whole number"):
        oryx_marl_runtime.load(folder, random_seed=-1)
    assert repr(player) == "Player('oryx', 3 agents, seed 4, sampled)"


def test_files_that_are_not_as_written_are_refused(folder: Path, tmp_path: Path) -> None:
    error = oryx_marl_runtime.OryxError

    def copy(name: str, **changes: bytes) -> Path:
        target = tmp_path / name
        target.mkdir()
        for path in folder.iterdir():
            key = path.name.replace(".", "_")
            (target / path.name).write_bytes(changes.get(key, path.read_bytes()))
        return target

    about = json.loads((folder / "contract.json").read_text())
    model = bytearray((folder / "policy.onnx").read_bytes())
    model[len(model) // 2] ^= 1
    with pytest.raises(error, match=r"policy\.onnx is damaged or was changed"):
        oryx_marl_runtime.load(copy("model", policy_onnx=bytes(model)))
    changed = json.dumps(about | {"action_names": ["a", "b", "c", "d"]}).encode()
    with pytest.raises(error, match=r"contract\.json is damaged or was changed"):
        oryx_marl_runtime.load(copy("contract", contract_json=changed))
    newer = json.dumps(about | {"format_version": 2}).encode()
    with pytest.raises(error, match="newer oryx-marl"):
        oryx_marl_runtime.load(copy("newer", contract_json=newer))
    for number, text in enumerate([b"{", b"[]", b'{"format": "oryx-marl export"}', b"\xff"]):
        with pytest.raises(error, match="is damaged"):
            oryx_marl_runtime.load(copy(f"text{number}", contract_json=text))
    with pytest.raises(error, match="is no exported policy"):
        oryx_marl_runtime.load(tmp_path)


def test_an_export_for_jax_is_told(tmp_path: Path) -> None:
    export.write(make_policy("bc", SPECS["box"]), tmp_path / "out", "stablehlo")
    with pytest.raises(oryx_marl_runtime.OryxError, match="which JAX runs"):
        oryx_marl_runtime.load(tmp_path / "out")


def test_floats_of_a_box(tmp_path: Path) -> None:
    policy = make_policy("bc", SPECS["box"])
    export.write(policy, tmp_path / "out", "onnx")
    ours = Player(policy)  # both by the mode, as nothing else is said
    theirs = oryx_marl_runtime.load(tmp_path / "out")
    seen = [[1, -1, 0, 2, 0], [0.5, 0, 9], [0, 1, 2, 3]]
    for _ in range(3):
        found = theirs.act(seen)
        assert (found.dtype, found.shape) == (np.float32, (3, 2))
        np.testing.assert_allclose(found, ours.act(seen), atol=1e-4)
    with pytest.raises(oryx_marl_runtime.OryxError, match="actions of a box have no mask"):
        theirs.act(seen, action_mask=[[1, 1]] * 3)
