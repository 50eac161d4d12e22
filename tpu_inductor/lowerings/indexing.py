"""Lowerings that read elements at computed places: indexing, gathers, embeddings, searches.

Every one becomes the primitive `gather`, whose index arrays are non-negative here.
"""

from collections.abc import Sequence

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder, broadcast_shapes
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType, Scalar, Shape
from tpu_inductor.lowerings.checks import (
    check_along,
    check_flat,
    check_rows,
    check_selected,
    check_sorter,
    check_wrapped,
)
from tpu_inductor.lowerings.dims import at_least_1d, move_dims, wrap_dim
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

MASKS = (DType.BOOL, DType.U8)
_DATA_DEPENDENT = Reject("a result whose size depends on the values of a mask")


def wrap_index(b: Builder, index: Value, extent: int) -> Value:
    """Negative elements of `index` counted from the end."""
    dtype = index.type.dtype
    negative = b.op("lt", index, b.lit(0, dtype))
    return b.op("select", negative, b.op("add", index, b.lit(extent, dtype)), index)


def aligned_indices(b: Builder, shape: Shape, dim: int, index: Value) -> tuple[Var, ...]:
    """One index array per dimension: `index` for `dim`, its own position for the others."""
    dtype = index.type.dtype
    return tuple(
        b.tensor(index) if d == dim else b.iota(shape, dtype, d) for d in range(len(shape))
    )


# -- index.Tensor --------------------------------------------------------------
def split_indices(
    b: Builder, x: Value, indices: Sequence[Value | None]
) -> tuple[tuple[int, ...], tuple[Var, ...]]:
    """The indexed dimensions, and their non-negative index arrays, broadcast to one shape."""
    dims = tuple(d for d, index in enumerate(indices) if index is not None)
    found = [index for index in indices if index is not None]
    wide = DType.I64 if any(i.type.dtype is DType.I64 for i in found) else DType.I32
    shape = broadcast_shapes(*(i.type.shape for i in found))
    arrays = [
        b.broadcast_to(wrap_index(b, b.convert(i, wide), x.type.dims[d]), shape)
        for d, i in zip(dims, found, strict=True)
    ]
    return dims, tuple(arrays)


def index_position(dims: tuple[int, ...]) -> int:
    """Where torch puts the shape of the indices: in place if adjacent, else in front."""
    adjacent = dims == tuple(range(dims[0], dims[0] + len(dims)))
    return dims[0] if adjacent else 0


def check_indices(b: Builder, x: Value, indices: Sequence[Value | None]) -> None:
    """Checks each index; torch's words count the indexed dimensions alone."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    for place, (dim, index) in enumerate(given):
        check_wrapped(b, index, place, x.type.dims[dim])


@lowering(aten.index.Tensor)
def index(b: Builder, x: Value, indices: Sequence[Value | None]) -> Value | Reject:
    if any(i is not None and i.type.dtype in MASKS for i in indices):
        return _DATA_DEPENDENT
    if b.out[0].size:
        check_indices(b, x, indices)
    return index_unchecked(b, x, indices)


@lowering(aten._unsafe_index.Tensor)
def index_unchecked(b: Builder, x: Value, indices: Sequence[Value | None]) -> Value | Reject:
    if any(i is not None and i.type.dtype in MASKS for i in indices):
        return _DATA_DEPENDENT
    dims, arrays = split_indices(b, x, indices)
    found = b.one("gather", b.tensor(x), *arrays, attrs=A.Gather(dims))
    rank, at = arrays[0].type.rank, index_position(dims)
    return move_dims(b, found, range(rank), range(at, at + rank))


# -- one dimension -------------------------------------------------------------
@lowering(aten.index_select.default)
def index_select(b: Builder, x: Value, dim: int, index: Value) -> Value:
    dim = wrap_dim(dim, x.type.rank)
    index = at_least_1d(b, index)
    check_selected(b, index, x, dim)
    rows = b.one("gather", at_least_1d(b, x), index, attrs=A.Gather((dim,)))
    return b.reshape(move_dims(b, rows, (0,), (dim,)), b.out[0].shape)


@lowering(aten.embedding.default)
def embedding(
    b: Builder,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    check_rows(b, indices, weight.type.dims[0])
    return b.one("gather", b.tensor(weight), b.tensor(indices), attrs=A.Gather((0,)))


def take_along(b: Builder, x: Value, dim: int, index: Value) -> Var:
    """`x` at `index` along `dim` and at the element's own position elsewhere."""
    arrays = aligned_indices(b, index.type.shape, dim, index)
    return b.one("gather", b.tensor(x), *arrays, attrs=A.Gather(tuple(range(x.type.rank))))


