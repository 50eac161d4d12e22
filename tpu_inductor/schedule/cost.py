"""An estimate of a kernel's time from its schedule, for choosing among schedules.

Bytes follow from the index maps: the pipeline fetches a block again whenever its index changes from
one grid point to the next. `compute` says how long a point computes, `overlap` what that hides of
the copies. The result is an estimate, never a measurement.
"""

import math
from typing import cast

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.schedule.arrays import Operand
from tpu_inductor.schedule.blocks import is_copied
from tpu_inductor.schedule.compute import grid_points, point_cycles
from tpu_inductor.schedule.overlap import Stream, pipelined_us
from tpu_inductor.schedule.rates import ROW_COPY_US
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.schedule.types import Cost, TileSchedule
from tpu_inductor.schedule.vmem import padded_bytes
from tpu_inductor.target import TpuTarget

TRANSCENDENTAL = frozenset(
    [
        "exp",
        "exp2",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "tanh",
        "erf",
        "logistic",
        "pow",
        "sqrt",
        "rsqrt",
    ]
)


def estimate(schedule: TileSchedule, target: TpuTarget) -> Cost:
    """FLOPs, bytes and microseconds of one launch."""
    flops, transcendentals = _work(schedule)
    operands = (*schedule.inputs, *schedule.outputs)
    traffic = sum(_fetches(schedule, o) * _block_bytes(schedule, o, target) for o in operands)
    if not target.is_tpu:
        return Cost(flops, transcendentals, traffic, traffic / (target.hbm_gbps * 1e3))
    points = -(-grid_points(schedule) // _cores(schedule, target))
    point_us = point_cycles(schedule, target) / target.clock_mhz
    streams = [_stream(schedule, o, target) for o in operands]
    copied_us = ROW_COPY_US * sum(is_copied(o, target) for o in operands)
    time_us = pipelined_us(points, point_us, streams) + copied_us
    return Cost(flops, transcendentals, traffic, time_us)


def _cores(schedule: TileSchedule, target: TpuTarget) -> int:
    """TensorCores that share the grid: its first parallel axis is dealt out to them."""
    parallel = [n for n in schedule.grid if n not in schedule.folded]
    shared = any(schedule.axis(n).blocks >= target.cores for n in parallel)
    return target.cores if shared else 1


def _stream(schedule: TileSchedule, operand: Operand, target: TpuTarget) -> Stream:
    copy_us = _block_bytes(schedule, operand, target) / (target.hbm_gbps * 1e3)
    return Stream(copy_us, _period(schedule, operand), operand in schedule.outputs)


def _innermost(schedule: TileSchedule, operand: Operand) -> int:
    """The place in the grid of the innermost axis that moves the operand's block; -1 for none."""
    moving = set(schedule.index(operand))
    places = [i for i, n in enumerate(schedule.grid) if n in moving and schedule.axis(n).blocks > 1]
    return max(places, default=-1)


def _period(schedule: TileSchedule, operand: Operand) -> int:
    """Grid points between two blocks of an operand; 0 where there is one block."""
    innermost = _innermost(schedule, operand)
    if innermost < 0:
        return 0
    return math.prod(schedule.axis(n).blocks for n in schedule.grid[innermost + 1 :])


def _fetches(schedule: TileSchedule, operand: Operand) -> int:
    innermost = _innermost(schedule, operand)
    return math.prod(schedule.axis(n).blocks for n in schedule.grid[: innermost + 1])


def _block_bytes(schedule: TileSchedule, operand: Operand, target: TpuTarget) -> int:
    """Padded bytes of a block; a block beyond the end of an axis is copied in part."""
    axes = [schedule.axis(name) for name in operand.present]
    share = math.prod(a.size / (a.blocks * a.tile) for a in axes)
    dtype = stored_dtype(operand.var.type)
    return round(share * padded_bytes(schedule.block(operand), dtype, target))


def _work(schedule: TileSchedule) -> tuple[int, int]:
    """FLOPs of the MXU and the vector unit, and transcendental functions."""
    flops = transcendentals = 0
    for eqn in schedule.eqns:
        kind = PRIMS[eqn.prim].kind
        size = max((v.type.size for v in (*eqn.inputs, *eqn.outputs)), default=0)
        if kind is Kind.DOT:
            lhs = eqn.inputs[0].type
            contracted = math.prod(lhs.dims[d] for d in cast(A.Dot, eqn.attrs).lhs_contract)
            flops += 2 * eqn.out.type.size * contracted
        elif eqn.prim in TRANSCENDENTAL:
            transcendentals += size
        elif kind in (Kind.POINTWISE, Kind.REDUCE):
            flops += size
    return flops, transcendentals
