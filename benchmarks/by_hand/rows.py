"""Softmax, norms, activations and other work on rows and elements, as one writes it in JAX.

XLA reads a row again for every reduction that depends on another. `*_single_pass` make all
statistics of a row in one variadic reduction, so that XLA reads it once for them.
"""

import jax
import jax.numpy as jnp


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x)


def softmax_single_pass(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    most, total = max_and_sum(wide)
    return (jnp.exp(wide - most) / total).astype(x.dtype)


def log_softmax(x: jax.Array) -> jax.Array:
    return jax.nn.log_softmax(x)


def log_softmax_single_pass(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    most, total = max_and_sum(wide)
    return (wide - most - jnp.log(total)).astype(x.dtype)


def max_and_sum(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The maximum m of every row, and the sum of exp(x - m), read once: two columns."""
    start = (jnp.array(LEAST, x.dtype), jnp.array(0, x.dtype))
    most, total = jax.lax.reduce((x, jnp.ones_like(x)), start, join_sums, (1,))
    return most[:, None], total[:, None]


LEAST = -1e30
"""Below every element: an infinity would make NaN of a difference from itself."""


def join_sums(
    a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Of two parts of a row, each as its maximum m and its sum of exp(x - m)."""
    most = jnp.maximum(a[0], b[0])
    return most, a[1] * jnp.exp(a[0] - most) + b[1] * jnp.exp(b[0] - most)


def bias_gelu(x: jax.Array, b: jax.Array) -> jax.Array:
    return jax.nn.gelu(x + b, approximate=True)


def geglu(g: jax.Array, u: jax.Array) -> jax.Array:
    return jax.nn.gelu(g, approximate=True) * u


def swiglu(g: jax.Array, u: jax.Array) -> jax.Array:
    return jax.nn.silu(g) * u


def column_sum(x: jax.Array) -> jax.Array:
    return x.sum(0)


def argmax(x: jax.Array) -> jax.Array:
    return jnp.argmax(x, -1)


def layer_norm(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.square(wide - mean).mean(-1, keepdims=True)
    return _scale(x, mean, variance, w, b)


def layer_norm_single_pass(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    """The variance as E[x^2] - E[x]^2, as Flax has it: one pass, and less exact."""
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.square(wide).mean(-1, keepdims=True) - jnp.square(mean)
    return _scale(x, mean, jnp.maximum(variance, 0.0), w, b)


def _scale(
    x: jax.Array, mean: jax.Array, variance: jax.Array, w: jax.Array, b: jax.Array
) -> jax.Array:
    scaled = (x.astype(jnp.float32) - mean) * jax.lax.rsqrt(variance + 1e-5)
    return (scaled * w.astype(jnp.float32) + b.astype(jnp.float32)).astype(x.dtype)


def rms_norm(x: jax.Array, r: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
    h = x + r
    wide = h.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)
    return w * scaled.astype(h.dtype), h


def rms_norm_dot(x: jax.Array, r: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
    """The sum of squares as a product of every row with itself."""
    h = x + r
    wide = h.astype(jnp.float32)
    squares = jnp.einsum("ij,ij->i", wide, wide)[:, None] / h.shape[-1]
    return w * (wide * jax.lax.rsqrt(squares + 1e-6)).astype(h.dtype), h


def top_p(logits: jax.Array) -> jax.Array:
    order = jnp.argsort(-logits, axis=-1)
    values = jnp.take_along_axis(logits, order, axis=-1)
    probabilities = jax.nn.softmax(values)
    dropped = jnp.cumsum(probabilities, axis=-1) - probabilities > 0.9
    kept = jax.nn.softmax(jnp.where(dropped, -jnp.inf, values))
    return jnp.put_along_axis(jnp.zeros_like(logits), order, kept, axis=-1, inplace=False)


def sample_chain(logits: jax.Array, seen: jax.Array) -> jax.Array:
    probabilities = jax.nn.softmax(_penalise(logits, seen))
    floor = MIN_P * probabilities.max(-1, keepdims=True)
    kept = jnp.where(probabilities < floor, 0.0, probabilities)
    return kept / kept.sum(-1, keepdims=True)


def sample_chain_unnormalised(logits: jax.Array, seen: jax.Array) -> jax.Array:
    """The largest exponential is 1 and sums cancel, so the softmax needs no sum of its own."""
    penalised = _penalise(logits, seen)
    powers = jnp.exp(penalised - penalised.max(-1, keepdims=True))
    kept = jnp.where(powers < MIN_P, 0.0, powers)
    return kept / kept.sum(-1, keepdims=True)


MIN_P = 0.05


def _penalise(logits: jax.Array, seen: jax.Array) -> jax.Array:
    return jnp.where(seen, jnp.where(logits > 0, logits / 1.2, logits * 1.2), logits) / 0.7


def weight_gradients(dy: jax.Array, scaled: jax.Array) -> tuple[jax.Array, ...]:
    wide = dy.astype(jnp.float32)
    return (wide * scaled.astype(jnp.float32)).sum(0), wide.sum(0)
