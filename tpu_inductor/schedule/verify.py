"""Checks a schedule against the laws of Pallas on a TPU. A violation is a bug of ours."""

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.assign import Scheduled
from tpu_inductor.schedule.blocks import can_read_part, flaw_of_block
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.schedule.types import Form, Operand, Role, TileSchedule
from tpu_inductor.target import TpuTarget


def verify_schedules(scheduled: Scheduled, target: TpuTarget) -> None:
    """Raises InvalidIR if a schedule breaks a law of its target."""
    for schedule in scheduled.schedules.values():
        _verify_axes(schedule)
        for operand in (*schedule.inputs, *schedule.outputs):
            _verify_block(schedule, operand, target)
            if operand.form is Form.WHOLE_VECTOR:
                _verify_part(schedule, operand, target)
        _verify_scratch(schedule, target)
        for operand in schedule.outputs:
            _verify_written_once(schedule, operand)
        if schedule.vmem_bytes > target.vmem_limit_bytes:
            raise InvalidIR(f"{schedule.region.name} exceeds the VMEM of {target.name}")


def _verify_axes(schedule: TileSchedule) -> None:
    for axis in schedule.axes:
        in_grid = axis.name in schedule.grid
        if in_grid != (axis.role is not Role.WHOLE):
            raise InvalidIR(f"axis {axis} of {schedule.region.name}: role against grid")
        if axis.role is Role.WHOLE and axis.tile != axis.size:
            raise InvalidIR(f"axis {axis} of {schedule.region.name} is not whole")
        gathers = bool(schedule.accumulators) or axis.is_reduced
        if axis.chunk and (axis.tile % axis.chunk or gathers != (axis.role is Role.ARBITRARY)):
            raise InvalidIR(f"axis {axis} of {schedule.region.name} cannot go by chunks")
        if axis.unroll > 1 and (not axis.chunk or axis.tile // axis.chunk % axis.unroll):
            raise InvalidIR(f"axis {axis} of {schedule.region.name} cannot be unrolled")
        if axis.role is Role.ARBITRARY and not axis.is_reduced:
            raise InvalidIR(f"axis {axis} of {schedule.region.name} accumulates nothing")
    roles = [schedule.axis(n).role for n in schedule.grid]
    if roles != sorted(roles, key=lambda r: r is Role.ARBITRARY):
        raise InvalidIR(f"{schedule.region.name}: a parallel axis inside an accumulation")


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
    for acc in schedule.accumulators:
        flaw = flaw_of_block(acc.shape, acc.shape, acc.dtype, target)
        if flaw or acc.dtype is DType.BOOL:
            raise InvalidIR(
                f"{schedule.region.name}: scratch {acc.dtype.short}{list(acc.shape)} "
                f"{flaw or 'has no single bits'}"
            )


def _verify_written_once(schedule: TileSchedule, operand: Operand) -> None:
    """A result that lacks a parallel grid axis would be written by every step of it."""
    present = {p.axis for p in operand.places if p.is_present}
    for name in schedule.grid:
        if schedule.axis(name).role is Role.PARALLEL and name not in present:
            raise InvalidIR(f"{schedule.region.name}: {operand.var} is written again along {name}")
