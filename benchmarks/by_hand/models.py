"""Parts of a language model, as one writes them in JAX."""

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu import flash_attention as flash

from by_hand.matmuls import HEAD, project_heads, swiglu_mlp, swiglu_mlp_wide
from by_hand.rows import LEAST, join_sums


def _rms_norm(x: jax.Array, w: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-6)
    return scaled.astype(x.dtype) * w


def embedding_norm(ids: jax.Array, table: jax.Array, w: jax.Array) -> jax.Array:
    return _rms_norm(table[ids], w)


def cross_entropy(logits: jax.Array, target: jax.Array) -> jax.Array:
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], axis=-1)
    return -picked.mean()


def cross_entropy_pick(logits: jax.Array, target: jax.Array) -> jax.Array:
    """Log-sum-exp less the target's logit, which a comparison picks and no gather."""
    picked = jnp.where(_hits(logits, target), logits, 0).sum(-1)
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


def cross_entropy_single_pass(logits: jax.Array, target: jax.Array) -> jax.Array:
    """Maximum, sum and the target's logit in one variadic reduction."""
    most, total, picked = _statistics(logits, target)
    return (most + jnp.log(total) - picked).mean()


def _statistics(logits: jax.Array, target: jax.Array) -> tuple[jax.Array, ...]:
    """Of every row its maximum m, its sum of exp(x - m) and the logit of its target."""
    zero = jnp.array(0, logits.dtype)
    return jax.lax.reduce(
        (logits, jnp.ones_like(logits), jnp.where(_hits(logits, target), logits, 0)),
        (jnp.array(LEAST, logits.dtype), zero, zero),
        lambda a, b: (*join_sums(a[:2], b[:2]), a[2] + b[2]),
        (1,),
    )


def _hits(logits: jax.Array, target: jax.Array) -> jax.Array:
    return jax.lax.broadcasted_iota(target.dtype, logits.shape, 1) == target[:, None]


def cross_entropy_grad(logits: jax.Array, target: jax.Array) -> tuple[jax.Array, ...]:
    return jax.value_and_grad(cross_entropy)(logits, target)


def cross_entropy_pick_grad(logits: jax.Array, target: jax.Array) -> tuple[jax.Array, ...]:
    return jax.value_and_grad(cross_entropy_pick)(logits, target)


def cross_entropy_single_pass_grad(logits: jax.Array, target: jax.Array) -> tuple[jax.Array, ...]:
    """The loss in one pass over the logits, its gradient in a second."""
    most, total, picked = _statistics(logits, target)
    loss = (most + jnp.log(total) - picked).mean()
    shares = jnp.exp(logits - most[:, None]) / total[:, None]
    return loss, jnp.where(_hits(logits, target), shares - 1, shares) / len(logits)


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
    heads = [(h @ w.T).reshape(*x.shape[:2], -1, HEAD).transpose(0, 2, 1, 3) for w in (q, k, v)]
    turned = [_rotate(y, cos, sin) for y in heads[:2]]
    scores = jnp.einsum("bhqd,bhkd->bhqk", *turned, preferred_element_type=jnp.float32)
    scores *= HEAD**-0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    shares = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf)).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bhkd->bqhd", shares, heads[2]).reshape(x.shape)
    x = x + mixed @ o.T
    return x + swiglu_mlp(_rms_norm(x, norm2), gate, up, down)


def llama_block_flash(
    x: jax.Array, cos: jax.Array, sin: jax.Array, *weights: jax.Array
) -> jax.Array:
    """Attention by JAX's own flash kernel, products that write and read heads."""
    norm1, q, k, v, o, norm2, gate, up, down = weights
    h = _rms_norm(x, norm1)
    queries, keys, values = (project_heads(h, w) for w in (q, k, v))
    queries, keys = (_rotate(y, cos, sin) for y in (queries, keys))
    mixed = _flash(queries, keys, values)
    x = x + jnp.einsum("bhtk,dhk->btd", mixed, o.reshape(o.shape[0], -1, HEAD))
    return x + swiglu_mlp_wide(_rms_norm(x, norm2), gate, up, down)


def _flash(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Causal attention of (b, heads, t, HEAD), in the fastest blocks on v5e and v6e."""
    most = min(q.shape[2], 1024)
    blocks = flash.BlockSizes(block_q=most, block_k_major=most, block_k=most, block_b=1)
    return flash.flash_attention(q, k, v, causal=True, sm_scale=HEAD**-0.5, block_sizes=blocks)
