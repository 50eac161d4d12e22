"""Lowerings that write elements at computed places, with or without accumulation.

Every one becomes the primitive `scatter`; half floats accumulate in float32 and round once.
"""

from collections.abc import Sequence
from math import prod

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.types import DType, Scalar, Shape
from tpu_inductor.lowerings.checks import (
    check_added,
    check_along,
    check_copied,
    check_flat,
    check_source,
    check_unpooled,
    check_wrapped,
)
from tpu_inductor.lowerings.dims import Size, at_least_1d, move_dims, wrap_dim
from tpu_inductor.lowerings.indexing import (
    MASKS,
    aligned_indices,
    check_indices,
    index_position,
    split_indices,
    wrap_index,
)
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

Number = Scalar | Value


def write(
    b: Builder, x: Value, updates: Value, dims: Sequence[int], indices: Sequence[Value], mode: str
) -> Var:
    """`x` with `updates` set or accumulated at `indices`, in the type of `x`."""
    dtype = x.type.dtype
    wide = dtype if mode in ("set", "max", "min") else accumulator(dtype)
    if dtype is DType.BOOL and mode != "set":
        wide, mode = DType.I32, _BOOL_MODES[mode]
    attrs = A.Scatter(tuple(dims), mode)
    operands = (b.tensor(b.convert(v, wide)) for v in (x, updates))
    out = b.one("scatter", *operands, *(b.tensor(i) for i in indices), attrs=attrs)
    return b.tensor(b.convert(out, dtype))


_BOOL_MODES = {"add": "max", "mul": "min", "max": "max", "min": "min"}


def as_operand(b: Builder, number: Number, dtype: DType) -> Value:
    """A number, or a value of the graph, as an operand of `dtype`."""
    if isinstance(number, Var | Lit):
        return b.convert(number, dtype)
    return b.lit(number, dtype)


# -- index_put -----------------------------------------------------------------
@lowering(aten.index_put.default)
def index_put(
    b: Builder,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
) -> Value | Reject:
    has_mask = any(i is not None and i.type.dtype in MASKS for i in indices)
    if x.type.size and not has_mask:
        check_indices(b, x, indices)
    return index_put_unchecked(b, x, indices, values, accumulate)


@lowering(aten._unsafe_index_put.default)
def index_put_unchecked(
    b: Builder,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
) -> Value | Reject:
    values = b.convert(values, x.type.dtype)
    if any(i is not None and i.type.dtype in MASKS for i in indices):
        return _put_where(b, x, indices, values, accumulate)
    dims, arrays = split_indices(b, x, indices)
    found, at, rank = arrays[0].type.shape, index_position(dims), arrays[0].type.rank
    rest = tuple(n for d, n in enumerate(x.type.shape) if d not in dims)
    updates = b.broadcast_to(values, (*rest[:at], *found, *rest[at:]))
    updates = move_dims(b, updates, range(at, at + rank), range(rank))
    return write(b, x, updates, dims, arrays, "add" if accumulate else "set")


def _put_where(
    b: Builder, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool
) -> Value | Reject:
    """`x[mask] = values` where the values do not depend on how many elements the mask selects."""
    masks = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(masks) != 1 or masks[0][1].type.dtype is not DType.BOOL:
        return Reject("masks beside other indices")
    at, mask = masks[0]
    span, rank = mask.type.rank, x.type.rank
    after = rank - at - span
    values = b.expand_dims(values, range(max(after + 1 - values.type.rank, 0)))
    place = values.type.rank - after - 1
    if values.type.shape[place] != 1:
        return Reject("one value for each element that a mask selects")
    shape = values.type.shape
    values = b.reshape(values, (*shape[:place], *(1,) * span, *shape[place + 1 :]))
    mask = b.reshape(mask, (*mask.type.shape, *(1,) * after))
    shape = x.type.shape
    values, mask = b.broadcast_to(values, shape), b.broadcast_to(mask, shape)
    if accumulate:
        values = b.op("or" if x.type.dtype is DType.BOOL else "add", x, values)
    return b.op("select", mask, values, x)


