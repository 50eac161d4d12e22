"""Blocks that Pallas takes, judged by Pallas itself, and vectors in each form through the gates."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import kernel_graphs as K
import pytest
from gates import LOOSE, V5E, check_program, compile_graph, print_compiled
from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh
from jax.experimental import pallas as pl
from kernel_graphs import BF16, F32, I32, build
from random_graphs import inputs_for

from tpu_inductor.codegen.kernel import print_kernel
from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph import interp
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.arrays import Form
from tpu_inductor.schedule.assign import Scheduled
from tpu_inductor.schedule.blocks import flaw_of_block, is_copied
from tpu_inductor.schedule.candidates import list_candidates
from tpu_inductor.schedule.cost import estimate
from tpu_inductor.schedule.nest import Carry, Fold
from tpu_inductor.schedule.rates import ROW_COPY_US
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.schedule.verify import verify_schedules
from tpu_inductor.target import target
from tpu_inductor.templates import templates_for

NUMPY = {F32: jnp.float32, BF16: jnp.bfloat16, I32: jnp.int32, DType.I8: jnp.int8}

VECTORS = [
    (extent, full)
    for full in (320, 1000, 1600, 3072)
    for extent in (1, 100, 128, 256, 320, 384, 512, 640, 1024, 1280, 1536, 2048, 3072)
    if extent <= full
]
MATRICES = [((1, 128), (1, 640)), ((1, 100), (8, 640)), ((32, 320), (64, 320)), ((4, 64), (4, 320))]


def pallas_takes(block: tuple[int, ...], array: tuple[int, ...], dtype: DType) -> bool:
    def kernel(x_ref: jax.Ref, o_ref: jax.Ref) -> None:
        o_ref[...] = x_ref[...]

    struct = jax.ShapeDtypeStruct(array, NUMPY[dtype])
    spec = pl.BlockSpec(block, lambda *at: at)
    grid = tuple(-(-n // tile) for n, tile in zip(array, block, strict=True))
    call = pl.pallas_call(kernel, grid=grid, in_specs=[spec], out_specs=spec, out_shape=struct)
    device = AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu")
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=device)):
        try:
            jax.jit(call).trace(struct).lower(lowering_platforms=("tpu",))
        except ValueError as error:
            if "block shape" in str(error):
                return False
            raise
    return True


@pytest.mark.parametrize("dtype", list(NUMPY), ids=lambda d: d.short)
def test_a_vector_is_judged_as_by_pallas(dtype):
    verdicts = {
        (extent, full): not flaw_of_block((extent,), (full,), dtype, V5E)
        for extent, full in VECTORS
    }
    assert set(verdicts.values()) == {True, False}
    assert verdicts == {(e, f): pallas_takes((e,), (f,), dtype) for e, f in VECTORS}


@pytest.mark.parametrize(("block", "array"), MATRICES)
def test_a_matrix_that_passes_is_taken_by_pallas(block, array):
    assert (not flaw_of_block(block, array, F32, V5E)) == pallas_takes(block, array, F32)


def test_leading_dimensions_are_free_and_the_last_two_are_not():
    assert not flaw_of_block((None, 8, 128), (3, 64, 640), F32, V5E)
    assert not flaw_of_block((5, 16, 640), (7, 64, 640), BF16, V5E)
    assert "(16, 128) tiles" in flaw_of_block((5, 8, 640), (7, 64, 640), BF16, V5E)
    assert "(32, 128) tiles" in flaw_of_block((16, 128), (64, 640), DType.I8, V5E)
    assert flaw_of_block((8, None, 128), (8, 64, 640), F32, V5E)
    assert flaw_of_block((), (), F32, V5E)
    assert not flaw_of_block((3, 5), (7, 11), F32, target("cpu"))


# -- the forms of a vector ----------------------------------------------------------------
def schedules(graph: Graph) -> list[TileSchedule]:
    region = compile_graph(graph).only.region
    return list(list_candidates(region, V5E, templates_for(V5E)).fitting)


def find(graph: Graph, name: str, form: Form, block: tuple[int, ...]) -> TileSchedule:
    """The first candidate that takes or gives `name` in this form and in such blocks."""
    return next(
        s
        for s in schedules(graph)
        for o in (*s.inputs, *s.outputs)
        if (o.var.name, o.form, s.block(o)) == (name, form, block)
    )


LINEAR = build(K.linear_gelu, 40, 64, 768)
LINEAR_BF16 = build(K.linear_gelu, 40, 64, 768, BF16, "default")
SUMS = build(K.column_sum, (40, 1536))


@pytest.mark.parametrize(
    ("graph", "name", "form", "block"),
    [
        (LINEAR, "bias", Form.VECTOR, (256,)),
        (LINEAR, "bias", Form.VECTOR, (128,)),
        (LINEAR, "bias", Form.WHOLE_VECTOR, (768,)),
        (LINEAR_BF16, "bias", Form.VECTOR, (256,)),
        (LINEAR_BF16, "bias", Form.ROW, (1, 384)),
        (SUMS, "w", Form.WHOLE_VECTOR, (1536,)),
        (SUMS, "exp", Form.VECTOR, (512,)),
        (SUMS, "exp", Form.ROW, (1, 768)),
    ],
)
def test_each_form_gives_the_numbers(graph, name, form, block):
    made = find(graph, name, form, block)
    partition = compile_graph(graph).scheduled.partition
    compiled = print_compiled(Scheduled(partition, {made.region.name: made}), V5E)
    inputs = inputs_for(graph, 0)
    check_program(graph, compiled.program, inputs, interp.run(graph, inputs), LOOSE)


def test_a_whole_vector_is_fetched_once_and_read_in_part():
    made = find(LINEAR, "bias", Form.WHOLE_VECTOR, (768,))
    (bias,) = (o for o in made.inputs if o.form is Form.WHOLE_VECTOR)
    assert made.axis("n").tile == 384
    assert made.index(bias) == ("0",)
    assert "pl.ds(pl.multiple_of(n_id * 384, 384), 384)" in print_kernel(made).text


def test_results_are_never_whole_vectors():
    forms = {o.form for made in schedules(SUMS) for o in made.outputs}
    assert forms == {Form.VECTOR, Form.ROW}


@pytest.mark.parametrize("width", [1600, 6400])
def test_a_tail_is_not_read_beyond_the_end_of_a_vector(width):
    for made in schedules(build(K.linear_gelu, 40, 64, width)):
        forms = {o.form for o in made.inputs if o.var.name == "bias"}
        assert forms != {Form.WHOLE_VECTOR} or not made.axis("n").has_tail


def test_a_vector_that_is_copied_costs_a_microsecond():
    made = find(LINEAR_BF16, "bias", Form.ROW, (1, 384))
    (bias,) = (o for o in made.inputs if o.form is Form.ROW)
    assert is_copied(bias, V5E)
    assert not is_copied(bias, target("cpu"))
    free = replace(made, inputs=tuple(o for o in made.inputs if o is not bias))
    assert estimate(made, V5E).time_us - estimate(free, V5E).time_us >= ROW_COPY_US


@pytest.mark.parametrize(
    ("tile", "message"), [(384, "nor a power of two from 128 on"), (100, "100")]
)
def test_an_illegal_block_of_a_vector_is_refused(tile, message):
    made = find(LINEAR, "bias", Form.VECTOR, (256,))
    axes = tuple(replace(a, tile=tile) if a.name == "n" else a for a in made.axes)
    bias = tuple(o for o in made.inputs if o.var.name == "bias")
    refuses(replace(made, axes=axes, inputs=bias, outputs=()), message)


def test_a_result_or_a_ragged_part_of_a_whole_vector_is_refused():
    made = find(SUMS, "w", Form.WHOLE_VECTOR, (1536,))
    whole = tuple(replace(o, form=Form.WHOLE_VECTOR) for o in made.outputs)
    refuses(replace(made, outputs=whole), "768 of exp.*cannot be part of a whole vector")
    ragged = tuple(replace(a, tile=1024) if a.name == "cols" else a for a in made.axes)
    inputs = tuple(o for o in made.inputs if o.form is Form.WHOLE_VECTOR)
    refuses(replace(made, axes=ragged, inputs=inputs, outputs=()), "1024 of w.*cannot be part")


def test_scratch_of_single_bits_is_refused():
    made = find(SUMS, "exp", Form.VECTOR, (512,))
    (loop,) = made.nest
    bits = Carry(0, made.eqns[0], ("rows", "cols"), (8, 128), DType.BOOL)
    axes = tuple(replace(a, chunk=0, is_reduced=a.name == loop.axis) for a in made.axes)
    fold = Fold((loop.axis,), (bits,), loop.body, ())
    refuses(replace(made, nest=(fold,), axes=axes), "has no single bits")


def refuses(made: TileSchedule, message: str) -> None:
    scheduled = compile_graph(SUMS).scheduled
    with pytest.raises(InvalidIR, match=message):
        verify_schedules(Scheduled(scheduled.partition, {made.region.name: made}), V5E)
