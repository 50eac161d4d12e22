"""Reductions whose results are needed only after the last block: column sums, long rows, totals.

grid (parallel axes, reduced axes); partial results gather in scratch, the epilogue follows
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Region, Rows
from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nesting import Loops
from tpu_inductor.schedule.template import Template, Tiling
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.rows import with_tile
from tpu_inductor.templates.tiles import chunk_of, even_tiles, sublane_multiple

WANTED = (
    (1024, 2048),
    (512, 2048),
    (512, 1024),
    (256, 1024),
    (256, 512),
    (128, 2048),
    (64, 4096),
    (8, 16384),
)
"""(rows, columns) of a block."""

CHUNK_ELEMENTS = 1 << 17
"""Elements that are added up at once: more make longer code, which is no faster."""


def _accepts(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Reject | None:
    if kernel_axes.products or not any(a.is_reduced for a in kernel_axes.axes):
        return Reject("nothing to accumulate")
    if region.rows is not Rows.PASSED:
        return Reject("a result is needed along the axis that is reduced")
    return None


def _candidates(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Iterator[Tiling]:
    sublanes = sublane_multiple(region, target)
    for tiling in tile_by_blocks(region, kernel_axes, target, WANTED):
        axes = _chunked(tiling.loops.axes, sublanes)
        yield replace(tiling, loops=replace(tiling.loops, axes=axes))


def tile_by_blocks(
    region: Region, kernel_axes: KernelAxes, target: TpuTarget, wanted: Iterable[tuple[int, int]]
) -> Iterator[Tiling]:
    """Blocks of all axes, near `wanted` (rows, columns), the reduced axes inside the others."""
    sublanes = sublane_multiple(region, target)
    for rows, cols in wanted:
        axes: list[Axis] = []
        for place, axis in enumerate(reversed(kernel_axes.axes)):
            multiple, extent = ((target.lanes, cols), (sublanes, rows), (1, 1))[min(place, 2)]
            (tile,) = even_tiles(axis, multiple, (extent,))
            axes.append(_tiled(axis, tile, place))
        ordered = tuple(reversed(axes))
        tiled = [a for a in ordered if not a.is_whole]
        grid = tuple(a.name for a in sorted(tiled, key=lambda a: a.is_reduced))
        reason = f"blocks of {rows} x {cols}, partial results in scratch"
        yield Tiling(Loops(ordered, grid), reason)


def _tiled(axis: Axis, tile: int, place: int) -> Axis:
    if not axis.is_reduced:
        return with_tile(axis, tile, can_squeeze=place >= 2)
    return replace(axis, tile=tile)


def _chunked(axes: tuple[Axis, ...], sublanes: int) -> tuple[Axis, ...]:
    """`axes` with a loop over the rows of a block, if partial results gather along them anyway."""
    *_, rows, cols = axes
    if rows.is_whole or not rows.is_reduced:
        return axes
    chunk = chunk_of(rows.tile, max(CHUNK_ELEMENTS // cols.tile, sublanes), sublanes)
    return tuple(replace(a, chunk=chunk) if a is rows else a for a in axes)


ACCUMULATE = Template("accumulate", _accepts, _candidates)
