"""How much VMEM a schedule takes: blocks, carries and temporaries, in padded register tiles.

Every block is counted twice, since the pipeline fetches the next one while this one is in use.
"""

import math
from collections.abc import Sequence

from tpu_inductor.graph.core import Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import Dims, flat
from tpu_inductor.schedule.arrays import Order
from tpu_inductor.schedule.nest import Compute, computes_of
from tpu_inductor.schedule.precision import passes
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.target import TpuTarget


def padded_bytes(block: Sequence[int | None], dtype: DType, target: TpuTarget) -> int:
    """Bytes of one block in VMEM: lanes fill 128 columns, sublanes a packed tile.

    A vector fills registers of 1024.
    """
    extents = [n for n in block if n is not None]
    if len(block) == 1:
        return _round_up(extents[0], target.lanes * target.sublanes(DType.F32)) * dtype.itemsize
    while len(extents) < 2:
        extents.insert(0, 1)
    *leading, rows, cols = extents
    rows = _round_up(rows, target.sublanes(dtype))
    cols = _round_up(cols, target.lanes)
    return math.prod(leading) * rows * cols * dtype.itemsize


def vmem_bytes(schedule: TileSchedule, target: TpuTarget) -> int:
    """VMEM of one kernel, as far as its schedule tells."""
    pipelined = sum(
        2 * padded_bytes(schedule.block(o), stored_dtype(o.var.type), target)
        for o in (*schedule.inputs, *schedule.outputs)
    )
    scratch = sum(padded_bytes(c.shape, c.dtype, target) for c in schedule.carries)
    return pipelined + scratch + _temporaries(schedule, target) + _parts(schedule, target)


def _temporaries(schedule: TileSchedule, target: TpuTarget) -> int:
    """The most bytes of computed values that are alive at once, in the order of the nest."""
    computed = tuple(computes_of(schedule.nest))
    last = {v: i for i, node in enumerate(computed) for v in schedule.eqns[node.eqn].operands}
    alive: dict[Var, int] = {}
    peak = 0
    for i, node in enumerate(computed):
        eqn = schedule.eqns[node.eqn]
        if PRIMS[eqn.prim].kind in (Kind.VIEW, Kind.CREATE):
            continue
        for out in eqn.outputs:
            block = value_block(schedule, out, node.order)
            alive[out] = padded_bytes(block, out.type.dtype, target)
        peak = max(peak, sum(alive.values()))
        alive = {v: n for v, n in alive.items() if last.get(v, i) > i}
    return peak


def _parts(schedule: TileSchedule, target: TpuTarget) -> int:
    """What Mosaic splits the operands of an exact float32 product into, before it multiplies.

    Measured: the high and low parts in bf16 on v4, and as much as two copies in float32 later.
    """
    copies = 1 if target.generation == 4 else 2
    return sum(
        copies * padded_bytes(read_block(schedule, node, slot), DType.F32, target)
        for node in schedule.products
        if passes(schedule.eqns[node.eqn]) > 1
        for slot in (0, 1)
    )


def value_block(schedule: TileSchedule, var: Var, order: Order) -> tuple[int, ...]:
    """The extents of a value of the region inside the kernel, in an order of axes."""
    return _dims_block(schedule, schedule.factoring.values[var], order)


def read_block(schedule: TileSchedule, node: Compute, slot: int) -> tuple[int, ...]:
    """The extents of operand `slot` of what `node` computes."""
    dims = schedule.factoring.of(schedule.eqns, node.eqn, slot)
    return _dims_block(schedule, dims, node.reads[slot])


def _dims_block(schedule: TileSchedule, dims: Dims, order: Order) -> tuple[int, ...]:
    factors = flat(dims)
    axes = (schedule.axis(name) for name in order)
    return tuple(
        a.extent if not a.factors or not factors.isdisjoint(a.factors) else 1
        for a in axes
        if not a.is_squeezed
    )


def limit_for(estimate: int, target: TpuTarget) -> int:
    """The limit to hand to the compiler: the estimate with room for its own spills; 0 for none."""
    if not target.is_tpu:
        return 0
    roomy = max(2 * estimate, 32 << 20)
    return min(roomy, target.vmem_limit_bytes + (target.vmem_bytes - target.vmem_limit_bytes) // 2)


def _round_up(n: int, to: int) -> int:
    return -(-n // to) * to
