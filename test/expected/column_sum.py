"""column_sum: printed by tpu_inductor for v5e."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def mul_reduce_sum_abs_sub_etc_kernel(x_ref, w_ref, exp_ref, acc_ref):
    rows_id = pl.program_id(0)
    @pl.when(rows_id == 0)
    def _initialise():
        acc_ref[...] = jnp.full((1, 130), 0.0, jnp.float32)

    x = x_ref[...]
    mul = x * x
    acc_ref[...] = acc_ref[...] + jnp.sum(jnp.where(lax.broadcasted_iota(jnp.int32, (128, 1), 0) + rows_id * 128 < 5001, mul, 0.0), axis=(0,), keepdims=True)

    @pl.when(rows_id == 39)
    def _finish():
        reduce_sum = acc_ref[...]
        mul_2 = reduce_sum * 0.0001
        w = w_ref[...].reshape((1, 130))
        abs_ = jnp.abs(w)
        sub = mul_2 - abs_
        exp = jnp.exp(sub)
        exp_ref[...] = exp.reshape(130)


@functools.partial(jax.jit, static_argnames=("interpret",))
def mul_reduce_sum_abs_sub_etc(x, w, *, interpret=False):
    with jax.enable_x64(False):
        results = pl.pallas_call(
            mul_reduce_sum_abs_sub_etc_kernel,
            grid=(40,),
            in_specs=[
                pl.BlockSpec((128, 130), lambda rows: (rows, 0)),
                pl.BlockSpec((130,), lambda rows: (0,)),
            ],
            out_specs=[
                pl.BlockSpec((130,), lambda rows: (0,)),
            ],
            out_shape=[
                jax.ShapeDtypeStruct((130,), jnp.float32),
            ],
            scratch_shapes=[pltpu.VMEM((1, 130), jnp.float32)],
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=('arbitrary',),
                vmem_limit_bytes=33554432,
            ),
            cost_estimate=pl.CostEstimate(
                flops=1300650,
                transcendentals=130,
                bytes_accessed=5129232,
            ),
            interpret=interpret,
        )(x, w)
    return (results[0],)


def program(x, w, *, interpret=False):
    exp, = mul_reduce_sum_abs_sub_etc(x, w, interpret=interpret)
    return (exp,)
