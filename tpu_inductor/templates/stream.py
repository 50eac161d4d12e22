"""Rows longer than the memory, in one pass: what is kept of a row is repaired from block to block.

grid (rows, reduced axes in order); the statistics of a block of rows stay in scratch
"""

from collections.abc import Iterator

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.template import Template, Tiling
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.accumulate import tile_by_blocks

WANTED = (
    (8, 131072),
    (8, 65536),
    (8, 32768),
    (8, 16384),
    (16, 32768),
    (64, 8192),
    (128, 4096),
    (256, 2048),
    (512, 1024),
)
"""(rows, columns) of a block."""


def _accepts(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Reject | None:
    if kernel_axes.products:
        return Reject("a matmul")
    return None if kernel_axes.kept else Reject("nothing is kept from block to block")


def _candidates(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Iterator[Tiling]:
    for tiling in tile_by_blocks(region, kernel_axes, target, WANTED):
        # In one block nothing would be kept, and what was kept before is what a block reads.
        if tiling.loops.folded:
            yield tiling


STREAM = Template("stream", _accepts, _candidates)
