"""The torch meaning of primitives that create, move, reduce or scan."""

import math
from functools import reduce

import torch
from torch import Tensor

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.interp_pointwise import Meaning
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import Shape

_HALF = (torch.bfloat16, torch.float16)


def _ints(shape: Shape) -> tuple[int, ...]:
    return tuple(int(d) for d in shape)


def _iota(attrs: A.Iota) -> Tensor:
    shape = _ints(attrs.shape)
    line = torch.arange(shape[attrs.dim]).to(TORCH_DTYPE[attrs.dtype])
    column = [1] * len(shape)
    column[attrs.dim] = shape[attrs.dim]
    return line.reshape(column).expand(shape)


def _full(attrs: A.Full) -> Tensor:
    value = torch.tensor(attrs.value, dtype=TORCH_DTYPE[attrs.dtype])
    return value.expand(_ints(attrs.shape))


def _broadcast(attrs: A.Broadcast, x: Tensor) -> Tensor:
    extents = [1] * len(attrs.shape)
    for size, dim in zip(x.shape, attrs.dims, strict=True):
        extents[dim] = size
    return x.reshape(extents).expand(_ints(attrs.shape))


def _reshape(attrs: A.Reshape, x: Tensor) -> Tensor:
    return x.reshape(_ints(attrs.shape))


def _transpose(attrs: A.Transpose, x: Tensor) -> Tensor:
    return x.permute(attrs.perm)


def _rev(attrs: A.Dims, x: Tensor) -> Tensor:
    return torch.flip(x, attrs.dims)


def _slice(attrs: A.Slice, x: Tensor) -> Tensor:
    return x[tuple(map(slice, attrs.start, attrs.limit, attrs.stride))]


def pad_tensor(attrs: A.Pad, x: Tensor, value: Tensor) -> Tensor:
    """Spreads by `interior`, pads by the positive edges, then crops by the negative ones."""
    shape: list[int] = []
    place: list[slice] = []
    crop: list[slice] = []
    for n, low, high, mid in zip(x.shape, attrs.low, attrs.high, attrs.interior, strict=True):
        spread = n + max(n - 1, 0) * mid
        shape.append(max(low, 0) + spread + max(high, 0))
        place.append(slice(max(low, 0), max(low, 0) + spread, mid + 1))
        crop.append(slice(max(-low, 0), shape[-1] - max(-high, 0)))
    out = value.expand(shape).clone()
    out[tuple(place)] = x
    return out[tuple(crop)]


def _concat(attrs: A.Axis, *xs: Tensor) -> Tensor:
    return torch.cat(xs, attrs.dim)


