"""Layers at the widths of real models: every tiling is legal, and libtpu takes what is chosen.

Pallas' own lowering refuses illegal blocks without libtpu. By default it sees every layer at every
width and type, each for one chip in turn, and libtpu a sample. `-m slow` is all for all chips.
"""

import itertools

import jax
import pytest
from every_kernel import KERNEL_S, tell_failures
from gates import compile_graph
from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh
from kernel_graphs import BF16, F32
from wide_layers import LAYERS, WIDTHS, layer_graph

from tpu_inductor.aot.compile import struct_of
from tpu_inductor.aot.messages import CompileRequest, argument_of
from tpu_inductor.aot.pool import CompilerPool
from tpu_inductor.codegen.program import Program
from tpu_inductor.graph.types import DType
from tpu_inductor.runtime.load import load_program
from tpu_inductor.schedule.assign import Scheduled
from tpu_inductor.schedule.candidates import list_candidates
from tpu_inductor.schedule.verify import verify_schedules
from tpu_inductor.target import TARGETS, TpuTarget, target
from tpu_inductor.templates import templates_for

KINDS = {
    "v4": "TPU v4",
    "v5e": "TPU v5 lite",
    "v5p": "TPU v5",
    "v6e": "TPU v6 lite",
    "tpu7x": "TPU7x",
}
"""What JAX calls the chips."""

EVERY = list(itertools.product(LAYERS, WIDTHS, (BF16, F32), KINDS))

SAMPLE = {
    ("square", 3072, BF16, "v6e"),
    ("square", 6400, BF16, "v4"),
    ("up", 1600, BF16, "v5p"),
    ("down", 6400, BF16, "v5e"),
    ("layer_norm", 1280, BF16, "tpu7x"),
    ("gradients", 6400, BF16, "tpu7x"),
    ("gradients", 1600, F32, "v4"),
    ("masked_bias", 768, BF16, "v5e"),
}
"""Vectors in every form: blocks, whole, and as rows; read and written."""


def case(layer: str, width: int, dtype: DType, chip: str, *, is_sampled: bool):
    return pytest.param(
        layer, width, dtype, chip,
        id=f"{layer}-{width}-{dtype.short}-{chip}",
        marks=() if is_sampled else pytest.mark.slow,
    )  # fmt: skip


def lower_for(program: Program, chip: TpuTarget) -> None:
    """Pallas' lowering of a program, without libtpu. Raises ValueError for an illegal block."""
    device = AbstractDevice(device_kind=KINDS[chip.name], num_cores=1, platform="tpu")
    arguments = [struct_of(argument_of(v)) for v in program.inputs]
    function = load_program(program.name, program.source)
    with (
        jax.enable_x64(True),
        use_abstract_mesh(AbstractMesh((), (), abstract_device=device)),
    ):
        jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",))


@pytest.mark.parametrize(
    ("layer", "width", "dtype", "chip"),
    # Neighbouring cases are for different chips.
    [case(*v, is_sampled=i % 5 == i // 5 % 5) for i, v in enumerate(EVERY)],
)
def test_every_tiling_is_legal_and_pallas_lowers_the_chosen(layer, width, dtype, chip):
    tpu = target(chip)
    compiled = compile_graph(layer_graph(layer, width, dtype), tpu)
    partition = compiled.scheduled.partition
    candidates = list_candidates(compiled.only.region, tpu, templates_for(tpu))
    for schedule in candidates.fitting:
        verify_schedules(Scheduled(partition, {schedule.region.name: schedule}), tpu)
    lower_for(compiled.program, tpu)


@pytest.fixture(scope="module")
def pool():
    with CompilerPool(1, KERNEL_S) as pool:
        yield pool


@pytest.mark.aot
@pytest.mark.parametrize(
    ("layer", "width", "dtype", "chip"), [case(*v, is_sampled=v in SAMPLE) for v in EVERY]
)
def test_the_compiler_takes_a_layer_at_its_real_width(layer, width, dtype, chip, pool):
    program = compile_graph(layer_graph(layer, width, dtype), target(chip)).program
    arguments = tuple(argument_of(v) for v in program.inputs)
    request = CompileRequest(program.name, program.source, arguments, chip, is_priced=False)
    assert not tell_failures(list(pool.run([request])))


def test_every_chip_has_a_name_in_jax():
    assert list(KINDS) == [t.name for t in TARGETS.values() if t.is_tpu]
