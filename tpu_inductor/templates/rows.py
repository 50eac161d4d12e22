"""Pointwise regions, and reductions whose axes are whole in every block (softmax, norms).

grid over everything that is not reduced; a block holds complete rows, read once
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.axes import AxisPlan
from tpu_inductor.schedule.types import Axis, Role
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.api import Template, Tiling
from tpu_inductor.templates.tiles import sublane_multiple

BLOCK_BYTES = tuple(1 << n for n in range(22, 14, -1))
"""Sizes of a float32 block to try. Small ones pay per step, large ones wait for the first copy."""


def _accepts(region: Region, plan: AxisPlan, target: TpuTarget) -> Reject | None:
    return Reject("a matmul") if plan.dot is not None else None


def _candidates(region: Region, plan: AxisPlan, target: TpuTarget) -> Iterator[Tiling]:
    seen: set[tuple[int, ...]] = set()
    for nbytes in BLOCK_BYTES:
        axes = _fill(plan.axes, nbytes // 4, sublane_multiple(region, target), target)
        tiles = tuple(a.tile for a in axes)
        if tiles not in seen:
            seen.add(tiles)
            grid = tuple(a.name for a in axes if a.role is Role.PARALLEL)
            yield Tiling(axes, grid, f"blocks of about {nbytes >> 10} KiB of float32")


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
        tile = _fit(axis.size, room, multiple)
        left = max(left // max(tile, 1), 1)
        tiled.append(with_tile(axis, tile, can_squeeze=place >= 2))
    return tuple(reversed(tiled))


def _fit(size: int, room: int, multiple: int) -> int:
    if size <= room or size <= multiple:
        return size
    return max(room // multiple * multiple, multiple)


def with_tile(axis: Axis, tile: int, *, can_squeeze: bool) -> Axis:
    """`axis` as a parallel grid axis of this tile, or whole."""
    if tile >= axis.size:
        return replace(axis, tile=axis.size, role=Role.WHOLE)
    return replace(axis, tile=tile, role=Role.PARALLEL, is_squeezed=can_squeeze and tile == 1)


ROWS = Template("rows", _accepts, _candidates)
