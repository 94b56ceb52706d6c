import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from oryx_marl.ops.distributions import (
    EDGE,
    SquashedNormal,
    categorical,
    entropy,
    masked_log_softmax,
    take_action,
)


def test_masked_log_softmax_by_hand() -> None:
    logits = jnp.array([0.0, 50.0, np.log(3.0)])
    found = jnp.exp(masked_log_softmax(logits, jnp.array([True, False, True])))
    np.testing.assert_allclose(found, [0.25, 0.0, 0.75], rtol=1e-6)


def test_an_empty_mask_counts_as_a_full_one() -> None:
    logits = jnp.array([0.0, np.log(3.0)])
    found = jnp.exp(masked_log_softmax(logits, jnp.zeros(2, bool)))
    np.testing.assert_allclose(found, [0.25, 0.75], rtol=1e-6)


def test_gradient_is_finite_at_a_huge_gap() -> None:
    def loss(logits):
        return -masked_log_softmax(logits, jnp.array([True, True, False]))[1]

    gradient = jax.grad(loss)(jnp.array([200.0, -200.0, 1e4]))
    np.testing.assert_allclose(gradient, [1.0, -1.0, 0.0], atol=1e-6)


def test_entropy_ignores_illegal_actions() -> None:
    log_probs = masked_log_softmax(jnp.zeros(4), jnp.array([True, True, False, False]))
    assert float(entropy(log_probs)) == pytest.approx(np.log(2), rel=1e-6)
    assert np.isfinite(
        jax.grad(lambda x: entropy(masked_log_softmax(x, x > -1)))(jnp.zeros(4))
    ).all()


def test_take_action() -> None:
    values = jnp.arange(6.0).reshape(2, 3)
    assert take_action(values, jnp.array([2, 0])).tolist() == [2.0, 3.0]


def test_gumbel_noise_samples_as_jax_does() -> None:
    """So that policies act as they did before noise became an input."""
    policy = categorical(jnp.array([[0.3, -1.0, 2.0]] * 50), jnp.array([[True, True, False]] * 50))
    key = jax.random.key(3)
    expected = jax.random.categorical(key, policy.log_probs)
    found = policy.sample(jax.random.gumbel(key, policy.log_probs.shape))
    np.testing.assert_array_equal(found, expected)
    assert (np.asarray(found) < 2).all()


def make_normal() -> SquashedNormal:
    low, high = jnp.array([-1.0, 0.0]), jnp.array([1.0, 4.0])
    return SquashedNormal(jnp.array([[0.3, -0.5]]), jnp.log(jnp.array([[0.5, 1.2]])), low, high)


def test_squashed_normal_has_the_density_of_its_samples() -> None:
    """log π(a) = log N(x) - log da/dx, dimension by dimension, to a mass of 1 with that at the
    bounds."""
    policy = make_normal()
    for dimension in range(2):
        low, high = float(policy.low[dimension]), float(policy.high[dimension])
        grid = np.linspace(low, high, 20_001)[1:-1].astype(np.float32)
        one = SquashedNormal(*(x[..., dimension : dimension + 1] for x in policy))
        density = np.exp(one.log_prob(jnp.asarray(grid)[:, None]))
        inside = np.abs(2 * grid - low - high) < (1 - EDGE) * (high - low)
        at_bounds = np.exp(one.log_prob(jnp.array([[low], [high]]))).sum()
        total = np.trapezoid(density[inside], grid[inside]) + at_bounds
        assert total == pytest.approx(1.0, abs=1e-3)
        draws = one.sample(jax.random.normal(jax.random.key(0), (100_000, 1)))
        middle = (grid > low + 0.25 * (high - low)) & (grid < low + 0.75 * (high - low))
        share = ((draws > grid[middle][0]) & (draws < grid[middle][-1])).mean()
        assert np.trapezoid(density[middle], grid[middle]) == pytest.approx(float(share), abs=6e-3)


def test_squashed_normal_entropy_is_that_of_its_samples() -> None:
    policy = make_normal()
    policy = policy._replace(log_std=policy.log_std - 1)  # or some draws were at the bounds
    draws = policy.sample(jax.random.normal(jax.random.key(1), (200_000, 2)))
    assert float(policy.entropy()[0]) == pytest.approx(
        -float(policy.log_prob(draws).mean()), abs=0.01
    )


def test_actions_at_the_bounds_of_a_box_can_be_learned_from() -> None:
    policy, edge = make_normal(), jnp.array([[1.0, 0.0]])

    def loss(mean: jax.Array) -> jax.Array:
        return -policy._replace(mean=mean).log_prob(edge)[0]

    assert np.isfinite(jax.value_and_grad(loss)(policy.mean)[1]).all()
    assert policy.supports(edge).all()
    assert not policy.supports(jnp.array([[np.nan, 0.0]])).any()
    assert (policy.sample(jnp.array([[100.0, -100.0]])) == edge).all()


