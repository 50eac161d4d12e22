"""How much VMEM a schedule takes: blocks, accumulators and temporaries, in padded register tiles.

Every block is counted twice, since the pipeline fetches the next one while this one is in use.
"""

import math
from collections.abc import Sequence

from tpu_inductor.graph.core import Var
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import Dims, Factoring
from tpu_inductor.regions.rules import flat
from tpu_inductor.schedule.precision import passes
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.schedule.types import Axis, TileSchedule
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
    scratch = sum(padded_bytes(a.shape, a.dtype, target) for a in schedule.accumulators)
    return pipelined + scratch + _temporaries(schedule, target) + _parts(schedule, target)


def _temporaries(schedule: TileSchedule, target: TpuTarget) -> int:
    """The most bytes of computed values that are alive at once, in program order."""
    factoring = schedule.region.factoring
    assert factoring is not None
    eqns = schedule.eqns
    members = range(len(eqns))
    last = {v: i for i in members for v in eqns[i].operands}
    alive: dict[Var, int] = {}
    peak = 0
    for i in members:
        eqn = eqns[i]
        if PRIMS[eqn.prim].kind in (Kind.VIEW, Kind.CREATE):
            continue
        for out in eqn.outputs:
            block = value_block(out, factoring, schedule.axes)
            alive[out] = padded_bytes(block, out.type.dtype, target)
        peak = max(peak, sum(alive.values()))
        alive = {v: n for v, n in alive.items() if last.get(v, i) > i}
    return peak


def _parts(schedule: TileSchedule, target: TpuTarget) -> int:
    """What Mosaic splits the operands of an exact float32 product into, before it multiplies.

    Measured: the high and low parts in bf16 on v4, and as much as two copies in float32 later.
    """
    dots = [i for i, e in enumerate(schedule.eqns) if PRIMS[e.prim].kind is Kind.DOT]
    factoring = schedule.region.factoring
    assert factoring is not None
    copies = 1 if target.generation == 4 else 2
    return sum(
        copies * padded_bytes(dims_block(dims, factoring, schedule.axes), DType.F32, target)
        for index in dots
        if passes(schedule.eqns[index]) > 1
        for dims in (factoring.of(schedule.eqns, index, slot) for slot in (0, 1))
    )


def value_block(var: Var, factoring: Factoring, axes: Sequence[Axis]) -> tuple[int, ...]:
    """The extents of a value inside the kernel, one per axis that the body sees."""
    return dims_block(factoring.values[var], factoring, axes)


def dims_block(dims: Dims, factoring: Factoring, axes: Sequence[Axis]) -> tuple[int, ...]:
    """The extents of anything that has these factors inside the kernel."""
    factors = flat(dims)
    is_operand = bool(factors & factoring.contracted)
    block: list[int] = []
    for axis in axes:
        is_present = not axis.factors or not factors.isdisjoint(axis.factors)
        is_contracted = not factoring.contracted.isdisjoint(axis.factors)
        # Operands of the matmul have their own axes; everything else has all but the contracted.
        if (
            axis.is_squeezed
            or (is_operand and not is_present)
            or (is_contracted and not is_operand)
        ):
            continue
        block.append(axis.extent if is_present else 1)
    return tuple(block)


def limit_for(estimate: int, target: TpuTarget) -> int:
    """The limit to hand to the compiler: the estimate with room for its own spills; 0 for none."""
    if not target.is_tpu:
        return 0
    roomy = max(2 * estimate, 32 << 20)
    return min(roomy, target.vmem_limit_bytes + (target.vmem_bytes - target.vmem_limit_bytes) // 2)


def _round_up(n: int, to: int) -> int:
    return -(-n // to) * to


def accumulator_shape(axes: Sequence[Axis]) -> tuple[int, ...]:
    """The block of a reduction's result: 1 along reduced axes."""
    return tuple(1 if a.is_reduced else a.tile for a in axes if not a.is_squeezed)
