"""causal_mask: printed by tpu_inductor for v5e."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def ge_select_kernel(x_ref, select_ref):
    rows_id = pl.program_id(1)
    iota = lax.broadcasted_iota(jnp.int32, (48, 1), 0) + rows_id * 48
    iota_2 = lax.broadcasted_iota(jnp.int32, (1, 300), 1)
    ge = iota >= iota_2
    x = x_ref[...]
    ge_mask = ge.astype(jnp.int32) != 0
    select = jnp.where(ge_mask, x, 0.0)
    select_ref[...] = select


@functools.partial(jax.jit, static_argnames=("interpret",))
def ge_select(x, *, interpret=False):
    with jax.enable_x64(False):
        results = pl.pallas_call(
            ge_select_kernel,
            grid=(4, 7),
            in_specs=[
                pl.BlockSpec((None, 48, 300), lambda b0, rows: (b0, rows, 0)),
            ],
            out_specs=[
                pl.BlockSpec((None, 48, 300), lambda b0, rows: (b0, rows, 0)),
            ],
            out_shape=[
                jax.ShapeDtypeStruct((4, 300, 300), jnp.float32),
            ],
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=('parallel', 'parallel'),
                vmem_limit_bytes=33554432,
            ),
            cost_estimate=pl.CostEstimate(
                flops=450000,
                transcendentals=0,
                bytes_accessed=3686424,
            ),
            interpret=interpret,
        )(x)
    return (results[0],)


def program(x, *, interpret=False):
    select, = ge_select(x, interpret=interpret)
    return (select,)
