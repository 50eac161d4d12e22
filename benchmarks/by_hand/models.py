"""Parts of a language model, as one writes them in JAX."""

import jax
import jax.numpy as jnp

HEADS, HEAD = 32, 128


def _rms_norm(x: jax.Array, w: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)
    return scaled.astype(x.dtype) * w


def embedding_norm(ids: jax.Array, table: jax.Array, w: jax.Array) -> jax.Array:
    return _rms_norm(table[ids], w)


def cross_entropy(logits: jax.Array, target: jax.Array) -> jax.Array:
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], axis=-1)
    return -picked.mean()


def cross_entropy_grad(logits: jax.Array, target: jax.Array) -> tuple[jax.Array, ...]:
    return jax.value_and_grad(cross_entropy)(logits, target)


def adamw(*arrays: jax.Array) -> tuple[jax.Array, ...]:
    out: list[jax.Array] = []
    for p, g, m, v in zip(*(arrays[i::4] for i in range(4)), strict=True):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        update = (m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-8)
        out += [p * (1 - 1e-5) - 1e-3 * update, m, v]
    return tuple(out)


def _rotate(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    left, right = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate((-right, left), -1) * sin


def llama_block(x: jax.Array, cos: jax.Array, sin: jax.Array, *weights: jax.Array) -> jax.Array:
    norm1, q, k, v, o, norm2, gate, up, down = weights
    h = _rms_norm(x, norm1)
    heads = [(h @ w.T).reshape(*x.shape[:2], HEADS, HEAD).transpose(0, 2, 1, 3) for w in (q, k, v)]
    turned = [_rotate(y, cos, sin) for y in heads[:2]]
    scores = jnp.einsum("bhqd,bhkd->bhqk", *turned, preferred_element_type=jnp.float32)
    scores *= HEAD**-0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    shares = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf)).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bhkd->bqhd", shares, heads[2]).reshape(x.shape)
    x = x + mixed @ o.T
    h = _rms_norm(x, norm2)
    return x + (jax.nn.silu(h @ gate.T) * (h @ up.T)) @ down.T
