"""Softmax, norms, activations and other work on rows and elements, as one writes it in JAX."""

import jax
import jax.numpy as jnp


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x)


def log_softmax(x: jax.Array) -> jax.Array:
    return jax.nn.log_softmax(x)


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
    scaled = (wide - mean) * jax.lax.rsqrt(variance + 1e-5)
    return (scaled * w.astype(jnp.float32) + b.astype(jnp.float32)).astype(x.dtype)


def rms_norm(x: jax.Array, r: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
    h = x + r
    wide = h.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)
    return w * scaled.astype(h.dtype), h


def top_p(logits: jax.Array) -> jax.Array:
    order = jnp.argsort(-logits, axis=-1)
    values = jnp.take_along_axis(logits, order, axis=-1)
    probabilities = jax.nn.softmax(values)
    dropped = jnp.cumsum(probabilities, axis=-1) - probabilities > 0.9
    kept = jax.nn.softmax(jnp.where(dropped, -jnp.inf, values))
    return jnp.put_along_axis(jnp.zeros_like(logits), order, kept, axis=-1, inplace=False)


def sample_chain(logits: jax.Array, seen: jax.Array) -> jax.Array:
    penalised = jnp.where(seen, jnp.where(logits > 0, logits / 1.2, logits * 1.2), logits)
    probabilities = jax.nn.softmax(penalised / 0.7)
    floor = 0.05 * probabilities.max(-1, keepdims=True)
    kept = jnp.where(probabilities < floor, 0.0, probabilities)
    return kept / kept.sum(-1, keepdims=True)


def weight_gradients(dy: jax.Array, scaled: jax.Array) -> tuple[jax.Array, ...]:
    wide = dy.astype(jnp.float32)
    return (wide * scaled.astype(jnp.float32)).sum(0), wide.sum(0)