def test_actions_at_or_beyond_a_bound_count_with_the_mass_there() -> None:
    """log Φ of the standardised distance from the bound, by scipy; the other dimension has its
    density; just inside of the edge both have."""
    policy = make_normal()
    edge = np.arctanh(1 - EDGE)
    middle = jnp.array([[0.2, 2.0]])
    density = policy.log_prob(middle)[0]
    for beyond in (1.0, 1.7):
        found = policy.log_prob(middle.at[0, 0].set(beyond))[0]
        alone = SquashedNormal(*(x[..., 1:] for x in policy)).log_prob(middle[:, 1:])[0]
        assert float(found - alone) == pytest.approx(norm.logsf((edge - 0.3) / 0.5), rel=1e-3)
    low = float(policy.log_prob(middle.at[0, 1].set(-9.0))[0])
    alone = SquashedNormal(*(x[..., :1] for x in policy)).log_prob(middle[:, :1])[0]
    assert low - float(alone) == pytest.approx(norm.logcdf((-edge + 0.5) / 1.2), rel=1e-3)
    assert np.isfinite(density)
    far = policy._replace(mean=policy.mean - 40)
    grad = jax.grad(lambda mean: far._replace(mean=mean).log_prob(jnp.array([[1.0, 0.0]]))[0])(
        far.mean
    )
    assert np.isfinite(grad).all()
    assert grad[0, 0] > 1, "a mean on the wrong side is pulled to the bound"


def test_agreement_in_a_box_is_a_twentieth_of_its_width() -> None:
    policy = make_normal()
    near = policy.mode() + jnp.array([0.09, 0.19])
    assert policy.agrees(near).all()
    assert not policy.agrees(near + jnp.array([0.02, 0.0])).any()


def test_without_noise_a_draw_is_the_mode() -> None:
    """Exactly, also of equal logits (the first), and never under a false mask."""
    rng = np.random.default_rng(0)
    logits = jnp.asarray(rng.integers(0, 3, (500, 4)), jnp.float32)  # many ties
    mask = rng.random((500, 4)) < 0.5
    policy = categorical(logits, jnp.asarray(mask))
    drawn = np.asarray(policy.sample(0.0 * jax.random.gumbel(jax.random.key(0), (500, 4))))
    np.testing.assert_array_equal(drawn, policy.mode())
    some = mask.any(axis=1)
    assert 0 < some.sum() < 500
    assert mask[some, drawn[some]].all()
    best = np.where(mask, logits, -1).argmax(axis=1)
    np.testing.assert_array_equal(drawn[some], best[some])  # by hand: the first of equals
    normal = make_normal()
    noise = 0.0 * jax.random.normal(jax.random.key(0), normal.mean.shape)
    np.testing.assert_array_equal(normal.sample(noise), normal.mode())


def test_scaled_noise_draws_at_a_temperature() -> None:
    """Odds of 1 : 2 : 4 are 1 : 4 : 16 at temperature ½, and a forbidden action stays at 0."""
    shape = (40_000, 4)
    logits = jnp.broadcast_to(jnp.log(jnp.array([1.0, 2.0, 4.0, 100.0])), shape)
    policy = categorical(logits, jnp.broadcast_to(jnp.arange(4) < 3, shape))
    drawn = policy.sample(0.5 * jax.random.gumbel(jax.random.key(1), shape))
    shares = np.bincount(np.asarray(drawn), minlength=4) / shape[0]
    np.testing.assert_allclose(shares, np.array([1, 4, 16, 0]) / 21, atol=0.01)
    hot = policy.sample(1000.0 * jax.random.gumbel(jax.random.key(1), shape))
    shares = np.bincount(np.asarray(hot), minlength=4) / shape[0]
    np.testing.assert_allclose(shares, np.array([1, 1, 1, 0]) / 3, atol=0.01)


def test_scaled_noise_narrows_a_squashed_normal() -> None:
    """Before it is squashed: mean 0.3 and -0.5, standard deviation ½ of 0.5 and 1.2."""
    normal = make_normal()
    noise = jax.random.normal(jax.random.key(2), (20_000, 2))
    drawn = np.asarray(normal.sample(0.5 * noise), np.float64)
    x = np.arctanh(np.clip((drawn - [0, 2]) / [1, 2], -1 + 1e-9, 1 - 1e-9))
    np.testing.assert_allclose(x.mean(axis=0), [0.3, -0.5], atol=0.02)
    np.testing.assert_allclose(x.std(axis=0), [0.25, 0.6], atol=0.02)
