"""Compiles programs for a TPU that is not here, with libtpu's ahead-of-time compiler.

What it accepts, Mosaic and XLA accept: block shapes, layouts, VMEM, every operation. Nothing runs.
`options.prepare_libtpu` must have been called before JAX starts.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from tpu_inductor.codegen.program import Program
from tpu_inductor.graph.core import Var
from tpu_inductor.runtime.load import load_program
from tpu_inductor.target import TpuTarget


@dataclass(frozen=True, slots=True)
class DevicelessResult:
    """What the compiler says of one program: `error` is empty if it compiled. Sizes in bytes."""

    name: str
    target: str
    error: str
    argument_bytes: int = 0
    output_bytes: int = 0
    temporary_bytes: int = 0
    code_bytes: int = 0

    @property
    def ok(self) -> bool:
        return not self.error


@functools.cache
def _device(topology: str) -> Any:
    return topologies.get_topology_desc(topology, platform="tpu").devices[0]


def compile_function(
    fn: Callable[..., Any],
    args: Sequence[jax.ShapeDtypeStruct],
    target: TpuTarget,
    name: str,
) -> DevicelessResult:
    """Compiles a JAX function of `args` for `target`, under 64-bit types as programs are."""
    device = _device(target.topology)
    sharding = SingleDeviceSharding(device)
    placed = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
    kind = AbstractDevice(
        device_kind=device.device_kind, num_cores=device.num_cores, platform="tpu"
    )
    with jax.enable_x64(True), use_abstract_mesh(AbstractMesh((), (), abstract_device=kind)):
        lowered = jax.jit(fn).trace(*placed).lower(lowering_platforms=("tpu",))
        try:
            compiled = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            return DevicelessResult(name, target.name, str(error))
    memory = compiled.memory_analysis()
    if memory is None:
        return DevicelessResult(name, target.name, "")
    return DevicelessResult(
        name,
        target.name,
        "",
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.temp_size_in_bytes,
        memory.generated_code_size_in_bytes,
    )


def compile_program(program: Program, target: TpuTarget) -> DevicelessResult:
    """Compiles a printed program for `target`."""
    args = [_struct(v) for v in program.inputs]
    return compile_function(load_program(program.name, program.source), args, target, program.name)


def _struct(var: Var) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(var.type.dims, jax.numpy.dtype(var.type.dtype.value.rstrip("_")))
