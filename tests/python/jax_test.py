# sectile.jax on the CPU: results, jit, gradients against JAX's own formulas. jax_test.py BUILD LIBRARY
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.dirname(HERE)]

if "inside" not in sys.argv:
    from environment import python_with, run_in

    build, library = map(os.path.abspath, sys.argv[1:])
    run_in(python_with(os.path.join(build, "python-jax"), "jax", "numpy", "ml_dtypes"), os.path.abspath(__file__), "inside",
           build, library=library, package=os.path.join(build, "python"))

import jax
import jax.numpy as jnp
import numpy as np
import sectile
from script import main

jax.config.update("jax_platforms", "cpu")
random = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return jnp.asarray(random.standard_normal(shape).astype(dtype))


def close(a, b, bound=1e-4):
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    error = float(jnp.abs(a.astype(jnp.float32) - b.astype(jnp.float32)).max(initial=0))
    assert error <= bound, error


def raises(kind, function, says):
    try:
        jax.block_until_ready(function())
    except kind as error:
        assert says in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__}")


def attention(q, k, v, bias=0.0):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1]) + bias
    return jax.nn.softmax(scores, -1) @ v


def same_gradients(ours, formula, *arrays, bound=1e-4):
    """Of a sum that weighs each element of the result by another number, also under jit."""
    shape = jax.eval_shape(formula, *arrays).shape
    weights = normal(*shape)
    places = tuple(range(len(arrays)))
    wanted = jax.grad(lambda *given: (formula(*given) * weights).sum(), places)(*arrays)
    for wrap in (lambda function: function, jax.jit):
        found = wrap(jax.grad(lambda *given: (ours(*given) * weights).sum(), places))(*arrays)
        for a, b in zip(found, wanted):
            close(a, b, bound)


def test_results():
    x = normal(4, 9)
    close(sectile.jax.softmax(x), jax.nn.softmax(x, -1), 1e-6)
    close(sectile.softmax(x), jax.nn.softmax(x, -1), 1e-6)  # the same function for JAX's arrays
    close(jax.jit(sectile.softmax)(x), jax.nn.softmax(x, -1), 1e-6)
    close(sectile.softmax(x.astype(jnp.bfloat16)), jax.nn.softmax(x.astype(jnp.bfloat16), -1), 1e-2)
    q, k, v = normal(3, 1, 2, 16, 16)
    result = jax.jit(lambda q, k, v: sectile.attention(q, k, v, scale=0.25, causal=False))(q, k, v)
    close(result.o, attention(q, k, v))
    assert result.lse.shape == (1, 2, 16)
    y, h, rstd = sectile.jax.rms_norm(x)
    assert h is None and rstd.shape == (4,)
    indices = sectile.jax.topk(x, k=3).indices
    assert indices.shape == (4, 3)


def test_vmap():
    x = normal(3, 4, 9)
    close(jax.vmap(sectile.jax.softmax)(x), jax.nn.softmax(x, -1), 1e-6)


def test_gradients():
    x, w, b = normal(4, 16), normal(16), normal(16)
    same_gradients(sectile.jax.softmax, lambda x: jax.nn.softmax(x, -1), x)
    same_gradients(sectile.jax.log_softmax, lambda x: jax.nn.log_softmax(x, -1), x)
    same_gradients(lambda x: sectile.jax.activation(x, kind="silu"), jax.nn.silu, x)
    same_gradients(sectile.jax.swiglu, lambda gate, up: jax.nn.silu(gate) * up, x, normal(4, 16))

    def layer_norm(x, w=1.0, b=0.0):
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b

    same_gradients(lambda *given: sectile.jax.layer_norm(*given, eps=1e-5).y, layer_norm, x, w, b)
    same_gradients(lambda *given: sectile.jax.layer_norm(*given, eps=1e-5).y, layer_norm, x)

    def rms_norm(x, w, residual=0.0):
        h = x + residual
        return h * jax.lax.rsqrt((h**2).mean(-1, keepdims=True) + 1e-6) * w

    same_gradients(lambda x, w: sectile.jax.rms_norm(x, w, eps=1e-6).y, rms_norm, x, w)
    same_gradients(lambda x, w, r: sectile.jax.rms_norm(x, w, residual=r, eps=1e-6).y, rms_norm, x, w, normal(4, 16))

    def both(x, w, r):  # h goes on to further layers
        y, h, _ = sectile.jax.rms_norm(x, w, residual=r, eps=1e-6)
        return y + h

    same_gradients(both, lambda x, w, r: rms_norm(x, w, r) + x + r, x, w, normal(4, 16))


def test_gradients_of_attention():
    q, k, v = normal(3, 1, 2, 16, 16)
    same_gradients(lambda q, k, v: sectile.jax.attention(q, k, v).o, attention, q, k, v)
    bias = normal(1, 2, 16, 16)
    same_gradients(lambda q, k, v, bias: sectile.jax.attention(q, k, v, bias=bias).o, attention, q, k, v, bias)


def test_gradients_of_what_has_integers():
    logits, targets = normal(6, 11), jnp.asarray(random.integers(0, 11, 6), jnp.int32)

    def loss(logits):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), targets[:, None], 1)[:, 0]

    same_gradients(lambda logits: sectile.jax.cross_entropy(logits, targets, reduction="none").loss, loss, logits)
    table = normal(7, 12)
    same_gradients(lambda table: sectile.jax.embedding(table, targets % 7), lambda table: table[targets % 7], table)


