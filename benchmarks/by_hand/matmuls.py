"""Matmuls, alone and with what follows them, as one writes them in JAX."""

import jax
import jax.numpy as jnp


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b)


def matmul_f32(a: jax.Array, b: jax.Array) -> jax.Array:
    """torch's default precision for float32 is exact products."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def matmul_int8(a: jax.Array, b: jax.Array) -> jax.Array:
    return jax.lax.dot(a, b, preferred_element_type=jnp.int32)


def matmul_int8_scaled(a: jax.Array, b: jax.Array, scale: jax.Array) -> jax.Array:
    return (matmul_int8(a, b).astype(jnp.float32) * scale).astype(jnp.bfloat16)


def bias_gelu_residual(x: jax.Array, w: jax.Array, b: jax.Array, r: jax.Array) -> jax.Array:
    return jax.nn.gelu(x @ w.T + b, approximate=True) + r


def qkv_fused(x: jax.Array, w: jax.Array, b: jax.Array) -> tuple[jax.Array, ...]:
    heads = (x @ w.T + b).reshape(*x.shape[:2], 3, 32, 128)
    return tuple(heads[:, :, i].transpose(0, 2, 1, 3) for i in range(3))


def qkv_separate(x: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
    b, t, _ = x.shape
    return tuple((x @ w.T).reshape(b, t, -1, 128).transpose(0, 2, 1, 3) for w in (q, k, v))


def swiglu_mlp(x: jax.Array, g: jax.Array, u: jax.Array, d: jax.Array) -> jax.Array:
    return (jax.nn.silu(x @ g.T) * (x @ u.T)) @ d.T


def geglu_mlp(x: jax.Array, g: jax.Array, u: jax.Array, d: jax.Array) -> jax.Array:
    return (jax.nn.gelu(x @ g.T, approximate=True) * (x @ u.T)) @ d.T
