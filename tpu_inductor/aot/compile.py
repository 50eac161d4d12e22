"""Compiles programs for a TPU that is not here, with libtpu's ahead-of-time compiler.

What it accepts, Mosaic and XLA accept: block shapes, layouts, VMEM, every operation. Nothing runs.
`options.prepare_libtpu` must have been called before JAX starts. Some kernels make the compiler
abort the process; `aot.pool` compiles in processes of its own.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh
from jax._src.pallas.mosaic.error_handling import MosaicError
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from tpu_inductor.aot.messages import Argument, DevicelessResult, argument_of
from tpu_inductor.runtime.load import lines_of, load_program

# Not needed to compile: a worker starts without the compiler's own modules.
if TYPE_CHECKING:
    from tpu_inductor.codegen.program import Program
    from tpu_inductor.target import TpuTarget

COMPILER_ERRORS = (
    MosaicError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
)
"""What tracing, Pallas' lowering, Mosaic and XLA raise for a program that they do not take."""

_VMEM = re.compile(r'used_scoped_memory_configs":\[\{"memory_space":"1",[^}]*"size":"(\d+)"')


@functools.cache
def _device(topology: str) -> Any:
    return topologies.get_topology_desc(topology, platform="tpu").devices[0]


def compile_function(
    fn: Callable[..., Any],
    args: Sequence[jax.ShapeDtypeStruct],
    target: "TpuTarget",
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
        try:
            lowered = jax.jit(fn).trace(*placed).lower(lowering_platforms=("tpu",))
            compiled = lowered.compile()
        except COMPILER_ERRORS as error:
            text = str(error) or type(error).__name__
            line = lines[-1][1] if (lines := lines_of(error)) else 0
            return DevicelessResult(name, target.name, text, error_line=line)
    memory = compiled.memory_analysis()
    vmem = max(map(int, _VMEM.findall(compiled.as_text() or "")), default=0)
    if memory is None:
        return DevicelessResult(name, target.name, "", vmem_bytes=vmem)
    return DevicelessResult(
        name,
        target.name,
        "",
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.temp_size_in_bytes,
        memory.generated_code_size_in_bytes,
        vmem,
    )


def compile_program(program: "Program", target: "TpuTarget") -> DevicelessResult:
    """Compiles a printed program for `target`."""
    args = [struct_of(argument_of(v)) for v in program.inputs]
    return compile_function(load_program(program.name, program.source), args, target, program.name)


def struct_of(argument: Argument) -> jax.ShapeDtypeStruct:
    """An argument as JAX traces it."""
    shape, dtype = argument
    return jax.ShapeDtypeStruct(shape, jax.numpy.dtype(dtype))
