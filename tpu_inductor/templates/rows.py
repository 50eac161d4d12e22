"""Pointwise regions, and reductions whose axes are whole in every block (softmax, norms).

grid over everything that is not reduced; a block holds complete rows, read once
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nesting import Loops
from tpu_inductor.schedule.template import Template, Tiling
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.tiles import chunk_of, even_tiles, sublane_multiple

BLOCK_BYTES = tuple(1 << n for n in range(24, 14, -1))
"""Sizes of a float32 block to try. Small ones pay per step, large ones wait for the first copy."""

CHUNK_ELEMENTS = 1 << 19
"""Elements that the body works on at once: the compiler writes out what a chunk needs, so its time
and the code grow with this; below it, the latency of row reductions is no longer hidden."""


def _accepts(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Reject | None:
    if kernel_axes.kept:
        return Reject("rows in blocks")
    return Reject("a matmul") if kernel_axes.products else None


def _candidates(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Iterator[Tiling]:
    sublanes = sublane_multiple(region, target)
    seen: set[tuple[int, ...]] = set()
    for nbytes in BLOCK_BYTES:
        axes = _fill(kernel_axes.axes, nbytes // 4, sublanes, target)
        tiles = tuple(a.tile for a in axes)
        if tiles not in seen:
            seen.add(tiles)
            grid = tuple(a.name for a in axes if not a.is_whole)
            reason = f"blocks of about {nbytes >> 10} KiB of float32"
            yield Tiling(Loops(_chunked(axes, sublanes), grid), reason)


def _fill(
    axes: tuple[Axis, ...], elements: int, sublanes: int, target: TpuTarget
) -> tuple[Axis, ...]:
    """Tiles from the minor axis outwards until a block has about `elements`."""
    left = elements // math.prod(a.size for a in axes if a.is_reduced)
    tiled: list[Axis] = []
    for place, axis in enumerate(reversed(axes)):
        if axis.is_reduced:
            tiled.append(axis)
            continue
        multiple = (target.lanes, sublanes)[place] if place < 2 else 1
        # A full row leaves room for a register tile of rows at least.
        room = left // sublanes if place == 0 and not axes[-2].is_reduced else left
        (tile,) = even_tiles(axis, multiple, (max(room, multiple),))
        left = max(left // max(tile, 1), 1)
        tiled.append(with_tile(axis, tile, can_squeeze=place >= 2))
    return tuple(reversed(tiled))


def _chunked(axes: tuple[Axis, ...], sublanes: int) -> tuple[Axis, ...]:
    """`axes` with a loop over the outermost axis that a block holds more than one register of."""
    per_block = math.prod(a.tile for a in axes)
    for place, axis in enumerate(axes[:-1]):
        multiple = sublanes if place == len(axes) - 2 else 1
        if axis.is_reduced or axis.is_squeezed or axis.tile <= multiple:
            continue
        room = CHUNK_ELEMENTS * axis.tile // per_block
        chunk = chunk_of(axis.tile, max(room, multiple), multiple)
        return tuple(replace(a, chunk=chunk) if a is axis else a for a in axes)
    return axes


def with_tile(axis: Axis, tile: int, *, can_squeeze: bool) -> Axis:
    """`axis` in blocks of this tile, or whole."""
    if tile >= axis.size:
        return replace(axis, tile=axis.size)
    return replace(axis, tile=tile, is_squeezed=can_squeeze and tile == 1)


ROWS = Template("rows", _accepts, _candidates)
