"""Compiling for a TPU that is not here: what is reported, and whose errors."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import kernel_graphs as K
import pytest
from gates import V5E, compile_graph
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from kernel_graphs import BF16, build

from tpu_inductor.aot.compile import compile_function, compile_program
from tpu_inductor.options import LIBTPU_VARIABLES, prepare_libtpu
from tpu_inductor.target import TARGETS

pytestmark = pytest.mark.aot

CHIPS = [t for t in TARGETS.values() if t.is_tpu]


@pytest.mark.parametrize("chip", CHIPS, ids=lambda c: c.name)
def test_every_chip_compiles_a_softmax(chip):
    result = compile_program(compile_graph(build(K.softmax, (64, 1000)), chip).program, chip)
    assert result.ok, result.error
    assert (result.name, result.target) == ("softmax", chip.name)


def test_sizes_are_reported():
    program = compile_graph(build(K.chain, (128, 256), BF16)).program
    result = compile_program(program, V5E)
    assert result.argument_bytes == 2 * 128 * 256 * 2
    assert result.output_bytes >= 128 * 256 * 2
    assert result.code_bytes > 0


def test_too_much_memory_is_an_error_of_the_compiler():
    def kernel(x_ref: jax.Ref, o_ref: jax.Ref, scratch_ref: jax.Ref) -> None:
        scratch_ref[:8] = x_ref[...]
        o_ref[...] = scratch_ref[:8]

    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    call = pl.pallas_call(
        kernel,
        out_shape=shape,
        scratch_shapes=[pltpu.VMEM((1 << 20, 128), jnp.float32)],
    )
    result = compile_function(lambda x: (call(x),), [shape], V5E, "large")
    assert not result.ok
    assert "vmem" in result.error.lower()


def test_fusions_may_use_the_vmem_that_they_are_given():
    shape = jax.ShapeDtypeStruct((8192, 4096), jnp.float32)

    def used(kib):
        return compile_function(lambda x: (x * 2,), [shape], V5E, "twice", kib).vmem_bytes

    assert used(1 << 10) <= 1 << 20 < used(0) < used(64 << 10) <= 64 << 20


def test_a_chip_without_64_bit_kernels_still_runs_64_bit_programs():
    result = compile_function(
        lambda x: (jnp.cumsum(x),), [jax.ShapeDtypeStruct((64,), jnp.int64)], V5E, "wide"
    )
    assert result.ok, result.error
    assert result.output_bytes >= 64 * 8


@pytest.mark.parametrize(("is_wide", "dtype"), [(True, "int64"), (False, "int32")])
def test_types_are_64_bit_unless_told_otherwise(is_wide, dtype):
    found = []

    def program(x):
        found.append(str(jnp.arange(4).dtype))
        return (x + jnp.arange(4),)

    shape = jax.ShapeDtypeStruct((4,), jnp.float32)
    assert compile_function(program, [shape], V5E, "types", has_64_bit=is_wide).ok
    assert found == [dtype]


def test_the_environment_is_prepared_without_overriding_it():
    environ = {"TPU_ACCELERATOR_TYPE": "mine"}
    prepare_libtpu(environ)
    assert environ == LIBTPU_VARIABLES | {"TPU_ACCELERATOR_TYPE": "mine"}


def test_a_topology_is_that_of_the_target():
    with pytest.raises(Exception, match="v99"):
        compile_function(lambda x: (x,), [], replace(V5E, topology="v99:2x2"), "none")