def test_gradients_of_products():
    exact = {"precision": "exact"}
    a, b, bias, residual = normal(24, 40), normal(40, 16), normal(16), normal(24, 16)
    rows, columns = jnp.abs(normal(24)), jnp.abs(normal(16))
    same_gradients(lambda a, b: sectile.jax.matmul(a, b, **exact), lambda a, b: a @ b, a, b, bound=1e-3)
    same_gradients(lambda a, b: sectile.jax.matmul(a, b, alpha=0.5, trans_a=True, trans_b=True, **exact),
                   lambda a, b: 0.5 * a.T @ b.T, a.T, b.T, bound=1e-3)
    same_gradients(
        lambda a, b, c, d: sectile.jax.matmul(a, b, bias=c, residual=d, beta=-2.0, activation="silu", row_scale=rows,
                                              column_scale=columns, **exact),
        lambda a, b, c, d: jax.nn.silu(a @ b * rows[:, None] * columns + c - 2 * d), a, b, bias, residual, bound=1e-3)  # fmt: skip
    for count in (1, 3):  # one right operand for the whole batch, and one for each product
        for turned in (False, True):
            same_gradients(lambda a, b, c: sectile.jax.batched_matmul(a, b, bias=c, trans_a=turned, trans_b=turned, **exact),
                           lambda a, b, c: (a.mT if turned else a) @ (b.mT if turned else b) + c[:, None],
                           normal(3, 40, 24) if turned else normal(3, 24, 40), normal(count, 16, 40) if turned else normal(count, 40, 16),
                           normal(count, 16), bound=1e-3)  # fmt: skip
    sizes = jnp.asarray([10, 0, 11], jnp.int32)  # three rows belong to no group: of their results nothing is known
    groups = normal(3, 40, 16)
    same_gradients(lambda a, b: sectile.jax.grouped_matmul(a, b, sizes, **exact)[:21],
                   lambda a, b: jnp.concatenate([a[:10] @ b[0], a[10:21] @ b[2]]), a, groups, bound=1e-3)
    same_gradients(sectile.jax.vector_add, lambda x, y: x + y, residual, normal(24, 16))
    tokens, classes, targets = normal(12, 32), normal(40, 32), jnp.arange(12, dtype=jnp.int32) * 3

    def losses(x, w):
        return -jnp.take_along_axis(jax.nn.log_softmax(x @ w.T, -1), targets[:, None], 1)[:, 0]

    for reduction, reduced in (("mean", jnp.mean), ("sum", jnp.sum), ("none", lambda each: each)):
        same_gradients(lambda x, w: sectile.jax.linear_cross_entropy(x, w, targets, reduction=reduction, **exact).loss,
                       lambda x, w: reduced(losses(x, w)), tokens, classes, bound=1e-3)
    half = jnp.float16
    found = jax.grad(lambda a: sectile.jax.matmul(a, b.astype(half), out_dtype="f32").sum())(a.astype(half))
    close(found.astype(jnp.float32), jnp.broadcast_to(b.astype(half).sum(-1).astype(jnp.float32), a.shape), 0.05)
    assert found.dtype == half
    # Gradients of gradients are products, too.
    x = normal(8, 8)

    def twice(product):
        return jax.grad(lambda x: jax.grad(lambda x: (product(x, x) ** 2).sum())(x).sum())(x)

    close(twice(lambda a, b: sectile.jax.matmul(a, b, **exact)), twice(jnp.matmul), 2e-3)


def test_gradients_that_are_not_there():
    a, b, scale = normal(8, 8), normal(8, 8), normal(8)
    raises(sectile.UnsupportedError, lambda: jax.grad(lambda s: sectile.jax.matmul(a, b, row_scale=s).sum())(scale), "gradient of 'row_scale'")
    raises(sectile.UnsupportedError, lambda: jax.grad(lambda a: sectile.jax.sort(a)[0].sum())(a), "gradient of 'x'")
    q, k, v = normal(3, 1, 2, 16, 16)
    raises(sectile.UnsupportedError, lambda: jax.grad(lambda q: sectile.jax.attention(q, k, v).lse.sum())(q), "output 'lse'")
    twice = jax.grad(lambda x: jax.grad(lambda x: (sectile.jax.softmax(x) ** 2).sum())(x).sum())
    raises(sectile.UnsupportedError, lambda: twice(a), "softmax_backward has no gradient")
    # Neither is in the way of those who want none.
    jax.grad(lambda c: (sectile.jax.matmul(a, b) * c).sum())(a)


def test_refusals():
    x = normal(4, 9)
    raises(sectile.InvalidError, lambda: sectile.jax.vector_add(x, x[:2]), "vector_add")
    raises(TypeError, lambda: sectile.jax.softmax(), "needs x")
    raises(TypeError, lambda: sectile.jax.softmax(x, axis=1), "axis")
    raises(TypeError, lambda: sectile.jax.softmax(x, out=x), "out")
    # What only a launch can see.
    raises(Exception, lambda: sectile.jax.embedding(x, jnp.asarray([99], jnp.int32)), "an index is a row")


main({name: value for name, value in globals().items() if callable(value)})
