"""Lowerings of adaptive average pooling: windows that share an extent out as evenly as they can.

Window i of `count` over `extent` runs from `i * extent // count` up to, and without,
`ceil((i + 1) * extent / count)`; neighbours overlap where the extent does not divide.
"""

from collections.abc import Sequence

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.dims import DYNAMIC, Size, is_dynamic
from tpu_inductor.lowerings.reduction import accumulator, from_zero
from tpu_inductor.lowerings.registry import lowering
from tpu_inductor.lowerings.slice import spread

aten = torch.ops.aten

MOST_WINDOWS = 64
_TOO_MANY = Reject(f"adaptive pooling to more than {MOST_WINDOWS} uneven windows")
_NOTHING = Reject("pooling of nothing")


def _bounds(extent: int, count: int) -> list[tuple[int, int]]:
    return [(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]


def _is_even(extent: int, count: int) -> bool:
    return extent % count == 0


def _window_sums(b: Builder, x: Value, dim: int, count: int) -> Value:
    """The sum over each of `count` windows along `dim`."""
    shape, extent = x.type.shape, x.type.dims[dim]
    if _is_even(extent, count):
        split = b.reshape(x, (*shape[:dim], count, extent // count, *shape[dim + 1 :]))
        return b.reduce("reduce_sum", split, (dim + 1,))
    sums = [
        b.reduce("reduce_sum", b.slice(x, dim, low, high), (dim,), keepdims=True)
        for low, high in _bounds(extent, count)
    ]
    return b.concat(sums, dim)


def _sizes(b: Builder, extent: int, count: int, dim: int, dtype: DType, rank: int) -> Value:
    """How many elements each window along `dim` holds, in a shape that broadcasts."""
    if _is_even(extent, count):
        return b.lit(extent // count, dtype)
    wide = DType.I32
    place = b.iota(tuple(count if d == dim else 1 for d in range(rank)), wide, dim)
    scaled = b.op("mul", place, b.lit(extent, wide))
    low = b.op("idiv", scaled, b.lit(count, wide))
    next_ = b.op("add", scaled, b.lit(extent + count - 1, wide))
    high = b.op("idiv", next_, b.lit(count, wide))
    return b.convert(b.op("sub", high, low), dtype)


def _adaptive(b: Builder, x: Value, spatial: int) -> Value | Reject:
    out, rank = b.out[0], x.type.rank
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    if x.type.size == 0:
        return _NOTHING
    dims = range(rank - spatial, rank)
    pairs = [(d, x.type.dims[d], out.dims[d]) for d in dims]
    if any(count > MOST_WINDOWS and not _is_even(extent, count) for _, extent, count in pairs):
        return _TOO_MANY
    wide = accumulator(out.dtype)
    total = b.convert(x, wide)
    for dim, _, count in pairs:
        total = _window_sums(b, total, dim, count)
    if all(extent < 2 * count for _, extent, count in pairs):  # a window may be one element
        total = from_zero(b, total)
    for dim, extent, count in pairs:
        total = b.op("div", total, _sizes(b, extent, count, dim, wide, rank))
    return b.convert(total, out.dtype)


@lowering(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(b: Builder, x: Value, output_size: Sequence[Size]) -> Value | Reject:
    return DYNAMIC if is_dynamic(output_size) else _adaptive(b, x, 2)


@lowering(aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool3d(b: Builder, x: Value, output_size: Sequence[Size]) -> Value | Reject:
    return DYNAMIC if is_dynamic(output_size) else _adaptive(b, x, 3)


@lowering(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool2d_backward(b: Builder, grad_output: Value, x: Value) -> Value | Reject:
    return _adaptive_backward(b, grad_output, 2)


@lowering(aten._adaptive_avg_pool3d_backward.default)
def adaptive_avg_pool3d_backward(b: Builder, grad_output: Value, x: Value) -> Value | Reject:
    return _adaptive_backward(b, grad_output, 3)


def _adaptive_backward(b: Builder, grad: Value, spatial: int) -> Value | Reject:
    """Each element of `grad`, divided by its window's size, added to all of that window."""
    out, rank = b.out[0], b.out[0].rank
    if out.size == 0 or grad.type.size == 0:
        return b.full(out.shape, out.dtype, 0)
    wide = accumulator(out.dtype)
    total = b.convert(grad, wide)
    for dim in range(rank - spatial, rank):
        extent, count = out.dims[dim], grad.type.dims[dim]
        if count > MOST_WINDOWS and not _is_even(extent, count):
            return _TOO_MANY
        share = b.op("div", total, _sizes(b, extent, count, dim, wide, rank))
        total = _spread_shares(b, share, dim, extent, count)
    return b.convert(total, out.dtype)


def _spread_shares(b: Builder, share: Value, dim: int, extent: int, count: int) -> Value:
    shape = share.type.shape
    if _is_even(extent, count):
        each = b.expand_dims(share, (dim + 1,))
        wide = (*shape[: dim + 1], extent // count, *shape[dim + 1 :])
        merged = (*shape[:dim], extent, *shape[dim + 1 :])
        return b.reshape(b.broadcast_to(each, wide), merged)
    total: Value = b.full((*shape[:dim], extent, *shape[dim + 1 :]), share.type.dtype, 0)
    for i, (low, high) in enumerate(_bounds(extent, count)):
        run = (*shape[:dim], high - low, *shape[dim + 1 :])
        part = b.broadcast_to(b.slice(share, dim, i, i + 1), run)
        total = b.op("add", total, spread(b, part, dim, low, 1, extent))
    return total
