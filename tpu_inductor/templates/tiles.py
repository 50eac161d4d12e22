"""Legal tile extents: what a block may be along an axis, given its place in the array.

The last two dimensions of a block are multiples of (sublanes, lanes) or the whole extent.
"""

from collections.abc import Iterable

from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.target import TpuTarget


def sublane_multiple(region: Region, target: TpuTarget) -> int:
    """Rows that a block is a multiple of, for the narrowest type among operands and results."""
    ends = (*region.inputs, *region.outputs)
    return max((target.sublanes(stored_dtype(v.type)) for v in ends), default=8)


def tile_options(axis: Axis, multiple: int, wanted: Iterable[int]) -> tuple[int, ...]:
    """The legal tiles near the `wanted` extents, largest first; the whole axis if it is smaller."""
    found: dict[int, None] = {}
    for extent in sorted(wanted, reverse=True):
        if extent >= axis.size:
            found[axis.size] = None
        elif extent >= multiple:
            found[extent // multiple * multiple] = None
    return tuple(found) or (axis.size,)


def chunk_of(tile: int, most: int, multiple: int) -> int:
    """The largest part of a block up to `most` that divides it evenly; 0 for all of it at once."""
    if most >= tile:
        return 0
    parts = range(most // multiple * multiple, 0, -multiple)
    return next((n for n in parts if tile % n == 0), 0)


def even_tiles(axis: Axis, multiple: int, wanted: Iterable[int]) -> tuple[int, ...]:
    """Tiles that divide the axis where there are any, so that no block has a tail."""
    found: dict[int, None] = {}
    for extent in tile_options(axis, multiple, wanted):
        fitting = next(
            (t for t in range(extent, extent // 2, -multiple) if axis.size % t == 0), extent
        )
        found[fitting] = None
    return tuple(found)
