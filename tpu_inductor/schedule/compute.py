"""Cycles that a TensorCore computes for in one grid point of a schedule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tpu_inductor.graph.core import Eqn, Lit
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.schedule.nest import (
    Compute,
    Fold,
    How,
    Interleave,
    Loop,
    Nest,
    Node,
    product_of,
    walk,
)
from tpu_inductor.schedule.precision import passes
from tpu_inductor.schedule.rates import (
    CHUNK_CYCLES,
    LOAD_CYCLES,
    POINT_CYCLES,
    PUSH_CYCLES,
    SIMPLE,
    STORE_CYCLES,
    matmul_rates,
    primitive_cycles,
)
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.schedule.vmem import padded_bytes, read_block, value_block
from tpu_inductor.target import TpuTarget

REGISTER_BYTES = 4096

FILL_CYCLES = 350
"""Of interleaved places, before the second begins and after the last but one ends."""

INTERLEAVED = 0.1
"""The part of the shorter one of products and vector work that interleaving does not hide."""


@dataclass(frozen=True, slots=True)
class Work:
    """Cycles of a nest in one grid point.

    `product` are those of the systolic arrays, `beside` of the vector unit in every block, which
    products may hide, `after` its share of what follows the last block. `fixed` is bookkeeping.
    """

    product: float = 0.0
    beside: float = 0.0
    after: float = 0.0
    fixed: float = 0.0
    fill: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.product + other.product,
            self.beside + other.beside,
            self.after + other.after,
            self.fixed + other.fixed,
            self.fill + other.fill,
        )

    def times(self, n: float) -> "Work":
        parts = (self.product, self.beside, self.after, self.fixed, self.fill)
        return Work(*(n * part for part in parts))


def point_cycles(schedule: TileSchedule, target: TpuTarget) -> float:
    """Cycles of one grid point; what follows the last of several is spread over them."""
    work = _nest(schedule, schedule.nest, target)
    beside = work.beside + _transfers(schedule, target)
    if not work.product:
        return POINT_CYCLES + work.fixed + beside + work.after
    if any(isinstance(n, Interleave) for n in walk(schedule.nest)):
        longer, shorter = max(work.product, beside), min(work.product, beside)
        return POINT_CYCLES + work.fixed + longer + INTERLEAVED * shorter + work.after
    rates = matmul_rates(target)
    gathered = sum(_registers(c.shape, target) for c in schedule.carries)
    exposed = rates.exposed / max(
        (n.unroll for n in walk(schedule.nest) if isinstance(n, Loop)), default=1
    )
    product = work.product + work.fill + rates.accumulate * gathered
    return POINT_CYCLES + work.fixed + product + exposed * beside + work.after


def vector_cycles(schedule: TileSchedule, target: TpuTarget) -> float:
    """Cycles of the vector unit in one grid point."""
    work = _nest(schedule, schedule.nest, target)
    return work.beside + work.after + _transfers(schedule, target)


def grid_points(schedule: TileSchedule) -> int:
    """Points of the grid."""
    return math.prod(schedule.axis(name).blocks for name in schedule.grid)


def _nest(schedule: TileSchedule, nest: Nest, target: TpuTarget) -> Work:
    return sum((_node(schedule, node, target) for node in nest), Work())


def _node(schedule: TileSchedule, node: Node, target: TpuTarget) -> Work:
    if isinstance(node, Compute):
        return _compute(schedule, node, target)
    if isinstance(node, Interleave):
        body = _nest(schedule, node.body, target)
        places = body.times(math.prod(count for _, count in node.axes))
        return places + Work(fixed=FILL_CYCLES if node.ahead else 0.0)
    if isinstance(node, Fold):
        each, last = (_nest(schedule, n, target) for n in (node.each, node.last))
        gathering = math.prod(schedule.axis(name).blocks for name in node.axes)
        return each + Work(after=last.beside / gathering)
    if isinstance(node, Loop):
        body = _nest(schedule, node.body, target)
        turns = 1.0 if node.how is How.GRID else schedule.axis(node.axis).turns / node.stride
        turns = turns if node.span is None else node.span.mean / node.stride
        return body.times(turns) + Work(fixed=max(turns - 1, 0) * CHUNK_CYCLES)
    return Work()


def _compute(schedule: TileSchedule, node: Compute, target: TpuTarget) -> Work:
    """One equation, once over what is worked on at once."""
    eqn = schedule.eqns[node.eqn]
    kind = PRIMS[eqn.prim].kind
    if kind is Kind.DOT:
        return Work(product=_product(schedule, node, target), fill=matmul_rates(target).fill)
    if kind not in (Kind.POINTWISE, Kind.REDUCE) and eqn.prim != "iota":
        return Work()
    sizes = [
        _registers(read_block(schedule, node, slot), target)
        for slot, value in enumerate(eqn.inputs)
        if not isinstance(value, Lit)
    ]
    size = max([*sizes, _registers(value_block(schedule, eqn.out, node.order), target)])
    cycles = primitive_cycles(eqn.prim, target)
    if eqn.prim == "div" and _is_shared(schedule, eqn):
        cycles = SIMPLE
    return Work(beside=cycles * size)


def _is_shared(schedule: TileSchedule, eqn: Eqn) -> bool:
    """Whether whole rows are divided by one number: its reciprocal is then taken once."""
    divisor = eqn.inputs[1]
    makers = {v: e for e in schedule.eqns for v in e.outputs}
    maker = None if isinstance(divisor, Lit) else makers.get(divisor)
    return isinstance(divisor, Lit) or (maker is not None and maker.prim == "broadcast")


def _registers(shape: Sequence[int | None], target: TpuTarget) -> float:
    """Vector registers of a value: arithmetic is in 32 bits whatever lies in memory."""
    return padded_bytes(shape, DType.F32, target) / REGISTER_BYTES


def _transfers(schedule: TileSchedule, target: TpuTarget) -> float:
    """Loads and stores of all blocks."""
    loaded = sum(_registers(schedule.block(o), target) for o in schedule.inputs)
    stored = sum(_registers(schedule.block(o), target) for o in schedule.outputs)
    return LOAD_CYCLES * loaded + STORE_CYCLES * stored


def _product(schedule: TileSchedule, node: Compute, target: TpuTarget) -> float:
    """Cycles of the systolic arrays for one product of what is worked on at once."""
    axes = product_of(node)
    m, n, k = (
        math.prod(schedule.axis(name).extent for name in names)
        for names in (axes.rows, axes.columns, axes.contracted)
    )
    edge = target.mxu_size
    weights = -(-n // edge) * edge * -(-k // edge) * edge
    streaming = 2 * m * weights / _flops_per_cycle(target)
    # Short blocks wait for the weights to be pushed into the arrays.
    pushing = weights * 2 / REGISTER_BYTES * PUSH_CYCLES / target.mxus
    return max(streaming, pushing) * passes(schedule.eqns[node.eqn])


def ideal_product_cycles(schedule: TileSchedule, node: Compute, target: TpuTarget) -> float:
    """Cycles of the systolic arrays for the whole product at their peak, which full arrays have."""
    edge, axes = target.mxu_size, product_of(node)
    padded = (*axes.columns, *axes.contracted)
    sizes = [
        -(-a.size // edge) * edge if a.name in padded else a.size
        for a in map(schedule.axis, {*node.order, *axes.contracted})
    ]
    products = math.prod(sizes)
    return 2 * products * passes(schedule.eqns[node.eqn]) / _flops_per_cycle(target)


def _flops_per_cycle(target: TpuTarget) -> float:
    return target.bf16_tflops * 1e6 / target.clock_mhz
