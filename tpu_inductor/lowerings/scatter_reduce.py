"""Lowerings of `scatter_reduce` and `index_reduce`: sums, products, means and extremes by index."""

import math

import torch

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.graph.types import DType, Scalar
from tpu_inductor.lowerings.checks import check_along, check_rows
from tpu_inductor.lowerings.dims import at_least_1d, wrap_dim
from tpu_inductor.lowerings.indexing import aligned_indices
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering
from tpu_inductor.lowerings.scatter import shaped_updates, write

aten = torch.ops.aten

_MODES = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def lowest(dtype: DType) -> Scalar:
    """What a maximum in `dtype` starts from."""
    if dtype.is_float:
        return -math.inf
    if dtype is DType.BOOL or not dtype.is_signed_int:
        return 0
    return -(1 << (8 * dtype.itemsize - 1))


def highest(dtype: DType) -> Scalar:
    """What a minimum in `dtype` starts from."""
    if dtype.is_float:
        return math.inf
    if dtype is DType.BOOL:
        return 1
    return (1 << (8 * dtype.itemsize - int(dtype.is_signed_int))) - 1


def _identity(reduce: str, dtype: DType) -> Scalar:
    return {"sum": 0, "mean": 0, "prod": 1, "amax": lowest(dtype), "amin": highest(dtype)}[reduce]


def _reduce_at(
    b: Builder,
    x: Value,
    updates: Value,
    dims: tuple[int, ...],
    indices: tuple[Value, ...],
    reduce: str,
    include_self: bool,
) -> Value:
    dtype = x.type.dtype
    wide = accumulator(dtype)
    x, updates = b.convert(x, wide), b.convert(updates, wide)
    if not include_self:
        start = b.full(updates.type.shape, wide, _identity(reduce, wide))
        x = write(b, x, start, dims, indices, "set")
    out = write(b, x, updates, dims, indices, _MODES[reduce])
    if reduce == "mean":
        ones = b.full(updates.type.shape, DType.I32, 1)
        count = b.full(x.type.shape, DType.I32, 1 if include_self else 0)
        count = write(b, count, ones, dims, indices, "add")
        count = b.op("max", count, b.lit(1, DType.I32))
        return b.convert(_divide(b, out, b.convert(count, wide)), dtype)
    return b.convert(out, dtype)


def _divide(b: Builder, total: Value, count: Value) -> Value:
    """`total / count` for a positive count; integers round down."""
    dtype = total.type.dtype
    if dtype.is_float:
        return b.op("div", total, count)
    zero, one = b.lit(0, dtype), b.lit(1, dtype)
    ragged = b.op("lt", b.op("rem", total, count), zero)
    whole = b.op("idiv", total, count)
    return b.op("select", ragged, b.op("sub", whole, one), whole)


@lowering(aten.scatter_reduce.two)
def scatter_reduce(
    b: Builder,
    x: Value,
    dim: int,
    index: Value,
    src: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    updates = at_least_1d(b, shaped_updates(b, src, x.type.dtype, index.type.shape))
    target, index = at_least_1d(b, x), at_least_1d(b, index)
    if index.type.size == 0:
        return b.tensor(x)
    dim = wrap_dim(dim, x.type.rank)
    check_along(b, index, dim, target.type.dims[dim])
    arrays = aligned_indices(b, index.type.shape, dim, index)
    dims = tuple(range(target.type.rank))
    out = _reduce_at(b, target, updates, dims, arrays, reduce, include_self)
    return b.reshape(out, x.type.shape)


@lowering(aten.index_reduce.default)
def index_reduce(
    b: Builder,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    target, index = at_least_1d(b, x), at_least_1d(b, index)
    if index.type.size == 0:
        return b.tensor(x)
    dim = wrap_dim(dim, x.type.rank)
    if x.type.size:
        check_rows(b, index, target.type.dims[dim])
    perm = (dim, *(d for d in range(target.type.rank) if d != dim))
    rows = b.transpose(at_least_1d(b, source), perm)
    out = _reduce_at(b, target, rows, (dim,), (index,), reduce, include_self)
    return b.reshape(out, x.type.shape)
