"""Matmuls, alone and with what follows them, as one writes them in JAX.

`*_wide` keep float32 from the product to the end of what follows it, which spares roundings.
"""

import jax
import jax.numpy as jnp

HEAD = 128
"""The width of a head."""


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b)


def matmul_f32(a: jax.Array, b: jax.Array) -> jax.Array:
    """torch's default precision for float32 is exact products."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def matmul_int8(a: jax.Array, b: jax.Array) -> jax.Array:
    return jax.lax.dot(a, b, preferred_element_type=jnp.int32)


def matmul_int8_scaled(a: jax.Array, b: jax.Array, scale: jax.Array) -> jax.Array:
    return (matmul_int8(a, b).astype(jnp.float32) * scale).astype(jnp.bfloat16)


def linear_wide(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w.T in float32, of the two last dimensions."""
    return jnp.einsum("...d,nd->...n", x, w, preferred_element_type=jnp.float32)


def bias_gelu_residual(x: jax.Array, w: jax.Array, b: jax.Array, r: jax.Array) -> jax.Array:
    return jax.nn.gelu(x @ w.T + b, approximate=True) + r


def bias_gelu_residual_wide(x: jax.Array, w: jax.Array, b: jax.Array, r: jax.Array) -> jax.Array:
    y = jax.nn.gelu(linear_wide(x, w) + b.astype(jnp.float32), approximate=True)
    return (y + r.astype(jnp.float32)).astype(x.dtype)


def qkv_fused(x: jax.Array, w: jax.Array, b: jax.Array) -> tuple[jax.Array, ...]:
    heads = (x @ w.T + b).reshape(*x.shape[:2], 3, -1, HEAD)
    return tuple(heads[:, :, i].transpose(0, 2, 1, 3) for i in range(3))


def qkv_fused_heads(x: jax.Array, w: jax.Array, b: jax.Array) -> tuple[jax.Array, ...]:
    """The product writes heads, and nothing is transposed after it."""
    heads = jnp.einsum("btd,chkd->cbhtk", x, w.reshape(3, -1, HEAD, x.shape[-1]))
    return tuple(heads + b.reshape(3, 1, -1, 1, HEAD))


def qkv_separate(x: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
    b, t, _ = x.shape
    return tuple((x @ w.T).reshape(b, t, -1, HEAD).transpose(0, 2, 1, 3) for w in (q, k, v))


def qkv_separate_heads(
    x: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array
) -> tuple[jax.Array, ...]:
    """Each product writes heads, and nothing is transposed after it."""
    return tuple(project_heads(x, w) for w in (q, k, v))


def project_heads(x: jax.Array, w: jax.Array) -> jax.Array:
    """(b, t, d) to (b, heads, t, HEAD)."""
    return jnp.einsum("btd,hkd->bhtk", x, w.reshape(-1, HEAD, x.shape[-1]))


def swiglu_mlp(x: jax.Array, g: jax.Array, u: jax.Array, d: jax.Array) -> jax.Array:
    return (jax.nn.silu(x @ g.T) * (x @ u.T)) @ d.T


def swiglu_mlp_wide(x: jax.Array, g: jax.Array, u: jax.Array, d: jax.Array) -> jax.Array:
    h = (jax.nn.silu(linear_wide(x, g)) * linear_wide(x, u)).astype(x.dtype)
    return linear_wide(h, d).astype(x.dtype)


def geglu_mlp(x: jax.Array, g: jax.Array, u: jax.Array, d: jax.Array) -> jax.Array:
    return (jax.nn.gelu(x @ g.T, approximate=True) * (x @ u.T)) @ d.T


def geglu_mlp_wide(x: jax.Array, g: jax.Array, u: jax.Array, d: jax.Array) -> jax.Array:
    h = jax.nn.gelu(linear_wide(x, g), approximate=True) * linear_wide(x, u)
    return linear_wide(h.astype(x.dtype), d).astype(x.dtype)