@lowering(aten.gather.default)
def gather(b: Builder, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    out = b.out[0]
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    dim = wrap_dim(dim, x.type.rank)
    x = at_least_1d(b, x)
    check_along(b, index, dim, x.type.dims[dim])
    found = take_along(b, x, dim, at_least_1d(b, index))
    return b.reshape(found, out.shape)


@lowering(aten.take.default)
def take(b: Builder, x: Value, index: Value) -> Value:
    check_flat(b, index, x.type.size)
    flat = b.reshape(x, (x.type.size,))
    return b.one("gather", flat, wrap_index(b, index, x.type.size), attrs=A.Gather((0,)))


# -- searches ------------------------------------------------------------------
def _search(b: Builder, edges: Value, x: Value, right: bool, sorter: Value | None) -> Var:
    """Torch's own binary search, whose answer is fixed even where NaN breaks the order.

    `edges` (n,) or (*lead, n), `x` any shape or (*lead, m) --> int64 places of the shape of `x`.
    """
    shape, dtype = x.type.shape, DType.I64
    extent = edges.type.dims[-1]
    low, high = b.full(shape, dtype, 0), b.full(shape, dtype, extent)
    for _ in range(extent.bit_length()):
        middle = b.op("shift_right", b.op("add", low, high), b.lit(1, dtype))
        # A finished search may look one past the end; what it reads there is not used.
        place = b.op("min", middle, b.lit(max(extent - 1, 0), dtype))
        edge = _at(b, edges, place if sorter is None else _at(b, sorter, place))
        open_ = b.op("lt", low, high)
        before = b.op("not", b.op("gt" if right else "ge", edge, x))
        after = b.op("add", middle, b.lit(1, dtype))
        low = b.op("select", b.op("and", open_, before), after, low)
        high = b.op("select", b.op("and", open_, b.op("not", before)), middle, high)
    return low


def _at(b: Builder, edges: Value, place: Var) -> Var:
    if edges.type.rank == 1:
        return b.one("gather", b.tensor(edges), place, attrs=A.Gather((0,)))
    return take_along(b, edges, edges.type.rank - 1, place)


def _searched(
    b: Builder, edges: Value, x: Value, right: bool, sorter: Value | None = None
) -> Value | Reject:
    if edges.type.dtype is not x.type.dtype:
        return Reject("a search among values of another type")
    if edges.type.rank == 0 or edges.type.rank not in (1, x.type.rank):
        return Reject("a search in a sequence of another rank")
    if sorter is not None:
        check_sorter(b, sorter, edges.type.dims[-1])
        sorter = b.convert(sorter, DType.I64)
    return b.convert(_search(b, edges, b.tensor(x), right, sorter), b.out[0].dtype)


@lowering(aten.searchsorted.Tensor)
def searchsorted(
    b: Builder,
    sorted_sequence: Value,
    x: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value | Reject:
    return _searched(b, sorted_sequence, x, right or side == "right", sorter)


@lowering(aten.searchsorted.Scalar)
def searchsorted_scalar(
    b: Builder,
    sorted_sequence: Value,
    x: Scalar | Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value | Reject:
    number = _scalar_like(b, sorted_sequence, x)
    if isinstance(number, Reject):
        return number
    return _searched(b, sorted_sequence, number, right or side == "right", sorter)


@lowering(aten.bucketize.Tensor)
def bucketize(
    b: Builder, x: Value, boundaries: Value, *, out_int32: bool = False, right: bool = False
) -> Value | Reject:
    return _searched(b, boundaries, x, right)


@lowering(aten.bucketize.Scalar)
def bucketize_scalar(
    b: Builder,
    x: Scalar | Value,
    boundaries: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Value | Reject:
    number = _scalar_like(b, boundaries, x)
    return number if isinstance(number, Reject) else _searched(b, boundaries, number, right)


def _scalar_like(b: Builder, edges: Value, x: Scalar | Value) -> Value | Reject:
    dtype = edges.type.dtype
    if not isinstance(x, bool | int | float):
        return Reject("a search for a number that is known only at run time")
    if isinstance(x, float) and not dtype.is_float:
        return Reject("a search for a fraction among integers")
    return b.lit(x, dtype)
