"""Cycles that a TensorCore computes for in one grid step of a schedule."""

import math
from collections.abc import Iterable, Sequence

from tpu_inductor.graph.core import Eqn, Lit
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import Dims, Factoring
from tpu_inductor.schedule.precision import passes
from tpu_inductor.schedule.rates import (
    CHUNK_CYCLES,
    LOAD_CYCLES,
    PUSH_CYCLES,
    SIMPLE,
    STEP_CYCLES,
    STORE_CYCLES,
    matmul_rates,
    primitive_cycles,
)
from tpu_inductor.schedule.types import Role, TileSchedule
from tpu_inductor.schedule.vmem import dims_block, padded_bytes
from tpu_inductor.target import TpuTarget

REGISTER_BYTES = 4096


def step_cycles(schedule: TileSchedule, target: TpuTarget) -> float:
    """Cycles of one grid step; an epilogue after the last of several is spread over them."""
    turns = _turns(schedule)
    beside = _every_block(schedule, target) + _transfers(schedule, target)
    after = _last_block(schedule, target)
    fixed = STEP_CYCLES + (turns - 1) * CHUNK_CYCLES
    dots = [e for e in schedule.eqns if PRIMS[e.prim].kind is Kind.DOT]
    if not dots:
        return fixed + beside + after
    rates = matmul_rates(target)
    gathered = sum(_registers(a.shape, target) for a in schedule.accumulators)
    product = turns * (_product(schedule, dots[0], target) + rates.fill)
    exposed = rates.exposed / (schedule.loop.unroll if schedule.loop else 1)
    return fixed + product + rates.accumulate * gathered + exposed * beside + after


def vector_cycles(schedule: TileSchedule, target: TpuTarget) -> float:
    """Cycles of the vector unit in one grid step."""
    both = _every_block(schedule, target) + _last_block(schedule, target)
    return both + _transfers(schedule, target)


def _every_block(schedule: TileSchedule, target: TpuTarget) -> float:
    return _turns(schedule) * _vector(schedule, schedule.body, target)


def _last_block(schedule: TileSchedule, target: TpuTarget) -> float:
    """The epilogue's share of a step: it follows the last block, and no product hides it."""
    gathering = math.prod(a.steps for a in schedule.axes if a.role is Role.ARBITRARY)
    return _vector(schedule, schedule.epilogue, target) / gathering


def _turns(schedule: TileSchedule) -> int:
    """Turns of the loop over a block."""
    loop = schedule.loop
    return loop.tile // loop.chunk if loop else 1


def _vector(schedule: TileSchedule, members: Iterable[int], target: TpuTarget) -> float:
    """Cycles of the vector unit for some equations, once over what is worked on at once."""
    return sum(_equation(schedule, index, target) for index in members)


def _equation(schedule: TileSchedule, index: int, target: TpuTarget) -> float:
    factoring = schedule.region.factoring
    assert factoring is not None
    eqn = schedule.eqns[index]
    if PRIMS[eqn.prim].kind not in (Kind.POINTWISE, Kind.REDUCE) and eqn.prim != "iota":
        return 0.0
    sizes = [
        _extent(schedule, factoring, factoring.of(schedule.eqns, index, slot), target)
        for slot, value in enumerate(eqn.inputs)
        if not isinstance(value, Lit)
    ]
    size = max([*sizes, _extent(schedule, factoring, factoring.values[eqn.out], target)])
    cycles = primitive_cycles(eqn.prim, target)
    if eqn.prim == "div" and _is_shared(schedule, index):
        cycles = SIMPLE
    return cycles * size


def _is_shared(schedule: TileSchedule, index: int) -> bool:
    """Whether whole rows are divided by one number: its reciprocal is then taken once."""
    divisor = schedule.eqns[index].inputs[1]
    makers = {v: e for e in schedule.eqns for v in e.outputs}
    maker = None if isinstance(divisor, Lit) else makers.get(divisor)
    return isinstance(divisor, Lit) or (maker is not None and maker.prim == "broadcast")


def _extent(schedule: TileSchedule, factoring: Factoring, dims: Dims, target: TpuTarget) -> float:
    return _registers(dims_block(dims, factoring, schedule.axes), target)


def _registers(shape: Sequence[int | None], target: TpuTarget) -> float:
    """Vector registers of a value: arithmetic is in 32 bits whatever lies in memory."""
    return padded_bytes(shape, DType.F32, target) / REGISTER_BYTES


def _transfers(schedule: TileSchedule, target: TpuTarget) -> float:
    """Loads and stores of all blocks."""
    loaded = sum(_registers(schedule.block(o), target) for o in schedule.inputs)
    stored = sum(_registers(schedule.block(o), target) for o in schedule.outputs)
    return LOAD_CYCLES * loaded + STORE_CYCLES * stored


def _product(schedule: TileSchedule, eqn: Eqn, target: TpuTarget) -> float:
    """Cycles of the systolic arrays for one product of what is worked on at once."""
    m, n, k = (schedule.axis(name).extent for name in "mnk")
    edge = target.mxu_size
    weights = -(-n // edge) * edge * -(-k // edge) * edge
    streaming = 2 * m * weights / _flops_per_cycle(target)
    # Short blocks wait for the weights to be pushed into the arrays.
    pushing = weights * 2 / REGISTER_BYTES * PUSH_CYCLES / target.mxus
    return max(streaming, pushing) * passes(eqn)


def ideal_product_cycles(schedule: TileSchedule, eqn: Eqn, target: TpuTarget) -> float:
    """Cycles of the systolic arrays for the whole product at their peak, which full arrays have."""
    edge = target.mxu_size
    sizes = [-(-a.size // edge) * edge if a.name in "nk" else a.size for a in schedule.axes]
    products = math.prod(sizes)
    return 2 * products * passes(eqn) / _flops_per_cycle(target)


def _flops_per_cycle(target: TpuTarget) -> float:
    return target.bf16_tflops * 1e6 / target.clock_mhz
