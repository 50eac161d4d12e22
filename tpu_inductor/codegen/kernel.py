"""Prints one schedule as a Pallas kernel and the function that launches it.

The launching function takes and returns arrays of the graph's own shapes. It is jitted, so that
layers with equal kernels trace and compile it once.
"""

from dataclasses import dataclass

from tpu_inductor.codegen.expr_literal import dtype_text
from tpu_inductor.codegen.kernel_body import print_body
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.arrays import Operand
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.schedule.types import TileSchedule

NAME = "KERNEL"
"""Stands for the kernel's name until equal texts have been found."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The text of a kernel and its launcher, named by `NAME`."""

    text: str

    def named(self, name: str) -> str:
        return self.text.replace(NAME, name)


def print_kernel(schedule: TileSchedule) -> Kernel:
    """The module-level text of one kernel."""
    body = print_body(schedule)
    params = ", ".join((*body.inputs, *body.outputs, *body.scratch))
    lines = [f"def {NAME}_kernel({params}):"]
    lines += [f"    {line}" if line else "" for line in body.lines]
    lines += ["", "", '@functools.partial(jax.jit, static_argnames=("interpret",))']
    args = [ref.removesuffix("_ref") for ref in body.inputs]
    lines += [f"def {NAME}({', '.join([*args, '*', 'interpret=False'])}):"]
    lines += [f"    {line}" for line in _launch(schedule, args)]
    return Kernel("\n".join(lines) + "\n")


def _launch(schedule: TileSchedule, args: list[str]) -> list[str]:
    """The body of the launching function."""
    operands = [_to_array(schedule, o, name) for o, name in zip(schedule.inputs, args, strict=True)]
    call = ["with jax.enable_x64(False):", "    results = pl.pallas_call("]
    call += [f"        {line}" for line in (f"{NAME}_kernel,", *_settings(schedule))]
    call += [f"    )({', '.join(operands)})"]
    back = [_from_array(schedule, o, f"results[{i}]") for i, o in enumerate(schedule.outputs)]
    return [*call, f"return ({', '.join(back)},)"]


def _settings(schedule: TileSchedule) -> list[str]:
    """The keyword arguments of `pallas_call`, one a line."""
    lines: list[str] = []
    if schedule.grid:
        lines += [f"grid={tuple(schedule.axis(n).blocks for n in schedule.grid)},"]
        lines += _specs("in_specs", schedule, schedule.inputs)
        lines += _specs("out_specs", schedule, schedule.outputs)
    lines += ["out_shape=["]
    for o in schedule.outputs:
        dtype = dtype_text(stored_dtype(o.var.type))
        lines += [f"    jax.ShapeDtypeStruct({schedule.array(o)}, {dtype}),"]
    lines += ["],"]
    if schedule.carries:
        scratch = (f"pltpu.VMEM({c.shape}, {dtype_text(c.dtype)})" for c in schedule.carries)
        lines += [f"scratch_shapes=[{', '.join(scratch)}],"]
    if schedule.vmem_limit_bytes:
        lines += _compiler_settings(schedule)
    return [*lines, "interpret=interpret,"]


def _compiler_settings(schedule: TileSchedule) -> list[str]:
    semantics = tuple("arbitrary" if n in schedule.folded else "parallel" for n in schedule.grid)
    cost = schedule.cost
    return [
        "compiler_params=pltpu.CompilerParams(",
        *([f"    dimension_semantics={semantics},"] if semantics else []),
        f"    vmem_limit_bytes={schedule.vmem_limit_bytes},",
        "),",
        "cost_estimate=pl.CostEstimate(",
        f"    flops={cost.flops},",
        f"    transcendentals={cost.transcendentals},",
        f"    bytes_accessed={cost.hbm_bytes},",
        "),",
    ]


def _specs(keyword: str, schedule: TileSchedule, operands: tuple[Operand, ...]) -> list[str]:
    grid = ", ".join(schedule.grid)
    lines = [f"{keyword}=["]
    for operand in operands:
        index = schedule.index(operand)
        place = ", ".join(index) + ("," if len(index) == 1 else "")
        lines += [f"    pl.BlockSpec({schedule.block(operand)}, lambda {grid}: ({place})),"]
    return [*lines, "],"]


def _to_array(schedule: TileSchedule, operand: Operand, name: str) -> str:
    """The expression that turns the graph's array into the kernel's."""
    text, shape = name, operand.var.type.dims
    if operand.var.type.dtype is DType.BOOL:
        text = f"{text}.astype({dtype_text(stored_dtype(operand.var.type))})"
    if operand.perm != tuple(range(len(operand.perm))):
        text = _reshaped(text, shape, operand.stored)
        text = f"jnp.transpose({text}, {operand.perm})"
        shape = tuple(operand.stored[p] for p in operand.perm)
    return _reshaped(text, shape, schedule.array(operand))


def _from_array(schedule: TileSchedule, operand: Operand, name: str) -> str:
    """The expression that turns the kernel's result into the graph's array."""
    text, shape = name, schedule.array(operand)
    if operand.perm != tuple(range(len(operand.perm))):
        text = _reshaped(text, shape, tuple(operand.stored[p] for p in operand.perm))
        inverse = tuple(operand.perm.index(i) for i in range(len(operand.perm)))
        text, shape = f"jnp.transpose({text}, {inverse})", operand.stored
    text = _reshaped(text, shape, operand.var.type.dims)
    return f"{text} != 0" if operand.var.type.dtype is DType.BOOL else text


def _reshaped(text: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    return text if shape == wanted else f"jnp.reshape({text}, {wanted})"
