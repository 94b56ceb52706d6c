"""Each primitive's form in ONNX gives what JAX gives, in all shapes that broadcasting makes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from jax import export, lax

from oryx_marl.errors import OryxError
from oryx_marl.policy.onnx.lower import HANDLERS, lower
from oryx_marl.policy.onnx.model import to_model

B, N = 3, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, N, 5)).astype(np.float32)
Y = RNG.normal(size=(B, N, 5)).astype(np.float32)
I = RNG.integers(-7, 8, (B, N)).astype(np.int32)  # noqa: E741
M = RNG.random((B, N, 5)) < 0.5
W = RNG.normal(size=(5, 6)).astype(np.float32)
PLACES = np.array([0, 3, 2], np.int32)
Function = Callable[..., Any]


def compare(function: Function, *arrays: np.ndarray, exact: bool = False) -> None:
    """The function in JAX and in ONNX at a batch that is known only when it runs."""
    (batch,) = export.symbolic_shape("batch")
    kinds = [jax.ShapeDtypeStruct((batch, *each.shape[1:]), each.dtype) for each in arrays]
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*kinds)
    inputs = {f"x{number}": each for number, each in enumerate(kinds)}
    outputs = {f"y{number}": each for number, each in enumerate(jax.tree.leaves(shape))}
    model = to_model(lower(jaxpr, inputs, outputs, batch))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = session.run(None, dict(zip(inputs, arrays, strict=True)))
    known = jax.tree.leaves(jax.jit(function)(*arrays))
    assert len(found) == len(known)
    for one, other in zip(found, known, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if exact or one.dtype.kind != "f":
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)


ENTRYWISE: dict[str, Function] = {
    "abs": jnp.abs,
    "ceil": jnp.ceil,
    "cos": jnp.cos,
    "erf": jax.scipy.special.erf,
    "exp": jnp.exp,
    "expm1": jnp.expm1,
    "floor": jnp.floor,
    "integer_pow": lambda x: (x**2, x**3),
    "is_finite": lambda x: jnp.isfinite(x / jnp.floor(jnp.abs(x))),
    "log": lambda x: jnp.log(jnp.abs(x)),
    "log1p": lambda x: jnp.log1p(jnp.abs(x)),
    "logistic": jax.nn.sigmoid,
    "neg": lambda x: -x,
    "rsqrt": lambda x: lax.rsqrt(jnp.abs(x)),
    "sign": jnp.sign,
    "sin": jnp.sin,
    "sqrt": lambda x: jnp.sqrt(jnp.abs(x)),
    "square": lax.square,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "log_softmax": jax.nn.log_softmax,
    "clamp": lambda x: lax.clamp(-0.5, x, 0.7),
}


def test_functions_of_one_array() -> None:
    compare(lambda x: tuple(function(x) for function in ENTRYWISE.values()), X)


def test_functions_of_two_arrays() -> None:
    def both(x: Any, y: Any, i: Any) -> tuple:
        numbers = (x + y, x - y, x * y, x / y, jnp.maximum(x, y), jnp.minimum(x, y))
        powers = (jnp.abs(x) ** jnp.abs(y), lax.rem(x, y), lax.rem(i, jnp.int32(3)), lax.div(i, 2))
        tests = (x < y, x <= y, x > y, x >= y, x == jnp.round(y), i != 3, i == 3)
        return numbers + powers + tests

    compare(lambda x, y, i: both(x, y, i), X, Y, I)


def test_logic_and_types() -> None:
    def logic(m: Any, x: Any, i: Any) -> tuple:
        other = x > 0
        bits = (i & 3, i | 8, i ^ 5, ~i)
        chosen = (jnp.where(m, x, 0), jnp.where(m, other, m), jnp.where(m[..., 0], i, -1))
        casts = (x.astype(jnp.int32), m.astype(jnp.float32), i.astype(bool), i.astype(jnp.float32))
        return (m & other, m | other, m ^ other, ~m, *bits, *chosen, *casts)

    compare(logic, M, X, I)


def test_reductions() -> None:
    def reduce(x: Any, m: Any, i: Any) -> tuple:
        numbers = (x.sum(-1), x.max((1, 2)), x.min(1), x.prod(-1), x.mean(-1, keepdims=True))
        places = (x.argmax(-1), x.argmin(1), i.argmax(-1), i.sum(-1))
        scans = (jnp.cumsum(x, 1), jnp.cumsum(i, 1), lax.cummax(x, 1), lax.cummin(i, 1))
        backward = (lax.cumsum(x, 2, reverse=True), lax.cummax(i, 1, reverse=True))
        wide = jnp.broadcast_to(x[:, :, :1], x.shape).sum(-1)  # which must be repeated before
        return (*numbers, *places, *scans, *backward, m.any(-1), m.all(1), wide)

    compare(reduce, X, M, I)


def test_shapes() -> None:
    def change(x: Any, i: Any) -> tuple:
        rows = x.reshape(-1, 5)
        joined = jnp.concatenate([x, jnp.zeros_like(x[..., :2]), jnp.ones((*x.shape[:2], 1))], -1)
        parts = (*jnp.split(x, [1, 3], axis=-1), x[:, 1:3, ::2], x[:, ::-1], x[:, None, 2])
        stacked = jnp.stack([x, x + 1], axis=2)
        padded = jnp.pad(x, ((0, 0), (1, 2), (0, 0)), constant_values=3)
        ids = i[..., None] == jnp.arange(8)
        return rows, rows.sum(-1), joined, *parts, stacked, padded, x.swapaxes(0, 1), ids

    compare(change, X, I)


def test_products() -> None:
    def multiply(x: Any, y: Any) -> tuple:
        plain = (x @ W, (x @ W).reshape(-1, 6) @ W.T, jnp.einsum("bno,o->bn", x, W[:, 0]))
        inner = (jnp.einsum("bno,bmo->bnm", x, y), jnp.einsum("bno,bno->bn", x, y))
        outer = (jnp.einsum("bnk,bnl->bkl", x, y), jnp.einsum("bno,bmp->bnmop", x, y))
        heads = x.reshape(-1, N, 1, 5), y.reshape(-1, N, 1, 5)
        return (*plain, *inner, *outer, jnp.einsum("bnhk,bmhk->bhnm", *heads))

    compare(multiply, X, Y)


def test_look_ups() -> None:
    table = jnp.asarray(W)

    def look(x: Any, i: Any, places: Any) -> tuple:
        row = jnp.abs(i) % 5
        each = jax.vmap(lambda one, place: one[place])(x, places)
        taken = jnp.take_along_axis(x, row[..., None], axis=-1)
        part = jax.vmap(lambda one, place: lax.dynamic_slice_in_dim(one, place, 2))(x, places)
        rolled = jax.vmap(lambda one, place: jnp.roll(one, -place, axis=0))(x, places)
        outside = jnp.take_along_axis(x, 10 * row[..., None], axis=-1, mode="fill", fill_value=-1)
        pair = jax.vmap(lambda one, place: one[place, place])(x, places)
        moved = lax.dynamic_slice_in_dim(x, i.max(), 2, axis=1)  # back inside, as i.max() is 7
        whole = lax.dynamic_slice_in_dim(x[:, :1], i.max(), 1, axis=1)
        single = jax.vmap(lambda one, place: lax.dynamic_slice_in_dim(one, place, 4))(x, places)
        return table[row], each, taken, part, rolled, outside, pair, moved, whole, single

    compare(look, X, I, PLACES, exact=True)


def test_replacements() -> None:
    def put(x: Any, i: Any, places: Any, m: Any) -> tuple:
        each = jax.vmap(lambda one, place: one.at[place].set(7))(x, places)
        column = jax.vmap(lambda one, place, new: one.at[:, place].set(new))(x, places, i * 1.0)
        mask = jax.vmap(lambda one, place: one.at[place].set(True))(m, places)
        beyond = jax.vmap(lambda one, place: one.at[place + 2].set(7))(x, places)
        return each, column, mask, beyond

    compare(put, X, I, PLACES, M, exact=True)


def test_loops() -> None:
    def loop(x: Any, i: Any) -> tuple:
        def one(carry: Any, row: Any) -> tuple:
            total, last = carry
            total = jnp.tanh(total + row @ W[:, :5])
            return (total, row), (total, last.sum(-1), row)

        start = jnp.zeros_like(x[:, 0]), x[:, 1]
        rows = x.swapaxes(0, 1)
        ahead, back = (lax.scan(one, start, rows, reverse=reverse) for reverse in (False, True))
        once = lax.scan(one, start, rows[:1])
        fixed = lax.scan(lambda c, n: (c + n, c * n), i[:, 0], jnp.arange(3, dtype=jnp.int32))
        inner = lax.scan(lambda c, row: (lax.scan(one, (c, row), rows)[0][0], None), start[0], rows)
        return ahead, back, once, fixed, inner[0]

    compare(loop, X, I)


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    (batch,) = export.symbolic_shape("batch")
    kind = jax.ShapeDtypeStruct((batch, 5), jnp.float32)
    jaxpr = jax.make_jaxpr(lambda x: x @ jnp.tanh(jnp.asarray(W) @ W.T))(kind)
    model = to_model(lower(jaxpr, {"x": kind}, {"y": kind}, batch))
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Identity"]


def test_every_form_is_tried() -> None:
    """By the tests above, which call each by a name that stands for it in JAX."""
    seen: set[str] = set()
    original = dict(HANDLERS)

    def note(name: str) -> Function:
        def handle(*arguments: Any) -> Any:
            seen.add(name)
            return original[name](*arguments)

        return handle

    HANDLERS.update({name: note(name) for name in original})
    try:
        test_functions_of_one_array()
        test_functions_of_two_arrays()
        test_logic_and_types()
        test_reductions()
        test_shapes()
        test_products()
        test_look_ups()
        test_replacements()
    finally:
        HANDLERS.update(original)
    unseen = set(original) - seen
    assert unseen <= {"iota", "copy", "expand_dims", "stop_gradient"}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: jnp.sort(x), "the JAX primitive 'sort', which this policy uses"),
        (lambda x: x.at[:, jnp.array([0, 2])].set(0), "'scatter' to several places"),
        (lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x), "primitive 'while'"),
    ],
)
def test_what_has_no_form_is_named(function: Function, message: str) -> None:
    with pytest.raises(OryxError, match=message) as error:
        compare(function, X)
    assert "format stablehlo" in str(error.value)
