"""A batch that is cut gives what the whole one gives, and takes less memory."""

from functools import cache
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.algorithms import bc, mat_icq, oryx
from oryx_marl.data.sampler import DeviceData, sample_windows
from oryx_marl.errors import OryxError
from oryx_marl.networks.sable import NetworkConfig
from oryx_marl.networks.transformer import TransformerConfig
from oryx_marl.runs import checkpoint
from oryx_marl.training import loop, memory, offline
from oryx_marl.types import ActionSpace, FeatureStatistics, Spec, Window

SPEC = Spec("", ("a", "b", "c"), (4,) * 3, ActionSpace("discrete", 3))
NETWORKS = {
    oryx: NetworkConfig(width=16, num_heads=2, feed_forward=False),
    mat_icq: TransformerConfig(width=16, num_heads=2, num_blocks=1),
}


@pytest.fixture(
    params=[
        pytest.param(oryx, id="oryx"),
        pytest.param(mat_icq, id="mat_icq", marks=pytest.mark.slow),
    ]
)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


def make(module: ModuleType, parts: int, **changes: Any) -> oryx.Oryx:
    """Low temperatures, so that the softmaxes over the batch weigh its examples very unlike."""
    settings = {
        "batch_size": 8,
        "sequence_length": 6,
        "policy_temperature": 0.005,
        "value_temperature": 0.1,
        "learning_rate": 1e-3,
        "standardise": False,
        **changes,
    }
    config = module.Config(network=NETWORKS[module], batch_parts=parts, **settings)
    return module.make(config, SPEC)


@cache
def make_data(rows: int = 200) -> DeviceData:
    """Episodes of 1 to 7 steps, agents that are absent, actions that are illegal."""
    rng = np.random.default_rng(0)
    action_mask = rng.random((rows, 3, 3)) < 0.6
    action_mask[..., 0] |= ~action_mask.any(axis=-1)
    reset = rng.random(rows) < 0.25
    actions = rng.integers(0, 3, (rows, 3)).astype(np.int8)
    assert not np.take_along_axis(action_mask, actions[..., None], -1).all()
    return jax.tree.map(
        jnp.asarray,
        DeviceData(
            observations=rng.normal(size=(rows, 3, 4)).astype(np.float32),
            actions=actions,
            rewards=rng.normal(size=(rows, 3)).astype(np.float32),
            terminals=(np.roll(reset, -1) & (rng.random(rows) < 0.5))[:, None].repeat(3, 1),
            action_mask=action_mask,
            agent_mask=rng.random((rows, 3)) < 0.8,
            reset=reset,
            step_count=np.zeros(rows, np.int32),
            state=None,
            returns_to_go=None,
            feature_statistics=FeatureStatistics(np.zeros(4), np.ones(4)),
            value_scale=None,
            every_action=np.ones(3, bool),
        ),
    )


@cache
def compiled(module: ModuleType, parts: int) -> Any:
    """One update of two vectorised seeds, as on an accelerator."""
    algorithm = make(module, parts)
    update = jax.jit(jax.vmap(algorithm.update))
    return update.lower(init(module), *draw(0)).compile()


@cache
def init(module: ModuleType) -> Any:
    """Learners of two seeds, before all updates."""
    return loop.init_state(make(module, 1), [0, 1]).learners


@cache
def draw(number: int) -> tuple[Window, jax.Array]:
    """Windows and keys of both seeds, as the trainer draws them for update `number` + 1."""
    data = make_data()

    def one_seed(key: jax.Array) -> tuple[Window, jax.Array]:
        sample_key, update_key = jax.random.split(jax.random.fold_in(key, number + 1))
        return sample_windows(data, sample_key, 8, 6), update_key

    return jax.jit(jax.vmap(one_seed))(loop.make_keys([0, 1]))


def learn(module: ModuleType, parts: int, updates: int) -> tuple[Any, dict[str, jax.Array]]:
    """Both seeds after so many updates, and the metrics of the last."""
    state = init(module)
    for number in range(updates):
        state, metrics = compiled(module, parts)(state, *draw(number))
    return state, metrics


def require_same(one: Any, other: Any, atol: float) -> None:
    """Equal to one part in ten thousand, or to `atol` where numbers are next to nothing."""
    for (path, x), y in zip(
        jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True
    ):
        name = jax.tree_util.keystr(path)
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=atol, err_msg=name)


