"""Matrix products that stream: attention, its gradients, in one pass over blocks of keys.

grid (batch, heads, queries); keys and values of a head lie in VMEM, and a loop goes over them
"""

from collections.abc import Iterator
from dataclasses import replace

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nesting import Interleaving, Loops
from tpu_inductor.schedule.template import Template, Tiling
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.rows import with_tile
from tpu_inductor.templates.tiles import even_tiles

CONFIGS = ((1024, 1024, 2, 2), (512, 1024, 2, 2), (512, 512, 2, 2), (256, 512, 1, 1), (128, 128, 1, 1))


def _accepts(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Reject | None:
    if not kernel_axes.products:
        return Reject("no matmul")
    return None if kernel_axes.kept else Reject("nothing is kept from block to block")


def _candidates(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Iterator[Tiling]:
    streamed, rows = find_scores(kernel_axes)
    for most_rows, most_columns, turns, parts in CONFIGS:
        (tm,) = even_tiles(rows, target.lanes, (most_rows,))
        (tn,) = even_tiles(streamed, target.lanes, (most_columns,))
        axes = tuple(_tiled(a, rows, streamed, tm, tm // parts, tn, kernel_axes) for a in kernel_axes.axes)
        grid = tuple(a.name for a in axes if not a.is_whole)
        fold = Interleaving(streamed.name, turns, rows.name, target.lanes)
        yield Tiling(Loops(axes, grid, fold=fold), f"blocks of {tm} x {tn} scores")


def _tiled(
    axis: Axis, rows: Axis, streamed: Axis, tm: int, part: int, tn: int, kernel_axes: KernelAxes
) -> Axis:
    if axis is streamed:
        return replace(axis, chunk=tn)
    if axis is rows:
        return replace(with_tile(axis, tm, can_squeeze=False), chunk=part)
    every = {n for p in kernel_axes.products.values() for n in p.names}
    return axis if axis.name in every else replace(axis, tile=1, is_squeezed=True)


def find_scores(kernel_axes: KernelAxes) -> tuple[Axis, Axis]:
    """The axis that streams, which one product makes and another ends, and the rows beside it."""
    made = [n for p in kernel_axes.products.values() for n in (*p.rows, *p.columns)]
    streamed = next(a for a in kernel_axes.axes if a.is_reduced and a.name in made)
    product = next(
        p for p in kernel_axes.products.values() if streamed.name in (*p.rows, *p.columns)
    )
    (row,) = (n for n in (*product.rows, *product.columns) if n != streamed.name)
    return streamed, kernel_axes.axis(row)


STREAM_PRODUCTS = Template("stream_products", _accepts, _candidates)
