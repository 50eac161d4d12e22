"""What XLA's own code for a region would take: a roofline, for comparing a kernel with it.

XLA fuses what is pointwise and one reduction into one pass over the operands. Where a row's
statistic is needed along the row again, it reads the row again, once for every statistic that
depends on another: twice for a softmax or a layer norm.
"""

from tpu_inductor.graph.core import Var
from tpu_inductor.graph.prims import ARG_REDUCE, PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import flat
from tpu_inductor.schedule.compute import grid_points, ideal_product_cycles, vector_cycles
from tpu_inductor.schedule.nest import Compute, product_of
from tpu_inductor.schedule.rates import DMA_LATENCY_US, matmul_rates
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget

LAUNCH_US = 3 * DMA_LATENCY_US
"""The first and the last copy, and what lies between two operations of a program."""

PRODUCT = 1.03
"""XLA's matmuls compute for this much longer than the peak of the arrays would take."""

RAGGED = 1.25
"""And for this much longer where an extent is no multiple of the arrays' edge."""

UNHIDDEN = 0.33
"""The part of a matmul's copies that XLA does not hide behind its products."""

SCORES = 4
"""How often XLA moves what one product makes for another: it writes and reads a softmax's steps."""

SEARCH = 6.2
SEARCH_6 = 4.1
"""Cycles of XLA's argmax for each register it reads, the second from v6e on. It uses one core."""


def xla_us(schedule: TileSchedule, target: TpuTarget) -> float:
    """Estimated microseconds of XLA's code for the region of `schedule`; a lower bound, rather."""
    region = schedule.region
    rate = target.hbm_gbps * target.cores * 1e3
    read = sum(v.type.nbytes for v in region.inputs)
    written = sum(v.type.nbytes for v in region.outputs)
    memory_us = (read * _passes(schedule) + written) / rate
    vector = _vector_cycles(schedule, target)
    clock = target.clock_mhz * target.cores
    if not schedule.products:
        return max(memory_us, vector / clock) + LAUNCH_US
    memory_us += SCORES * _scores_bytes(schedule) / rate
    product = sum(_product_cycles(schedule, dot, target) for dot in schedule.products)
    product_us = (product + matmul_rates(target).exposed * vector) / clock
    hidden = (1 - UNHIDDEN) * min(memory_us, product_us)
    return memory_us + product_us - hidden + LAUNCH_US


def _scores_bytes(schedule: TileSchedule) -> int:
    """Bytes of what contractions make for other equations of the kernel that end its axes."""
    region = schedule.region
    made = (e.out for e in schedule.eqns if PRIMS[e.prim].kind is Kind.DOT)
    ended = schedule.factoring.reduced | schedule.factoring.contracted
    return sum(
        v.type.nbytes
        for v in made
        if v not in region.outputs and flat(schedule.factoring.values[v]) & ended
    )


def _product_cycles(schedule: TileSchedule, dot: Compute, target: TpuTarget) -> float:
    cycles = PRODUCT * ideal_product_cycles(schedule, dot, target)
    axes = product_of(dot)
    is_ragged = any(
        schedule.axis(name).size % target.mxu_size for name in (*axes.columns, *axes.contracted)
    )
    return cycles * RAGGED if is_ragged else cycles


def _vector_cycles(schedule: TileSchedule, target: TpuTarget) -> float:
    """Of all cores together."""
    searched = sum(e.operands[0].type.size for e in schedule.eqns if e.prim in ARG_REDUCE)
    search = SEARCH_6 if target.generation >= 6 else SEARCH
    registers = searched / (target.lanes * target.sublanes(DType.F32))
    return max(
        grid_points(schedule) * vector_cycles(schedule, target), target.cores * search * registers
    )


def _passes(schedule: TileSchedule) -> int:
    """How often XLA reads the operands."""
    depth: dict[Var, int] = {}
    for eqn in schedule.eqns:
        behind = max((depth.get(v, 0) for v in eqn.operands), default=0)
        depth[eqn.outputs[0]] = behind + (PRIMS[eqn.prim].kind is Kind.REDUCE)
    return max(1, max((depth.get(v, 0) for v in schedule.region.outputs), default=1))