@lowering(aten.put.default)
def put(b: Builder, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    size = index.type.size
    check_flat(b, index, x.type.size)
    flat = b.reshape(x, (x.type.size,))
    places = b.reshape(wrap_index(b, index, x.type.size), (size,))
    updates = b.reshape(source, (size,))
    out = write(b, flat, updates, (0,), (places,), "add" if accumulate else "set")
    return b.reshape(out, x.type.shape)


@lowering(aten.masked_scatter.default)
def masked_scatter(b: Builder, x: Value, mask: Value, source: Value) -> Value:
    """The k-th true element of the mask takes the k-th element of the source."""
    out = b.out[0]
    x = b.broadcast_to(x, out.shape)
    if source.type.size == 0 or out.size == 0:
        return x
    mask = b.broadcast_to(b.convert(mask, DType.BOOL), out.shape)
    rank = _rank_of_true(b, mask)
    last = b.slice(rank, 0, mask.type.size - 1, mask.type.size)
    check_source(b, b.op("add", last, b.lit(1, DType.I64)), source.type.size)
    order = b.op("max", rank, b.lit(0, DType.I64))
    line = b.reshape(source, (source.type.size,))
    taken = b.one("gather", line, order, attrs=A.Gather((0,)))
    return b.op("select", mask, b.reshape(taken, out.shape), x)


@lowering(aten.masked_scatter_backward.default)
def masked_scatter_backward(
    b: Builder, grad_output: Value, mask: Value, sizes: Sequence[Size]
) -> Value:
    """The gradient at the k-th true element of the mask goes to the k-th element of `sizes`."""
    out, shape = b.out[0], grad_output.type.shape
    if out.size == 0 or grad_output.type.size == 0:
        return b.full(out.shape, out.dtype, 0)
    mask = b.broadcast_to(b.convert(mask, DType.BOOL), shape)
    flat = b.reshape(mask, (mask.type.size,))
    # The false elements go out of bounds, where nothing is written.
    place = b.op("select", flat, _rank_of_true(b, mask), b.lit(out.size, DType.I64))
    line = b.reshape(grad_output, (grad_output.type.size,))
    return b.reshape(
        write(b, b.full((out.size,), out.dtype, 0), line, (0,), (place,), "set"), out.shape
    )


def _rank_of_true(b: Builder, mask: Value) -> Value:
    """How many true elements come before each true one, over the flat mask (n,): int64."""
    flat = b.convert(b.reshape(mask, (mask.type.size,)), DType.I64)
    count = b.one("cumsum", b.tensor(flat), attrs=A.Axis(0))
    return b.op("sub", count, b.lit(1, DType.I64))


# -- along one dimension, whole rows -------------------------------------------
def _write_rows(b: Builder, x: Value, dim: int, index: Value, rows: Value, mode: str) -> Value:
    """`rows` has the shape of `x` but for `dim`, where it has one element per index."""
    dim = wrap_dim(dim, x.type.rank)
    updates = move_dims(b, at_least_1d(b, rows), (dim,), (0,))
    target, index = at_least_1d(b, x), at_least_1d(b, index)
    return b.reshape(write(b, target, updates, (dim,), (index,), mode), x.type.shape)


@lowering(aten.index_add.default)
def index_add(
    b: Builder, x: Value, dim: int, index: Value, source: Value, *, alpha: Number = 1
) -> Value:
    dtype = x.type.dtype
    wide = accumulator(dtype)
    if x.type.size:
        check_added(b, index, x, wrap_dim(dim, x.type.rank), alpha != 1)
    rows = b.convert(source, wide)
    if alpha != 1:
        scale = as_operand(b, alpha, wide)
        rows = b.op("and" if dtype is DType.BOOL else "mul", rows, scale)
    out = _write_rows(b, b.convert(x, wide), dim, index, rows, "add")
    return b.convert(out, dtype)


@lowering(aten.index_copy.default)
def index_copy(b: Builder, x: Value, dim: int, index: Value, source: Value) -> Value:
    dim = wrap_dim(dim, x.type.rank)
    source, target = at_least_1d(b, source), at_least_1d(b, x)
    count = index.type.size
    if x.type.size:
        check_copied(b, index, dim, target.type.dims[dim])
    rows = b.reshape(source, (*target.type.shape[:dim], count, *target.type.shape[dim + 1 :]))
    return _write_rows(b, x, dim, index, rows, "set")


@lowering(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(b: Builder, x: Value, dim: int, index: Value, value: Number) -> Value:
    dim = wrap_dim(dim, x.type.rank)
    target, index = at_least_1d(b, x), at_least_1d(b, index)
    count = index.type.size
    shape = (*target.type.shape[:dim], count, *target.type.shape[dim + 1 :])
    rows = b.broadcast_to(as_operand(b, value, x.type.dtype), shape)
    if x.type.size:
        check_wrapped(b, index, dim, target.type.dims[dim])
    places = wrap_index(b, index, target.type.dims[dim])
    return _write_rows(b, x, dim, places, rows, "set")


# -- along one dimension, element by element -----------------------------------
def _write_along(b: Builder, x: Value, dim: int, index: Value, src: Value, mode: str) -> Value:
    """`src` of the shape of `index` at `index` along `dim` and its own position elsewhere."""
    target, index = at_least_1d(b, x), at_least_1d(b, index)
    if index.type.size == 0:
        return b.tensor(x)
    dims, dim = range(target.type.rank), wrap_dim(dim, x.type.rank)
    check_along(b, index, dim, target.type.dims[dim])
    arrays = aligned_indices(b, index.type.shape, dim, index)
    out = write(b, target, at_least_1d(b, src), dims, arrays, mode)
    return b.reshape(out, x.type.shape)


def _cut(b: Builder, src: Value, shape: Shape) -> Value:
    """The corner of `src` that has `shape`."""
    for dim, extent in enumerate(shape[: src.type.rank]):
        src = b.slice(src, dim, 0, int(extent))
    return b.reshape(src, shape)


def shaped_updates(b: Builder, src: Number, dtype: DType, shape: Shape) -> Var:
    """`src`, cut or spread to the `shape` of an index; of an empty one torch asks nothing of it."""
    if 0 in shape:
        return b.full(shape, dtype, 0)
    if isinstance(src, Var | Lit) and src.type.rank:
        return b.tensor(_cut(b, b.convert(src, dtype), shape))
    return b.broadcast_to(as_operand(b, src, dtype), shape)


_MODES = {"add": "add", "multiply": "mul"}


@lowering(aten.scatter.src)
def scatter(b: Builder, x: Value, dim: int, index: Value, src: Value) -> Value:
    updates = shaped_updates(b, src, x.type.dtype, index.type.shape)
    return _write_along(b, x, dim, index, updates, "set")


@lowering(aten.scatter.value)
def scatter_value(b: Builder, x: Value, dim: int, index: Value, value: Number) -> Value:
    updates = shaped_updates(b, value, x.type.dtype, index.type.shape)
    return _write_along(b, x, dim, index, updates, "set")


@lowering(aten.scatter.reduce)
def scatter_with(b: Builder, x: Value, dim: int, index: Value, src: Value, *, reduce: str) -> Value:
    updates = shaped_updates(b, src, x.type.dtype, index.type.shape)
    return _write_along(b, x, dim, index, updates, _MODES[reduce])


@lowering(aten.scatter.value_reduce)
def scatter_value_with(
    b: Builder, x: Value, dim: int, index: Value, value: Number, *, reduce: str
) -> Value:
    updates = shaped_updates(b, value, x.type.dtype, index.type.shape)
    return _write_along(b, x, dim, index, updates, _MODES[reduce])


@lowering(aten.scatter_add.default)
def scatter_add(b: Builder, x: Value, dim: int, index: Value, src: Value) -> Value:
    updates = shaped_updates(b, src, x.type.dtype, index.type.shape)
    return _write_along(b, x, dim, index, updates, "add")


# -- planes --------------------------------------------------------------------
@lowering(aten.max_unpool2d.default)
def max_unpool2d(b: Builder, x: Value, indices: Value, output_size: Sequence[Size]) -> Value:
    return _unpool(b, x, indices, 2)


@lowering(aten.max_unpool3d.default)
def max_unpool3d(
    b: Builder,
    x: Value,
    indices: Value,
    output_size: Sequence[Size],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Value:
    return _unpool(b, x, indices, 3)


def _unpool(b: Builder, x: Value, indices: Value, rank: int) -> Value:
    """Each element of `x` at its index in a plane (of `rank` dimensions) of zeros."""
    out = b.out[0]
    if x.type.size == 0 or out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    check_unpooled(b, indices, out.dims[-rank:])
    planes, plane = prod(out.dims[:-rank]), prod(out.dims[-rank:])
    flat = (planes, x.type.size // planes)
    row, place = b.iota(flat, indices.type.dtype, 0), b.reshape(indices, flat)
    zeros = b.full((planes, plane), out.dtype, 0)
    return b.reshape(write(b, zeros, b.reshape(x, flat), (0, 1), (row, place), "set"), out.shape)