@pytest.mark.slow
def test_a_split_update_is_the_unsplit_one(module: ModuleType) -> None:
    """One update: gradients (which Adam holds after its first step) and metrics to rounding; five:
    weights to a hundredth of one step.

    But for the bias of an attention's keys: its gradient is 0, and Adam makes steps of rounding.
    """
    (whole, metrics), (cut, cut_metrics) = (learn(module, parts, 1) for parts in (1, 4))
    require_same(cut.optimiser, whole.optimiser, atol=1e-7)
    require_same(cut_metrics, metrics, atol=1e-6)
    assert (metrics["effective_sample_size"] < 0.8).all(), "this batch is hardly coupled"
    assert (metrics["valid_label_share"] < 0.8).all()
    (whole, metrics), (cut, cut_metrics) = (learn(module, parts, 5) for parts in (1, 4))
    start, *after = (weights(state) for state in (init(module), whole, cut))
    require_same(*after, atol=1e-5)
    require_same(cut_metrics, metrics, atol=1e-4)
    moved = [np.abs(start[name] - array).max() for name, array in after[0].items()]
    assert min(moved) > 1e-3


def weights(state: Any) -> dict[str, np.ndarray]:
    """All weights of the network by name but those that nothing depends on."""
    arrays = checkpoint.flatten(state.network)
    return {name: array for name, array in arrays.items() if not name.endswith("key/bias")}


@pytest.mark.slow
def test_memory_shrinks_with_the_parts(module: ModuleType) -> None:
    """By the compiler's own account; and what we estimate shrinks from is of that size."""
    whole, cut = (compiled(module, parts).memory_analysis().temp_size_in_bytes for parts in (1, 4))
    assert cut < whole / 2
    state, window = (jax.tree.map(lambda x: x[0], each) for each in (init(module), draw(0)[0]))
    estimate = 2 * memory.bytes_kept(make(module, 1), state, window)
    assert 0.5 < estimate / whole < 2


def test_parts_are_as_few_as_fit() -> None:
    assert memory.fewest_parts(64, needed=50.0, room=60.0) == 1
    assert memory.fewest_parts(64, needed=100.0, room=60.0) == 2
    assert memory.fewest_parts(12, needed=100.0, room=40.0) == 3
    assert memory.fewest_parts(64, needed=100.0, room=0.0) == 64


def test_the_choice_follows_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, data = make(oryx, 0), make_data()
    learner = jax.eval_shape(algorithm.init, jax.random.key(0))
    window = jax.eval_shape(lambda key: sample_windows(data, key, 8, 6), jax.random.key(0))

    def chosen(algorithm: Any, seeds: int = 1) -> int | None:
        return memory.fit(algorithm, learner, window, seeds, data).batch_parts

    assert chosen(algorithm) == 0  # this CPU names no limit
    needed = memory.bytes_kept(algorithm, learner, window)
    half = int(needed / 2 / memory.SHARE) + 1
    monkeypatch.setattr(memory, "memory_limit", lambda: half + memory.count_bytes(data))
    assert chosen(algorithm) == 2
    assert chosen(algorithm, seeds=2) == 4
    assert chosen(make(oryx, 8)) == 8
    cloner = bc.make(bc.Config(batch_size=8, standardise=False), SPEC)
    assert memory.fit(cloner, learner, window, 1, data) is cloner


@pytest.mark.slow
def test_the_trainer_makes_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hardly any memory, every window is a part of its own; the result is the same."""
    chosen = []

    def note(*arguments: Any) -> Any:
        chosen.append(memory.fit(*arguments))
        return chosen[-1]

    monkeypatch.setattr(memory, "memory_limit", lambda: 1)
    monkeypatch.setattr(offline, "fit", note)
    apart = {"initial_state": "zeros"}  # windows are then drawn one by one, as `draw` does
    algorithm = make(oryx, 1, **apart)
    learners = loop.init_state(algorithm, [0, 1]).learners
    whole, expected = jax.jit(jax.vmap(algorithm.update))(learners, *draw(0))
    after, metrics = offline.run_updates(
        make(oryx, 0, **apart), 1, learners, loop.make_keys([0, 1]), make_data(), jnp.asarray(0)
    )
    assert {algorithm.batch_parts for algorithm in chosen} == {8}
    require_same(after.optimiser, whole.optimiser, atol=1e-7)
    require_same(metrics, expected, atol=1e-6)


def test_bad_parts_are_refused() -> None:
    for parts in (3, -1, 16):
        with pytest.raises(OryxError, match=r"batch_parts must divide batch_size \(8\)"):
            make(oryx, parts)
