"""Matrix products that stream: attention and its gradients, in one pass over blocks of keys.

grid (batch, heads, queries); keys and values of a head lie in VMEM, and a loop goes over chunks of
them. Chunks of several queries and keys are written out together, so that the systolic arrays make
the next scores while the vector unit works on these.
"""

from collections.abc import Iterator
from dataclasses import replace

from tpu_inductor.errors import Reject
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nesting import Interleaving, Loops
from tpu_inductor.schedule.parts import split_columns
from tpu_inductor.schedule.precision import passes
from tpu_inductor.schedule.template import Template, Tiling
from tpu_inductor.schedule.visible import find_visible
from tpu_inductor.target import TpuTarget
from tpu_inductor.templates.rows import with_tile
from tpu_inductor.templates.tiles import even_tiles, sublane_multiple

ROWS, ROWS_6 = (512, 256, 128), (1024, 512, 256)
"""Rows of scores in a block, the second from v6e on: its arrays want more of them at once."""

PARTS = 2
"""Parts of the rows that are interleaved."""

CHUNKS = (1024, 512, 256)
"""The most columns of scores at once."""

LONGEST = (1 << 30, 4096, 1024)
"""The most columns in a block: all of them, or else an axis of the grid goes over blocks."""

TURNS = (4, 2, 1)
"""Chunks of columns that are written out together, if they divide the loop."""

TURNS_EXACT = (1,)
"""Of float32 products in six passes, whose code is long, and which hide the rest as they are."""


def streams_products(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Reject | None:
    """Whether the region has products, of which it keeps something from block to block."""
    if not kernel_axes.streamed:
        return Reject("no matmul makes what another ends")
    return None if kernel_axes.kept else Reject("nothing is kept from block to block")


def _candidates(region: Region, kernel_axes: KernelAxes, target: TpuTarget) -> Iterator[Tiling]:
    columns, rows = find_scores(kernel_axes)
    sublanes = sublane_multiple(region, target)
    for longest in [n for n in LONGEST if n < columns.size or n == LONGEST[0]]:
        for most_rows in ROWS_6 if target.generation >= 6 else ROWS:
            for most_columns in CHUNKS:
                made = {
                    rows.name: tile_rows(rows, most_rows, sublanes),
                    columns.name: tile_columns(columns, most_columns, longest, target.lanes),
                }
                yield _tiling(region, kernel_axes, made, (rows.name, columns.name), target)


def _tiling(
    region: Region,
    kernel_axes: KernelAxes,
    made: dict[str, Axis],
    names: tuple[str, str],
    target: TpuTarget,
) -> Tiling:
    rows, columns = (made[name] for name in names)
    matrices = kernel_axes.of_matrices
    axes = tuple(
        made.get(a.name, a if a.name in matrices else replace(a, tile=1, is_squeezed=True))
        for a in kernel_axes.axes
    )
    grid = tuple(a.name for a in axes if not a.is_whole and a is not columns)
    grid += () if columns.is_whole else (columns.name,)
    exact = any(passes(region.eqns[dot]) > 1 for dot in kernel_axes.products)
    turns = next(n for n in (TURNS_EXACT if exact else TURNS) if columns.turns % n == 0)
    lanes = 0 if columns.extent % target.lanes else target.lanes
    assert region.factoring is not None
    visible = find_visible(region.eqns, region.factoring, axes, columns)
    parts = () if visible is None else split_columns(visible, columns, axes, turns)
    fold = Interleaving(columns.name, turns, rows.name, lanes, parts)
    reason = f"scores of {rows.extent} x {columns.extent}, {rows.turns} x {turns} interleaved"
    return Tiling(Loops(axes, grid, fold=fold), reason)


def tile_rows(axis: Axis, most: int, sublanes: int) -> Axis:
    """Blocks of rows, in parts where those are made of whole registers."""
    (tile,) = even_tiles(axis, sublanes, (most,))
    axis = with_tile(axis, tile, can_squeeze=False)
    part = axis.tile // PARTS
    return axis if axis.tile % PARTS or part % sublanes else replace(axis, chunk=part)


def tile_columns(axis: Axis, most: int, longest: int, lanes: int) -> Axis:
    """Blocks of columns in chunks of whole registers, as few of them as may be beyond the end."""
    size = -(-axis.size // lanes) * lanes
    if size <= most:
        tile = axis.size if axis.size < lanes else size
        return replace(axis, tile=tile, chunk=tile)
    chunks = range(most, most // 2, -lanes)
    chunk = min(chunks, key=lambda n: -(-size // n) * n)
    tile = -(-size // chunk) * chunk
    return replace(axis, tile=min(tile, longest // chunk * chunk), chunk=chunk)


def find_scores(kernel_axes: KernelAxes) -> tuple[Axis, Axis]:
    """The axis that streams, which one product makes and another ends, and the rows beside it."""
    streamed = kernel_axes.streamed
    products = kernel_axes.products.values()
    product = next(p for p in products if streamed in (*p.rows, *p.columns))
    (row,) = (n for n in (*product.rows, *product.columns) if n != streamed)
    return kernel_axes.axis(streamed), kernel_axes.axis(row)


STREAM_PRODUCTS = Template("stream_products", streams_products, _candidates)
