"""The CPU's template for products that stream: loops over heads and queries around one over keys.

All of the operands is one block, as in `one_block`; what is kept is as large as one chunk.
"""

from collections.abc import Iterator
from dataclasses import replace

from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nesting import Interleaving, Loops
from tpu_inductor.schedule.parts import split_columns
from tpu_inductor.schedule.template import Template, Tiling
from tpu_inductor.schedule.visible import find_visible
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.stream_products import find_scores, streams_products
from tpu_inductor.templates.tiles import chunk_of

ROWS, COLUMNS = 512, 512
"""Of the scores in a chunk: as many as caches hold."""


def _candidates(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Iterator[Tiling]:
    columns, rows = find_scores(kernel_axes)
    every = kernel_axes.of_matrices
    chunks = {
        a.name: 1
        if a.name not in every
        else chunk_of(a.size, ROWS if a is rows else COLUMNS, 1) or a.size
        for a in kernel_axes.axes
        if a.name not in every or a in (rows, columns)
    }
    axes = tuple(replace(a, chunk=chunks.get(a.name, 0)) for a in kernel_axes.axes)
    inner = tuple(n for n in chunks if n != columns.name)
    by_name = {a.name: a for a in axes}
    # A block of rows is what a turn of its loop takes.
    seen = tuple(replace(a, tile=a.chunk) if a.name in inner else a for a in axes)
    assert region.factoring is not None
    visible = find_visible(region.eqns, region.factoring, seen, by_name[columns.name])
    parts = () if visible is None else split_columns(visible, by_name[columns.name], seen, 1)
    fold = Interleaving(columns.name, 1, parts=parts)
    yield Tiling(Loops(axes, (), fold=fold, inner=inner), "loops over what caches hold")


STREAM_BLOCK = Template("stream_block", streams_products, _candidates)
