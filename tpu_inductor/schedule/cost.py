"""An estimate of a kernel's time from its schedule: a roofline plus what every grid step costs.

HBM traffic follows from the index maps: the pipeline fetches a block again whenever its index
changes from one grid step to the next. The result ranks candidates; it is not a measurement.
"""

import math
from typing import cast

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.types import Cost, Operand, TileSchedule
from tpu_inductor.schedule.vmem import padded_bytes
from tpu_inductor.target import TpuTarget

STEP_US = 0.35
"""Grid bookkeeping of one step (measured on v5e and v6e by deviceless estimates)."""

DMA_LATENCY_US = 1.0
"""From the start of a copy to its first byte."""

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
    traffic = sum(_traffic(schedule, o, target) for o in (*schedule.inputs, *schedule.outputs))
    mxu, vpu, transcendentals = _work(schedule)
    steps = math.prod(schedule.axis(name).steps for name in schedule.grid)
    hbm_us = traffic / (target.hbm_gbps * 1e3)
    mxu_us = _mxu_us(schedule, mxu, target)
    # The vector unit issues 4 x 1024 lanes a cycle, about 1/32 of the MXUs' FLOP/s.
    vpu_us = (vpu + 8 * transcendentals) / (target.bf16_tflops * 1e6 / 32)
    fill_us = DMA_LATENCY_US + hbm_us / max(steps, 1)
    time_us = max(hbm_us, mxu_us + vpu_us) + steps * STEP_US + fill_us
    return Cost(mxu + vpu, transcendentals, traffic, time_us)


def _traffic(schedule: TileSchedule, operand: Operand, target: TpuTarget) -> int:
    """Padded bytes that cross HBM for one operand."""
    places = [schedule.grid.index(n) for n in schedule.index(operand) if n != "0"]
    innermost = max(places, default=-1)
    fetches = math.prod(schedule.axis(n).steps for n in schedule.grid[: innermost + 1])
    return fetches * padded_bytes(schedule.block(operand), operand.var.type.dtype, target)


def _work(schedule: TileSchedule) -> tuple[int, int, int]:
    """FLOPs on the MXU, on the vector unit, and transcendental functions."""
    mxu = vpu = transcendentals = 0
    for eqn in schedule.eqns:
        kind = PRIMS[eqn.prim].kind
        size = max((v.type.size for v in (*eqn.inputs, *eqn.outputs)), default=0)
        if kind is Kind.DOT:
            lhs = eqn.inputs[0].type
            contracted = math.prod(lhs.dims[d] for d in cast(A.Dot, eqn.attrs).lhs_contract)
            mxu += 2 * eqn.out.type.size * contracted
        elif eqn.prim in TRANSCENDENTAL:
            transcendentals += size
        elif kind in (Kind.POINTWISE, Kind.REDUCE):
            vpu += size
    return mxu, vpu, transcendentals


def _mxu_us(schedule: TileSchedule, flops: int, target: TpuTarget) -> float:
    dots = [e for e in schedule.eqns if PRIMS[e.prim].kind is Kind.DOT]
    if not dots:
        return 0.0
    tiles = {a.name: a.tile for a in schedule.axes}
    # Short blocks leave the systolic array filling and draining.
    used = tiles["m"] / (tiles["m"] + target.mxu_size)
    for name in ("n", "k"):
        used *= tiles[name] / (-(-tiles[name] // target.mxu_size) * target.mxu_size)
    return (
        flops
        * _passes(dots[0].attrs, dots[0].inputs[0].type.dtype)
        / (target.bf16_tflops * 1e6 * used)
    )


def _passes(attrs: A.Attrs, dtype: DType) -> int:
    """bf16 passes of the MXU for one product."""
    if dtype is not DType.F32:
        return 1
    return 1 if cast(A.Dot, attrs).precision == "default" else 6