# -- indexing -------------------------------------------------------------------
def _rows(
    dims: tuple[int, ...], x: Tensor, indices: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """`x` as a table with one row per position in `dims`, the row numbers, which are in bounds."""
    rest = [d for d in range(x.ndim) if d not in dims]
    table = x.permute(*dims, *rest).reshape(
        math.prod(x.shape[d] for d in dims), *(x.shape[d] for d in rest)
    )
    row = torch.zeros(indices[0].shape, dtype=torch.int64)
    valid = torch.ones(indices[0].shape, dtype=torch.bool)
    for dim, index in zip(dims, indices, strict=True):
        index = index.to(torch.int64)
        valid &= (index >= 0) & (index < x.shape[dim])
        row = row * x.shape[dim] + index
    return table, torch.where(valid, row, 0), valid


def _gather(attrs: A.Gather, x: Tensor, *indices: Tensor) -> Tensor:
    table, row, valid = _rows(attrs.dims, x, indices)
    fill = torch.tensor(_out_of_bounds(x.dtype), dtype=x.dtype)
    if table.shape[0] == 0:
        return fill.expand(*row.shape, *table.shape[1:])
    valid = valid.reshape((*valid.shape, *[1] * (table.ndim - 1)))
    return torch.where(valid, table[row], fill)


def _out_of_bounds(dtype: torch.dtype) -> float | int | bool:
    if dtype.is_floating_point:
        return math.nan
    return False if dtype is torch.bool else torch.iinfo(dtype).min


def _scatter(attrs: A.Scatter, x: Tensor, updates: Tensor, *indices: Tensor) -> Tensor:
    table, row, valid = _rows(attrs.dims, x, indices)
    row, kept = row[valid], updates[valid]
    table = _write_rows(table.clone(), row, kept, attrs.mode)
    rest = [d for d in range(x.ndim) if d not in attrs.dims]
    order = [*attrs.dims, *rest]
    moved = table.reshape([x.shape[d] for d in order])
    return moved.permute([order.index(d) for d in range(x.ndim)])


def _reach(attrs: A.Check, x: Tensor) -> Tensor:
    """The largest distance from `start`, compared as unsigned."""
    distance = x.to(torch.int64) - attrs.start
    if attrs.ignored is not None:
        distance = torch.where(x == attrs.ignored, 0, distance)
    if not distance.numel():
        return torch.zeros((), dtype=torch.uint64)
    sign = torch.tensor(torch.iinfo(torch.int64).min)
    return ((distance ^ sign).max() ^ sign).view(torch.uint64)


def _write_rows(table: Tensor, row: Tensor, updates: Tensor, mode: str) -> Tensor:
    if table.numel() == 0 or row.numel() == 0:
        return table
    if mode == "set":
        return table.index_put((row,), updates)
    if mode == "add" and table.dtype is not torch.bool:
        return table.index_add(0, row, updates)
    if table.dtype is torch.bool:
        bits = _write_rows(table.to(torch.uint8), row, updates.to(torch.uint8), _ON_BOOL[mode])
        return bits.to(torch.bool)
    index = row.reshape(-1, *[1] * (table.ndim - 1)).expand_as(updates)
    return table.scatter_reduce(0, index, updates, _SCATTER_REDUCE[mode])


_SCATTER_REDUCE = {"mul": "prod", "max": "amax", "min": "amin"}
_ON_BOOL = {"add": "max", "mul": "min", "max": "max", "min": "min"}


# -- reductions and scans -------------------------------------------------------
def _reduce_sum(attrs: A.Dims, x: Tensor) -> Tensor:
    if x.dtype is torch.bool:
        return _reduce_or(attrs, x)
    wide = x.float() if x.dtype in _HALF else x
    return wide.sum(attrs.dims, dtype=wide.dtype).to(x.dtype) if attrs.dims else x


def _reduce_prod(attrs: A.Dims, x: Tensor) -> Tensor:
    if x.dtype is torch.bool:
        return _reduce_and(attrs, x)
    wide = x.float() if x.dtype in _HALF else x
    for dim in sorted(attrs.dims, reverse=True):
        wide = wide.prod(dim, dtype=wide.dtype)
    return wide.to(x.dtype)


def _reduce_max(attrs: A.Dims, x: Tensor) -> Tensor:
    return torch.amax(x, attrs.dims) if attrs.dims else x


def _reduce_min(attrs: A.Dims, x: Tensor) -> Tensor:
    return torch.amin(x, attrs.dims) if attrs.dims else x


def _reduce_and(attrs: A.Dims, x: Tensor) -> Tensor:
    for dim in sorted(attrs.dims, reverse=True):
        ones = torch.bitwise_not(torch.zeros_like(x.sum(dim, dtype=torch.int64), dtype=x.dtype))
        x = reduce(torch.bitwise_and, x.unbind(dim), ones)
    return x


def _reduce_or(attrs: A.Dims, x: Tensor) -> Tensor:
    for dim in sorted(attrs.dims, reverse=True):
        zeros = torch.zeros_like(x.sum(dim, dtype=torch.int64), dtype=x.dtype)
        x = reduce(torch.bitwise_or, x.unbind(dim), zeros)
    return x


def _argmax(attrs: A.Axis, x: Tensor) -> Tensor:
    x = x.to(torch.uint8) if x.dtype is torch.bool else x
    return torch.argmax(x, attrs.dim).to(torch.int32)


def _argmin(attrs: A.Axis, x: Tensor) -> Tensor:
    x = x.to(torch.uint8) if x.dtype is torch.bool else x
    return torch.argmin(x, attrs.dim).to(torch.int32)


def _cumsum(attrs: A.Axis, x: Tensor) -> Tensor:
    wide = x.float() if x.dtype in _HALF else x
    return torch.cumsum(wide, attrs.dim, dtype=wide.dtype).to(x.dtype)


def _cumprod(attrs: A.Axis, x: Tensor) -> Tensor:
    wide = x.float() if x.dtype in _HALF else x
    return torch.cumprod(wide, attrs.dim, dtype=wide.dtype).to(x.dtype)


def _cummax(attrs: A.Axis, x: Tensor) -> Tensor:
    return torch.cummax(x, attrs.dim).values


def _cummin(attrs: A.Axis, x: Tensor) -> Tensor:
    return torch.cummin(x, attrs.dim).values


def _sort(attrs: A.Sort, x: Tensor) -> tuple[Tensor, ...]:
    out = torch.sort(x, dim=attrs.dim, descending=attrs.descending, stable=True)
    return out.values, out.indices


MOVEMENT: dict[str, Meaning] = {
    "iota": _iota,
    "full": _full,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "pad": pad_tensor,
    "concat": _concat,
    "rev": _rev,
    "gather": _gather,
    "scatter": _scatter,
    "check": _reach,
}
"""The rows of `interp.MEANING` that create and move elements."""

REDUCTIONS: dict[str, Meaning] = {
    "reduce_sum": _reduce_sum,
    "reduce_prod": _reduce_prod,
    "reduce_max": _reduce_max,
    "reduce_min": _reduce_min,
    "reduce_and": _reduce_and,
    "reduce_or": _reduce_or,
    "argmax": _argmax,
    "argmin": _argmin,
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "cummax": _cummax,
    "cummin": _cummin,
    "sort": _sort,
}
"""The rows of `interp.MEANING` that reduce, scan and sort."""
