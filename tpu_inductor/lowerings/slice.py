"""Lowerings that take a regular part of a tensor, or write one into it.

Selections, slices, splits, windows and diagonals; their `_scatter` forms and their gradients.
"""

import math
from collections.abc import Sequence

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.dims import (
    DYNAMIC,
    Size,
    at_least_1d,
    is_dynamic,
    move_dims,
    wrap_dim,
    wrap_dims,
)
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

MOST_SLICES = 64
"""Windows of more elements than this are gathered, not sliced one by one."""


def slice_bounds(extent: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Python's reading of `start:end`, clamped to `0 <= start <= end <= extent`."""
    low, high, _ = slice(start, end).indices(extent)
    return low, max(low, high)


@lowering(aten.select.int, aten.select_copy.int)
def select(b: Builder, x: Value, dim: int, index: Size) -> Value | Reject:
    if is_dynamic(index):
        return DYNAMIC
    dim = wrap_dim(dim, x.type.rank)
    at = index % x.type.dims[dim]
    return b.reshape(b.slice(x, dim, at, at + 1), b.out[0].shape)


@lowering(aten.slice.Tensor, aten.slice_copy.Tensor)
def slice_(
    b: Builder,
    x: Value,
    dim: int = 0,
    start: Size = None,
    end: Size = None,
    step: Size = 1,
) -> Value | Reject:
    if is_dynamic(start, end, step):
        return DYNAMIC
    dim = wrap_dim(dim, x.type.rank)
    low, high = slice_bounds(x.type.dims[dim], start, end)
    return b.slice(x, dim, low, high, step)


@lowering(aten.narrow_copy.default)
def narrow_copy(b: Builder, x: Value, dim: int, start: Size, length: Size) -> Value | Reject:
    if is_dynamic(start):
        return DYNAMIC
    dim = wrap_dim(dim, x.type.rank)
    low = start + x.type.dims[dim] if start < 0 else start
    return b.slice(x, dim, low, low + b.out[0].dims[dim])


def _split(b: Builder, x: Value, dim: int) -> tuple[Var, ...]:
    """Consecutive parts of `x` along `dim`, of the extents that torch gives the results."""
    parts: list[Var] = []
    start = 0
    for out in b.out:
        limit = start + out.dims[dim]
        parts.append(b.slice(x, dim, start, limit))
        start = limit
    return tuple(parts)


@lowering(aten.split.Tensor, aten.split_copy.Tensor, aten.unsafe_split.Tensor)
def split(b: Builder, x: Value, split_size: Size, dim: int = 0) -> tuple[Var, ...]:
    return _split(b, x, wrap_dim(dim, x.type.rank))


@lowering(
    aten.split_with_sizes.default,
    aten.split_with_sizes_copy.default,
    aten.unsafe_split_with_sizes.default,
)
def split_with_sizes(
    b: Builder, x: Value, split_sizes: Sequence[Size], dim: int = 0
) -> tuple[Var, ...]:
    return _split(b, x, wrap_dim(dim, x.type.rank))


@lowering(aten.unbind.int, aten.unbind_copy.int)
def unbind(b: Builder, x: Value, dim: int = 0) -> tuple[Var, ...]:
    dim = wrap_dim(dim, x.type.rank)
    return tuple(b.reshape(b.slice(x, dim, i, i + 1), out.shape) for i, out in enumerate(b.out))


@lowering(aten.unfold.default, aten.unfold_copy.default)
def unfold(b: Builder, x: Value, dimension: int, size: int, step: int) -> Value:
    """Windows of `size` every `step` along a dimension; the window becomes the last dimension."""
    out = b.out[0]
    dim = wrap_dim(dimension, x.type.rank)
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    if x.type.rank == 0:
        return b.reshape(x, out.shape)
    count = out.dims[dim]
    if size == step:
        shape = (*x.type.shape[:dim], count, size, *x.type.shape[dim + 1 :])
        tiles = b.reshape(b.slice(x, dim, 0, count * size), shape)
        return move_dims(b, tiles, (dim + 1,), (x.type.rank,))
    if size <= MOST_SLICES:
        span = (count - 1) * step + 1
        parts = [b.slice(x, dim, i, i + span, step) for i in range(size)]
        return b.concat([b.expand_dims(p, (p.type.rank,)) for p in parts], x.type.rank)
    starts = b.op("mul", b.iota((count, size), DType.I64, 0), b.lit(step, DType.I64))
    index = b.op("add", starts, b.iota((count, size), DType.I64, 1))
    windows = b.one("gather", b.tensor(x), index, attrs=A.Gather((dim,)))
    return move_dims(b, windows, (0, 1), (dim, x.type.rank))


@lowering(aten.unfold_backward.default)
def unfold_backward(
    b: Builder, grad_in: Value, input_sizes: Sequence[Size], dim: int, size: int, step: int
) -> Value | Reject:
    out = b.out[0]
    if out.rank == 0 or grad_in.type.size == 0:
        return b.reshape(grad_in, out.shape) if grad_in.type.size else b.full((), out.dtype, 0)
    if size > MOST_SLICES:
        return Reject(f"the gradient of windows of more than {MOST_SLICES} elements")
    dim, last = wrap_dim(dim, out.rank), out.rank
    total: Value | None = None
    for i in range(size):
        part = b.reshape(b.slice(grad_in, last, i, i + 1), grad_in.type.shape[:-1])
        term = spread(b, part, dim, i, step, out.dims[dim])
        total = term if total is None else b.op("add", total, term)
    return b.full(out.shape, out.dtype, 0) if total is None else total


def spread(b: Builder, x: Value, dim: int, start: int, step: int, extent: int) -> Var:
    """Zeros of `extent` along `dim`, but `x` at `start`, `start + step`, ..."""
    rank, count = x.type.rank, x.type.dims[dim]
    if count == 0:
        return b.full((*x.type.shape[:dim], extent, *x.type.shape[dim + 1 :]), x.type.dtype, 0)
    low, high, interior = [0] * rank, [0] * rank, [0] * rank
    low[dim], interior[dim] = start, step - 1
    high[dim] = extent - start - ((count - 1) * step + 1)
    if not (low[dim] or high[dim] or interior[dim]):
        return b.tensor(x)
    edges = A.Pad(tuple(low), tuple(high), tuple(interior))
    return b.one("pad", b.tensor(x), b.lit(0, x.type.dtype), attrs=edges)


# -- diagonals ---------------------------------------------------------------
def _diagonal_start(rows: int, columns: int, offset: int) -> tuple[int, int]:
    """The place of a diagonal in the flattened matrix, and its length."""
    row, column = max(-offset, 0), max(offset, 0)
    return row * columns + column, max(min(rows - row, columns - column), 0)


@lowering(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(b: Builder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """In the flattened matrix a diagonal is a slice whose step is a row and one element."""
    out, rank = b.out[0], x.type.rank
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    x = move_dims(b, x, wrap_dims((dim1, dim2), rank), (rank - 2, rank - 1))
    *lead, rows, columns = x.type.dims
    start, length = _diagonal_start(rows, columns, offset)
    flat = b.reshape(x, (*lead, rows * columns))
    limit = start + (length - 1) * (columns + 1) + 1
    return b.slice(flat, rank - 2, start, limit, columns + 1)


def _embed_diagonal(b: Builder, x: Value, rows: int, columns: int, offset: int) -> Var:
    """(*, length) --> (*, rows, columns) with `x` on the diagonal `offset`, zeros elsewhere."""
    shape = (*x.type.shape[:-1], rows, columns)
    if math.prod(int(n) for n in shape) == 0:
        return b.full(shape, x.type.dtype, 0)
    start, _ = _diagonal_start(rows, columns, offset)
    flat = spread(b, x, x.type.rank - 1, start, columns + 1, rows * columns)
    return b.reshape(flat, shape)


@lowering(aten.diag_embed.default)
def diag_embed(b: Builder, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    x = at_least_1d(b, x)
    side = x.type.dims[-1] + abs(offset)
    rank = x.type.rank + 1
    square = _embed_diagonal(b, x, side, side, offset)
    return move_dims(b, square, (rank - 2, rank - 1), wrap_dims((dim1, dim2), rank))


@lowering(aten.diagonal_backward.default)
def diagonal_backward(
    b: Builder, grad_output: Value, input_sizes: Sequence[Size], offset: int, dim1: int, dim2: int
) -> Value:
    out, rank = b.out[0], b.out[0].rank
    first, second = wrap_dims((dim1, dim2), rank)
    matrix = _embed_diagonal(b, grad_output, out.dims[first], out.dims[second], offset)
    return move_dims(b, matrix, (rank - 2, rank - 1), (first, second))


@lowering(aten.diagonal_scatter.default)
def diagonal_scatter(
    b: Builder, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    rank = x.type.rank
    first, second = wrap_dims((dim1, dim2), rank)
    src = b.convert(src, x.type.dtype)
    rows, columns = x.type.dims[first], x.type.dims[second]
    matrix = _embed_diagonal(b, src, rows, columns, offset)
    matrix = move_dims(b, matrix, (rank - 2, rank - 1), (first, second))
    row = b.iota(x.type.shape, DType.I32, first)
    column = b.iota(x.type.shape, DType.I32, second)
    on = b.op("eq", b.op("add", row, b.lit(offset, DType.I32)), column)
    return b.op("select", on, matrix, x)


# -- writing a part ----------------------------------------------------------
@lowering(aten.slice_scatter.default)
def slice_scatter(
    b: Builder,
    x: Value,
    src: Value,
    dim: int = 0,
    start: Size = None,
    end: Size = None,
    step: Size = 1,
) -> Value | Reject:
    if is_dynamic(start, end, step):
        return DYNAMIC
    dim = wrap_dim(dim, x.type.rank)
    extent = x.type.dims[dim]
    low, high = slice_bounds(extent, start, end)
    kept = (*x.type.shape[:dim], -(-(high - low) // step), *x.type.shape[dim + 1 :])
    src = b.broadcast_to(b.convert(src, x.type.dtype), kept)
    if src.type.size == 0:
        return b.tensor(x)
    if step == 1:
        parts = [b.slice(x, dim, 0, low), src, b.slice(x, dim, high, extent)]
        return b.concat([p for p in parts if p.type.dims[dim]], dim)
    place = b.op("sub", b.iota(x.type.shape, DType.I32, dim), b.lit(low, DType.I32))
    on_step = b.op("eq", b.op("rem", place, b.lit(step, DType.I32)), b.lit(0, DType.I32))
    after = b.op("ge", place, b.lit(0, DType.I32))
    before = b.op("lt", place, b.lit(high - low, DType.I32))
    written = b.op("and", on_step, b.op("and", after, before))
    return b.op("select", written, spread(b, src, dim, low, step, extent), x)


@lowering(aten.select_scatter.default)
def select_scatter(b: Builder, x: Value, src: Value, dim: int, index: Size) -> Value | Reject:
    if is_dynamic(index):
        return DYNAMIC
    dim = wrap_dim(dim, x.type.rank)
    at = index % x.type.dims[dim]
    return slice_scatter(b, x, b.expand_dims(src, (dim,)), dim, at, at + 1)


@lowering(aten.slice_backward.default)
def slice_backward(
    b: Builder,
    grad_output: Value,
    input_sizes: Sequence[Size],
    dim: int,
    start: Size,
    end: Size,
    step: Size,
) -> Value | Reject:
    if is_dynamic(start, end, step):
        return DYNAMIC
    out = b.out[0]
    dim = wrap_dim(dim, out.rank)
    low, _ = slice_bounds(out.dims[dim], start, end)
    return spread(b, grad_output, dim, low, step, out.dims[dim])


@lowering(aten.select_backward.default)
def select_backward(
    b: Builder, grad_output: Value, input_sizes: Sequence[Size], dim: int, index: Size
) -> Value | Reject:
    if is_dynamic(index):
        return DYNAMIC
    out = b.out[0]
    dim = wrap_dim(dim, out.rank)
    at = index % out.dims[dim]
    return spread(b, b.expand_dims(grad_output, (dim,)), dim, at, 1, out.dims[dim])
