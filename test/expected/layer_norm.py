"""layer_norm: printed by tpu_inductor for v5e."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def convert_reduce_sum_mul_sub_etc_kernel(x_ref, weight_ref, bias_ref, convert_ref):
    @pl.loop(0, 4)
    def _chunk(chunk):
        start = pl.multiple_of(chunk * 512, 512)
        x = x_ref[pl.ds(start, 512), :]
        convert = x.astype(jnp.float32)
        reduce_sum = jnp.sum(convert, axis=(1,), keepdims=True)
        mul = reduce_sum * 0.0009765625
        sub = convert - mul
        mul_2 = sub * sub
        reduce_sum_2 = jnp.sum(mul_2, axis=(1,), keepdims=True)
        mul_3 = reduce_sum_2 * 0.0009765625
        add = mul_3 + 1e-05
        rsqrt = lax.rsqrt(add)
        mul_4 = sub * rsqrt
        weight = weight_ref[...].reshape((1, 1024))
        mul_5 = mul_4 * weight
        bias = bias_ref[...].reshape((1, 1024))
        add_2 = mul_5 + bias
        convert_2 = add_2.astype(jnp.bfloat16)
        convert_ref[pl.ds(start, 512), :] = convert_2


@functools.partial(jax.jit, static_argnames=("interpret",))
def convert_reduce_sum_mul_sub_etc(x, weight, bias, *, interpret=False):
    with jax.enable_x64(False):
        results = pl.pallas_call(
            convert_reduce_sum_mul_sub_etc_kernel,
            grid=(2,),
            in_specs=[
                pl.BlockSpec((2048, 1024), lambda rows: (rows, 0)),
                pl.BlockSpec((1024,), lambda rows: (0,)),
                pl.BlockSpec((1024,), lambda rows: (0,)),
            ],
            out_specs=[
                pl.BlockSpec((2048, 1024), lambda rows: (rows, 0)),
            ],
            out_shape=[
                jax.ShapeDtypeStruct((4096, 1024), jnp.bfloat16),
            ],
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=('parallel',),
                vmem_limit_bytes=42500096,
            ),
            cost_estimate=pl.CostEstimate(
                flops=37761024,
                transcendentals=4096,
                bytes_accessed=16785408,
            ),
            interpret=interpret,
        )(jnp.reshape(x, (4096, 1024)), weight, bias)
    return (jnp.reshape(results[0], (2, 2048, 1024)),)


def program(x, weight, bias, *, interpret=False):
    convert_2, = convert_reduce_sum_mul_sub_etc(x, weight, bias, interpret=interpret)
    return (convert_2,)
