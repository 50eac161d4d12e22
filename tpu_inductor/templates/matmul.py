"""A matmul with its prologue and epilogue: bias, activation, residual and cast in one kernel.

grid (batch, m, n, k); a float32 accumulator over k, the epilogue after its last block
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from tpu_inductor.errors import Reject
from tpu_inductor.graph.core import Eqn
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nesting import Loops
from tpu_inductor.schedule.precision import passes
from tpu_inductor.schedule.template import Template, Tiling
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.rows import with_tile
from tpu_inductor.templates.tiles import chunk_of, even_tiles, sublane_multiple

WANTED_M = (2048, 1024, 512, 256, 128)
WANTED_N = (2048, 1024, 512, 256, 128)
WANTED_K = (8192, 4096, 2048, 1024, 512)

FREE, CONTRACTED = 4, 3
"""How many of them to try, largest first: small blocks pay for their copies' latency."""

MAX_PRODUCTS = 1 << 30
"""Multiply-adds at once. The compiler writes all of them out: more make code that does not fit."""

EXACT = 4
"""How many times fewer of float32 products in six passes: with all of them libtpu takes minutes."""


def _accepts(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Reject | None:
    if kernel_axes.kept:
        return Reject("rows in blocks")
    return None if kernel_axes.products else Reject("no matmul")


def _candidates(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Iterator[Tiling]:
    ((dot, product),) = kernel_axes.products.items()
    m, n, k = map(kernel_axes.axis, (*product.rows, *product.columns, *product.contracted))
    # Either matrix may be stored with m, n or k along its lanes.
    multiple = max(target.lanes, sublane_multiple(region, target))
    outer = tuple(
        replace(a, tile=1, is_squeezed=True)
        for a in kernel_axes.axes
        if a.name not in product.names
    )
    options = (
        even_tiles(m, multiple, WANTED_M)[:FREE],
        even_tiles(n, multiple, WANTED_N)[:FREE],
        even_tiles(k, multiple, WANTED_K)[:CONTRACTED],
    )
    smallest = tuple(o[-1] for o in options)
    most = _most_products(region.eqns[dot])
    for tm, tn, tk in itertools.product(*options):
        # Where no accumulator holds the rows of a block, they can be multiplied in turns.
        chunk = chunk_of(tm, max(most // (tn * tk), 1), multiple) if tk == k.size else 0
        if (chunk or tm) * tn * tk > most and (tm, tn, tk) != smallest:
            continue
        rows = replace(with_tile(m, tm, can_squeeze=False), chunk=chunk)
        columns, contracted = with_tile(n, tn, can_squeeze=False), replace(k, tile=tk)
        for order in _orders(rows, columns):
            grid = (*(a.name for a in outer), *order)
            grid += () if contracted.is_whole else product.contracted
            loops = Loops((*outer, rows, columns, contracted), grid, _unroll(rows, target))
            yield Tiling(loops, f"tiles {tm} x {tn} x {tk}, grid {' '.join(grid)}")


def _most_products(dot: Eqn) -> int:
    return MAX_PRODUCTS // EXACT if passes(dot) > 1 else MAX_PRODUCTS


def _unroll(rows: Axis, target: TpuTarget) -> int:
    """Two turns together from v6e on, whose arrays are too fast to hide the epilogue otherwise."""
    return 2 if rows.chunk and target.generation >= 6 and rows.turns % 2 == 0 else 1


def _orders(m: Axis, n: Axis) -> tuple[tuple[str, ...], ...]:
    """The orders of m and n in the grid: the operand that only the outer one indexes stays."""
    names = tuple(a.name for a in (m, n) if not a.is_whole)
    return (names, names[::-1]) if len(names) == 2 else (names,)


MATMUL = Template("matmul", _accepts, _candidates)
