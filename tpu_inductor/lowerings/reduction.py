"""Sums, products, extrema, tests and arg-reductions over dimensions.

Sums and means of bfloat16 and float16 accumulate in float32 and round once. Order statistics
(median, mode, kthvalue) are not done here: they run in torch.
"""

from collections.abc import Sequence

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.conversion import convert_as_torch
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

Dims = int | Sequence[int] | None

_EMPTY = "torch raises on an extremum over no elements"


def accumulator(dtype: DType) -> DType:
    """The type in which values of `dtype` are summed and normalised: float32 for half floats."""
    return DType.F32 if dtype in (DType.BF16, DType.F16) else dtype


def reduced_dims(x: Value, dim: Dims) -> tuple[int, ...]:
    """The dimensions that `dim` names, ascending; all of them for None and for no names."""
    rank = x.type.rank
    if dim is None or (not isinstance(dim, int) and not dim):
        return tuple(range(rank))
    named = (dim,) if isinstance(dim, int) else dim
    return tuple(sorted({d % rank for d in named})) if rank else ()


def reduced_size(x: Value, dims: Sequence[int]) -> int:
    """How many elements of `x` one element of a reduction over `dims` reads."""
    count = 1
    for d in dims:
        count *= x.type.dims[d]
    return count


def sum_over(b: Builder, x: Value, dims: Sequence[int], keepdims: bool = False) -> Value:
    """The sum of `x` over `dims`. Of one element too it is a sum from zero, which is never -0.0."""
    if reduced_size(x, dims) == 1:
        x = from_zero(b, x)
    return b.reduce("reduce_sum", x, dims, keepdims)


def from_zero(b: Builder, x: Value) -> Value:
    """0 + x, which is never -0.0, and which XLA does not drop."""
    if not x.type.dtype.is_float:
        return x
    zero = b.lit(0, x.type.dtype)
    return b.op("select", b.op("eq", x, zero), zero, x)


def mean_over(b: Builder, x: Value, dims: Sequence[int], keepdims: bool = False) -> Var:
    """The mean of a float `x` over `dims` in the type of `x`; NaN over no elements."""
    total = sum_over(b, x, dims, keepdims)
    return b.op("div", total, b.lit(reduced_size(x, dims), x.type.dtype))


def _reduce_as(b: Builder, prim: str, x: Value, dims: Sequence[int], keepdim: bool) -> Value:
    """Reduces in the result type, or in its accumulator."""
    result = b.out[0].dtype
    if result is DType.BOOL:
        prim = {"reduce_sum": "reduce_or", "reduce_prod": "reduce_and"}[prim]
    x = b.convert(convert_as_torch(b, x, result), accumulator(result))
    if prim == "reduce_sum":
        return b.convert(sum_over(b, x, dims, keepdim), result)
    return b.convert(b.reduce(prim, x, dims, keepdim), result)


# -- sums, means, products -----------------------------------------------------


