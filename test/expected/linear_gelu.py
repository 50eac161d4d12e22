"""linear_gelu: printed by tpu_inductor for v5e."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def dot_convert_add_mul_etc_kernel(weight_ref, x_ref, bias_ref, residual_ref, convert_ref, acc_ref):
    k_id = pl.program_id(1)
    @pl.when(k_id == 0)
    def _initialise():
        acc_ref[...] = jnp.full((1024, 512), 0.0, jnp.float32)

    x = x_ref[...]
    weight = weight_ref[...]
    acc_ref[...] += lax.dot_general(x, weight, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)

    @pl.when(k_id == 31)
    def _finish():
        dot = acc_ref[...]
        bias = bias_ref[...].reshape((1, 512))
        convert = bias.astype(jnp.float32)
        add = dot + convert
        mul = add * 0.7071067811865476
        erf = lax.erf(mul)
        add_2 = erf + 1.0
        mul_2 = add * 0.5
        mul_3 = mul_2 * add_2
        residual = residual_ref[...]
        convert_2 = residual.astype(jnp.float32)
        add_3 = mul_3 + convert_2
        convert_3 = add_3.astype(jnp.bfloat16)
        convert_ref[...] = convert_3


@functools.partial(jax.jit, static_argnames=("interpret",))
def dot_convert_add_mul_etc(weight, x, bias, residual, *, interpret=False):
    with jax.enable_x64(False):
        results = pl.pallas_call(
            dot_convert_add_mul_etc_kernel,
            grid=(2, 32),
            in_specs=[
                pl.BlockSpec((512, 2048), lambda n, k: (n, k)),
                pl.BlockSpec((1024, 2048), lambda n, k: (0, k)),
                pl.BlockSpec((512,), lambda n, k: (n,)),
                pl.BlockSpec((1024, 512), lambda n, k: (0, n)),
            ],
            out_specs=[
                pl.BlockSpec((1024, 512), lambda n, k: (0, n)),
            ],
            out_shape=[
                jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16),
            ],
            scratch_shapes=[pltpu.VMEM((1024, 512), jnp.float32)],
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=('parallel', 'arbitrary'),
                vmem_limit_bytes=50339840,
            ),
            cost_estimate=pl.CostEstimate(
                flops=137447343104,
                transcendentals=1048576,
                bytes_accessed=406851584,
            ),
            interpret=interpret,
        )(weight, x, bias, residual)
    return (results[0],)


def program(weight, x, bias, residual, *, interpret=False):
    convert_3, = dot_convert_add_mul_etc(weight, x, bias, residual, interpret=interpret)
    return (convert_3,)
