"""The gates that every kernel of the tests passes: numbers, TPU semantics, the TPU's own compiler.

    check_gates(graph)                  # tiles of a v5e
    check_gates(graph, small_target())  # so little VMEM that small tensors need a grid

1. numbers: the CPU's and the TPU's kernels, interpreted, against graph.interp
2. TPU semantics: unwritten memory is NaN, two cores share the parallel axes, races are found
3. libtpu compiles the program ahead of time
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import torch
from jax._src.pallas.mosaic.interpret import interpret_pallas_call
from jax.experimental.pallas import tpu as pltpu
from random_graphs import inputs_for

from tpu_inductor.aot.compile import compile_program
from tpu_inductor.codegen.program import Program, print_program
from tpu_inductor.graph import interp
from tpu_inductor.graph.core import Graph, Value, Var
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.verify import verify
from tpu_inductor.regions.partition import partition_regions
from tpu_inductor.regions.verify import verify_partition
from tpu_inductor.runtime.adapters.cpu import strict_compiler_options
from tpu_inductor.runtime.interop import adopt_array, view_numpy
from tpu_inductor.runtime.load import load_program
from tpu_inductor.schedule.assign import Scheduled, assign_schedules, choose_by_estimate
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.schedule.verify import verify_schedules
from tpu_inductor.target import TpuTarget, target
from tpu_inductor.templates import templates_for

V5E = target("v5e")
CHIPS = (V5E, target("v6e"))

TPU_SEMANTICS = pltpu.InterpretParams(
    detect_races=True, uninitialized_memory="nan", num_cores_or_threads=2
)

Tolerance = tuple[float, float]
TOLERANCE: dict[torch.dtype, Tolerance] = {
    torch.float32: (2e-5, 2e-5),
    torch.float64: (1e-12, 1e-12),
    # Two units in the last place, and where terms cancel one of theirs.
    torch.bfloat16: (2**-6, 2**-9),
    torch.float16: (2**-9, 2**-12),
}
"""(relative, absolute) by result type; what is not listed is compared exactly."""

LOOSE: Tolerance = (1e-4, 2e-3)
"""For float32 sums of thousands of terms in another order."""


def small_target(vmem_bytes: int = 512 << 10) -> TpuTarget:
    """A v5e with so little VMEM to plan with that small tensors are tiled, with tails."""
    return replace(V5E, vmem_limit_bytes=vmem_bytes)


@dataclass(frozen=True)
class Compiled:
    """One graph lowered for one target, as one program."""

    scheduled: Scheduled
    program: Program

    @property
    def schedules(self) -> list[TileSchedule]:
        return list(self.scheduled.schedules.values())

    @property
    def only(self) -> TileSchedule:
        """The schedule of a graph that is one kernel and nothing else."""
        assert len(self.scheduled.partition.regions) == 1, str(self.scheduled.partition)
        (schedule,) = self.schedules
        return schedule


def compile_graph(graph: Graph, chip: TpuTarget = V5E, prefer: str = "pallas") -> Compiled:
    """Every stage after import for a graph without eager calls, verified in between."""
    verify(graph)
    partition = partition_regions(graph, chip, prefer=prefer)
    verify_partition(partition)
    return print_compiled(
        assign_schedules(partition, choose_by_estimate(chip, templates_for(chip), "pallas")), chip
    )


def print_compiled(scheduled: Scheduled, chip: TpuTarget) -> Compiled:
    verify_schedules(scheduled, chip)
    if not scheduled.partition.segments:
        return Compiled(scheduled, Program("empty", "", (), ()))
    (segment,) = scheduled.partition.segments
    name = scheduled.partition.graph.name
    return Compiled(scheduled, print_program(name, chip.name, segment, scheduled.schedules))


def execute(
    graph: Graph, program: Program, inputs: Sequence[torch.Tensor], interpret: object = True
) -> list[torch.Tensor]:
    """The graph's results as its program computes them."""
    known: dict[Value, torch.Tensor] = dict(zip(graph.inputs, inputs, strict=True))
    if program.source:
        function = load_program(program.name, program.source)
        arrays = [view_numpy(known[v], v.type.dtype) for v in program.inputs]
        with jax.enable_x64(True):
            run = jax.jit(
                lambda *xs: function(*xs, interpret=interpret),
                # A library whose maxima skip NaN would hide the poison of unwritten memory.
                compiler_options=strict_compiler_options(),
            )
            results = run(*arrays)
        for var, result in zip(program.outputs, results, strict=True):
            assert result.shape == var.type.dims, str(var)
            known[var] = adopt_array(result.block_until_ready())
    return [_value(known, v) for v in graph.outputs]


def _value(known: dict[Value, torch.Tensor], value: Value) -> torch.Tensor:
    if isinstance(value, Var):
        return known[value]
    return torch.tensor(value.value, dtype=TORCH_DTYPE[value.dtype])


def execute_checked(
    graph: Graph, program: Program, inputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """`execute` with a TPU's semantics. Fails on a race in the program's last kernel."""
    pltpu.reset_tpu_interpret_mode_state()
    results = execute(graph, program, inputs, TPU_SEMANTICS)
    races = interpret_pallas_call.races
    assert races is None or not races.races_found, program.source
    return results


def assert_same(
    got: Sequence[torch.Tensor],
    want: Sequence[torch.Tensor],
    where: str,
    tolerance: Tolerance | None = None,
) -> None:
    """Compares results by type; `tolerance` is for those in float32."""
    known = TOLERANCE if tolerance is None else TOLERANCE | {torch.float32: tolerance}
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        rtol, atol = known.get(b.dtype, (0, 0))
        torch.testing.assert_close(
            a, b, rtol=rtol, atol=atol, equal_nan=True,
            msg=lambda m, i=i: f"result {i}: {m}\n{where}",
        )  # fmt: skip


def check_numbers(
    graph: Graph, chip: TpuTarget = V5E, seed: int = 0, tolerance: Tolerance | None = None
) -> Compiled:
    """Gates 1 and 2."""
    inputs = inputs_for(graph, seed)
    want = interp.run(graph, inputs)
    on_cpu = compile_graph(graph, target("cpu")).program
    assert_same(execute(graph, on_cpu, inputs), want, on_cpu.source, tolerance)
    compiled = compile_graph(graph, chip)
    check_program(graph, compiled.program, inputs, want, tolerance)
    return compiled


def check_program(
    graph: Graph,
    program: Program,
    inputs: Sequence[torch.Tensor],
    want: Sequence[torch.Tensor],
    tolerance: Tolerance | None = None,
) -> None:
    """One TPU program against `want`, interpreted plainly and with a TPU's semantics."""
    assert_same(execute(graph, program, inputs), want, program.source, tolerance)
    assert_same(execute_checked(graph, program, inputs), want, program.source, tolerance)


def check_compiles(graph: Graph, chips: Sequence[TpuTarget] = CHIPS) -> None:
    """Gate 3, for each chip with its own schedule."""
    for chip in chips:
        compiled = compile_graph(graph, chip)
        result = compile_program(compiled.program, chip)
        assert result.ok, f"{chip.name}: {result.error}\n{compiled.program.source}"


def check_gates(
    graph: Graph,
    chip: TpuTarget = V5E,
    tolerance: Tolerance | None = None,
    chips: Sequence[TpuTarget] = (),
) -> Compiled:
    """Every gate but text: for `chip`, and the compiler for `chips` (v5e and v6e if empty)."""
    compiled = check_numbers(graph, chip, tolerance=tolerance)
    check_compiles(graph, chips or (chip, *CHIPS[chip.name == "v5e" :]))
    return compiled
