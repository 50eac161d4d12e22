"""XLA:CPU: torch CPU tensors in and out without a copy, kernels in interpret mode.

A launch blocks until its results are ready, so that arguments may be aliased by the program and
freed or written by the caller afterwards.
"""

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call
from jax.experimental.pallas import tpu as pltpu
from torch import Tensor

from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import BUGS, InvalidIR, Unsupported
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.options import Interpret
from tpu_inductor.runtime.adapters.cpu_extremes import spreads_nan
from tpu_inductor.runtime.adapters.protocol import Array, Launch
from tpu_inductor.runtime.failure import explain_failure
from tpu_inductor.runtime.fork import describe_fork
from tpu_inductor.runtime.interop import NUMPY_DTYPE, adopt_array, copier, view_numpy
from tpu_inductor.runtime.load import load_program


@dataclass(frozen=True, slots=True)
class CpuAdapter:
    """See `Adapter`. Arguments travel as numpy views; held ones are jax arrays that alias them."""

    devices: str = "cpu"

    def process(self) -> int:
        home, here = _process_of_jax(), os.getpid()
        if here != home:
            raise Unsupported(describe_fork("JAX was started", home))
        return here

    def accepts(self, tensor: Tensor) -> bool:
        return tensor.is_cpu

    def stage(self, tensor: Tensor, dtype: DType) -> Array:
        return view_numpy(tensor, dtype)

    def hold(self, tensor: Tensor, dtype: DType) -> Array | None:
        # The view must be of another Python object: the array would keep a Parameter alive.
        view = view_numpy(tensor.detach(), dtype)
        with jax.enable_x64(True):
            array = jax.device_put(view, jax.devices("cpu")[0], may_alias=True)
        # XLA copies memory that is not aligned to 64 bytes. A copy would miss later writes
        # (`p.data.add_()` leaves no trace in the version), so it is not worth keeping.
        is_alias = array.unsafe_buffer_pointer() == tensor.data_ptr() and view.size > 0
        return array if is_alias else None

    def number(self, value: float, dtype: DType) -> Array:
        return np.asarray(value, NUMPY_DTYPE[dtype])

    def to_torch(self, array: Array) -> Tensor:
        return adopt_array(array)

    def copier(self, type_: TensorType) -> Callable[[Array], Tensor]:
        return copier(type_)

    def compile(self, program: Program, interpret: Interpret) -> Launch:
        launch = _launcher(program, interpret)
        return _check_races(launch, program.name) if interpret == "tpu" else launch


@functools.cache
def _process_of_jax() -> int:
    """The process that first asked, and in which JAX has its threads from then on."""
    return os.getpid()


@functools.cache
def strict_compiler_options() -> dict[str, Any]:
    """XLA's options for maxima and minima that spread NaN: its library reduces no more.

    Empty where XLA does not know the option, nor then has the library.
    """
    kept = ("DOT", "INDIVIDUAL_DOT", "INDIVIDUAL_CONVOLUTION")
    names = ",".join(f"LIBRARY_FUSION_TYPE_{name}" for name in kept)
    option = {"xla_cpu_experimental_ynn_fusion_type": names}
    try:
        jax.jit(lambda: 0, compiler_options=option).lower().compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return option


def _launcher(program: Program, interpret: Interpret) -> Launch:
    function = load_program(program.name, program.source)
    mode = _tpu_semantics() if interpret == "tpu" else interpret

    def call(*arrays: Array) -> tuple[Array, ...]:
        return tuple(function(*arrays, interpret=mode))

    call.__name__ = call.__qualname__ = program.name
    # Where a GPU is at hand it would get the numpy views; unlike `jax.default_device` around
    # each call, a sharding costs nothing.
    cpu = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
    # Not `.lower().compile()`: calling such an executable takes twice as long with 300 arguments.
    options = strict_compiler_options() if _is_strict(program, interpret) else {}
    compiled = jax.jit(call, in_shardings=cpu, out_shardings=cpu, compiler_options=options)

    def launch(arrays: Sequence[Array]) -> Sequence[Array]:
        try:
            with jax.enable_x64(True):
                results = compiled(*arrays)
            for result in results:
                result.block_until_ready()
        except BUGS as error:
            raise explain_failure(error, program.name) from error
        return results

    return _TraceApart(launch)


@dataclass(slots=True)
class _TraceApart:
    """A launch whose first call, which traces, is made on a thread of its own.

    JAX keeps the stack on which it traced, for error messages, and with it the code objects there.
    Dynamo's would never die, nor what they call: the graph, and all that JAX remembers of it.
    """

    launch: Launch
    is_traced: bool = False

    def __call__(self, arrays: Sequence[Array]) -> Sequence[Array]:
        if self.is_traced:
            return self.launch(arrays)
        with ThreadPoolExecutor(1) as thread:
            results = thread.submit(self.launch, arrays).result()
        self.is_traced = True
        return results


def _is_strict(program: Program, interpret: Interpret) -> bool:
    """Whether maxima must spread NaN; so they do where nothing is known of the program."""
    is_unknown = interpret == "tpu" or not program.eqns
    return is_unknown or spreads_nan(program.eqns, program.outputs)


def _tpu_semantics() -> Any:
    return pltpu.InterpretParams(detect_races=True, uninitialized_memory="nan")


def _check_races(launch: Launch, name: str) -> Launch:
    """Raises InvalidIR when the interpreter has seen a race in the program's last kernel."""

    def checked(arrays: Sequence[Array]) -> Sequence[Array]:
        pltpu.reset_tpu_interpret_mode_state()
        results = launch(arrays)
        races = interpret_pallas_call.races
        if races is not None and races.races_found:
            raise InvalidIR(f"program {name}: a kernel reads memory that another step writes")
        return results

    return checked