@lowering(aten.sum.default)
def sum_all(b: Builder, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    return _reduce_as(b, "reduce_sum", x, reduced_dims(x, None), False)


@lowering(aten.sum.dim_IntList)
def sum_dims(
    b: Builder, x: Value, dim: Dims, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Value:
    return _reduce_as(b, "reduce_sum", x, reduced_dims(x, dim), keepdim)


@lowering(aten.nansum.default)
def nansum(
    b: Builder,
    x: Value,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    if x.type.dtype.is_float:
        x = b.op("select", b.op("is_nan", x), b.lit(0, x.type.dtype), x)
    return _reduce_as(b, "reduce_sum", x, reduced_dims(x, dim), keepdim)


@lowering(aten.mean.default)
def mean_all(b: Builder, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    return mean_dims(b, x, None)


@lowering(aten.mean.dim)
def mean_dims(
    b: Builder, x: Value, dim: Dims, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Value:
    result = b.out[0].dtype
    x = b.convert(b.convert(x, result), accumulator(result))
    return b.convert(mean_over(b, x, reduced_dims(x, dim), keepdim), result)


@lowering(aten.prod.default)
def prod_all(b: Builder, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    return _reduce_as(b, "reduce_prod", x, reduced_dims(x, None), False)


@lowering(aten.prod.dim_int)
def prod_dim(
    b: Builder, x: Value, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Value:
    return _reduce_as(b, "reduce_prod", x, reduced_dims(x, dim), keepdim)


# -- tests ---------------------------------------------------------------------


def _test(b: Builder, prim: str, x: Value, dims: Sequence[int], keepdim: bool) -> Value:
    found = b.reduce(prim, b.convert(x, DType.BOOL), dims, keepdim)
    return b.convert(found, b.out[0].dtype)


def _tested_dims(b: Builder, x: Value, dim: Dims, keepdim: bool) -> tuple[int, ...]:
    """For `any` and `all` alone, an empty list of dimensions may mean none: torch's shape tells."""
    if isinstance(dim, Sequence) and not dim and b.out[0].shape == x.type.shape:
        return ()
    return reduced_dims(x, dim)


@lowering(aten.any.default)
def any_all(b: Builder, x: Value) -> Value:
    return _test(b, "reduce_or", x, reduced_dims(x, None), False)


@lowering(aten.any.dim)
def any_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> Value:
    return _test(b, "reduce_or", x, reduced_dims(x, dim), keepdim)


@lowering(aten.any.dims)
def any_dims(b: Builder, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _test(b, "reduce_or", x, _tested_dims(b, x, dim, keepdim), keepdim)


@lowering(aten.all.default)
def all_all(b: Builder, x: Value) -> Value:
    return _test(b, "reduce_and", x, reduced_dims(x, None), False)


@lowering(aten.all.dim)
def all_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> Value:
    return _test(b, "reduce_and", x, reduced_dims(x, dim), keepdim)


@lowering(aten.all.dims)
def all_dims(b: Builder, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _test(b, "reduce_and", x, _tested_dims(b, x, dim, keepdim), keepdim)


def _count(b: Builder, x: Value, dim: Dims) -> Value:
    flags = b.convert(b.convert(x, DType.BOOL), DType.I64)
    return b.reduce("reduce_sum", flags, reduced_dims(x, dim))


@lowering(aten.count_nonzero.default)
def count_nonzero(b: Builder, x: Value, dim: int | None = None) -> Value:
    return _count(b, x, dim)


@lowering(aten.count_nonzero.dim_IntList)
def count_nonzero_dims(b: Builder, x: Value, dim: Dims) -> Value:
    return _count(b, x, dim)


# -- extrema -------------------------------------------------------------------

_OF_BOOL = {"reduce_max": "reduce_or", "reduce_min": "reduce_and"}


def _extremum(b: Builder, prim: str, x: Value, dim: Dims, keepdim: bool) -> Value | Reject:
    dims = reduced_dims(x, dim)
    if reduced_size(x, dims) == 0:
        return Reject(_EMPTY)
    prim = _OF_BOOL[prim] if x.type.dtype is DType.BOOL else prim
    return b.reduce(prim, x, dims, keepdim)


@lowering(aten.amax.default)
def amax(b: Builder, x: Value, dim: Dims = (), keepdim: bool = False) -> Value | Reject:
    return _extremum(b, "reduce_max", x, dim, keepdim)


@lowering(aten.amin.default)
def amin(b: Builder, x: Value, dim: Dims = (), keepdim: bool = False) -> Value | Reject:
    return _extremum(b, "reduce_min", x, dim, keepdim)


@lowering(aten.max.default)
def max_all(b: Builder, x: Value) -> Value | Reject:
    return _extremum(b, "reduce_max", x, None, False)


@lowering(aten.min.default)
def min_all(b: Builder, x: Value) -> Value | Reject:
    return _extremum(b, "reduce_min", x, None, False)


Pair = tuple[Value, Value]


def _pair(first: Value | Reject, second: Value | Reject) -> Pair | Reject:
    if isinstance(first, Reject):
        return first
    return second if isinstance(second, Reject) else (first, second)


@lowering(aten.aminmax.default)
def aminmax(
    b: Builder, x: Value, *, dim: int | None = None, keepdim: bool = False
) -> Pair | Reject:
    low = _extremum(b, "reduce_min", x, dim, keepdim)
    return _pair(low, _extremum(b, "reduce_max", x, dim, keepdim))


# -- positions of extrema ------------------------------------------------------


def _position(b: Builder, prim: str, x: Value, dim: int | None) -> Value | Reject:
    """The int64 position of the first NaN, else of the first extremum; of the flat `x` for None."""
    result = b.out[-1]
    searched = reduced_size(x, reduced_dims(x, dim))
    if searched == 0:
        return Reject(_EMPTY)
    if searched == 1:
        return b.full(result.shape, DType.I64, 0)
    if dim is None:
        x, dim = b.reshape(x, (x.type.size,)), 0
    if x.type.dtype is DType.BOOL:
        x = b.convert(x, DType.I32)
    position = b.one(prim, x, attrs=A.Axis(dim % x.type.rank))
    return b.reshape(b.convert(position, DType.I64), result.shape)


@lowering(aten.argmax.default)
def argmax(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value | Reject:
    return _position(b, "argmax", x, dim)


@lowering(aten.argmin.default)
def argmin(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value | Reject:
    return _position(b, "argmin", x, dim)


@lowering(aten.max.dim)
def max_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> Pair | Reject:
    return _pair(_extremum(b, "reduce_max", x, dim, keepdim), _position(b, "argmax", x, dim))


@lowering(aten.min.dim)
def min_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> Pair | Reject:
    return _pair(_extremum(b, "reduce_min", x, dim, keepdim), _position(b, "argmin", x, dim))
