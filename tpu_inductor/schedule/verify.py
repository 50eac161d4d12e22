"""Checks a schedule against the laws of Pallas on a TPU. A violation is a bug of ours."""

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.arrays import Form, Operand
from tpu_inductor.schedule.assign import Scheduled
from tpu_inductor.schedule.blocks import can_read_part, flaw_of_block
from tpu_inductor.schedule.nest import How, Loop, folds_of, walk
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.schedule.verify_nest import verify_nest
from tpu_inductor.target import TpuTarget


def verify_schedules(scheduled: Scheduled, target: TpuTarget) -> None:
    """Raises InvalidIR if a schedule breaks a law of its target."""
    for schedule in scheduled.schedules.values():
        _verify_loops(schedule)
        for operand in (*schedule.inputs, *schedule.outputs):
            _verify_block(schedule, operand, target)
            if operand.form is Form.WHOLE_VECTOR:
                _verify_part(schedule, operand, target)
        _verify_scratch(schedule, target)
        for operand in schedule.outputs:
            _verify_written_once(schedule, operand)
        if schedule.vmem_bytes > target.vmem_limit_bytes:
            raise InvalidIR(f"{schedule.region.name} exceeds the VMEM of {target.name}")
        verify_nest(schedule)


def _verify_loops(schedule: TileSchedule) -> None:
    """Axes in blocks are loops of the grid, those that are added up its innermost ones."""
    name = schedule.region.name
    for axis in schedule.axes:
        in_grid = axis.name in schedule.grid
        if in_grid == axis.is_whole:
            raise InvalidIR(f"axis {axis.name} of {name}: {axis.blocks} blocks against the grid")
        if axis.tile % axis.extent:
            raise InvalidIR(f"axis {axis.name} of {name} cannot go by chunks of {axis.chunk}")
        if axis.name in schedule.folded and not axis.is_reduced:
            raise InvalidIR(f"axis {axis.name} of {name} accumulates nothing")
        if in_grid and axis.is_reduced and axis.name not in schedule.folded:
            raise InvalidIR(f"axis {axis.name} of {name} is reduced without a carry")
    inner = {n for f in folds_of(schedule.nest) for n in walk(f.each)}
    for loop in (n for n in walk(schedule.nest) if isinstance(n, Loop)):
        axis = schedule.axis(loop.axis)
        if loop.how is How.LOOP and axis.is_reduced != (loop in inner):
            raise InvalidIR(f"axis {axis.name} of {name} cannot go by chunks beside a fold")
        if loop.unroll > 1 and axis.turns % loop.unroll:
            raise InvalidIR(f"axis {axis.name} of {name} cannot be unrolled by {loop.unroll}")
        if axis.turns % loop.stride:
            raise InvalidIR(f"axis {axis.name} of {name} cannot go by {loop.stride} chunks")


def _verify_block(schedule: TileSchedule, operand: Operand, target: TpuTarget) -> None:
    block, dtype = schedule.block(operand), stored_dtype(operand.var.type)
    flaw = flaw_of_block(block, schedule.array(operand), dtype, target)
    if flaw:
        raise InvalidIR(
            f"{schedule.region.name}: block {block} of {operand.var} {operand.var.type} {flaw}"
        )


def _verify_part(schedule: TileSchedule, operand: Operand, target: TpuTarget) -> None:
    """The part of a whole vector that the body reads is aligned, and nobody writes one."""
    axis, dtype = schedule.axis(operand.places[-1].axis), stored_dtype(operand.var.type)
    if operand in schedule.outputs or not can_read_part(axis, dtype, target):
        raise InvalidIR(
            f"{schedule.region.name}: {axis.tile} of {operand.var} {operand.var.type} cannot be "
            "part of a whole vector"
        )


def _verify_scratch(schedule: TileSchedule, target: TpuTarget) -> None:
    for carry in schedule.carries:
        flaw = flaw_of_block(carry.shape, carry.shape, carry.dtype, target)
        if flaw or carry.dtype is DType.BOOL:
            raise InvalidIR(
                f"{schedule.region.name}: scratch {carry.dtype.short}{list(carry.shape)} "
                f"{flaw or 'has no single bits'}"
            )


def _verify_written_once(schedule: TileSchedule, operand: Operand) -> None:
    """A result that lacks a parallel grid axis would be written at every point of it."""
    for name in schedule.grid:
        if name not in schedule.folded and name not in operand.present:
            raise InvalidIR(f"{schedule.region.name}: {operand.var} is written again along {name}")
