"""Lowerings that order elements: sort, topk, and the order statistics that follow from a sort."""

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.dims import DYNAMIC, Size, at_least_1d, is_dynamic, wrap_dim
from tpu_inductor.lowerings.indexing import take_along
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

MOST_TIED = 16
_TIES = Reject("a choice among equal elements, which torch leaves open")


def _sorted(b: Builder, x: Value, dim: int, descending: bool) -> tuple[Var, Var]:
    """`x` of rank 1 or more, sorted stably along `dim`, and where its elements came from."""
    x = at_least_1d(b, x)
    dtype = x.type.dtype
    x = b.tensor(b.convert(x, DType.U8)) if dtype is DType.BOOL else x
    attrs = A.Sort(wrap_dim(dim, x.type.rank), descending)
    values, indices = b.emit("sort", x, attrs=attrs)
    return b.tensor(b.convert(values, dtype)), indices


def _is_tied(x: Value, dim: int) -> bool:
    """Whether so few values exist that equal elements, whose order torch leaves open, are the rule.

    Such results are valid in any order, but a program should not differ from eager without need.
    """
    extent = x.type.dims[wrap_dim(dim, x.type.rank)] if x.type.rank else 1
    return x.type.dtype.itemsize <= 2 and extent > MOST_TIED


@lowering(aten.sort.default)
def sort(
    b: Builder, x: Value, dim: int = -1, descending: bool = False
) -> tuple[Value, Value] | Reject:
    if _is_tied(x, dim):
        return Reject("an unstable sort of a narrow type, whose ties torch orders as it likes")
    return sort_stable(b, x, stable=True, dim=dim, descending=descending)


@lowering(aten.sort.stable)
def sort_stable(
    b: Builder, x: Value, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    shape = x.type.shape
    if x.type.size == 0:
        return b.tensor(x), b.full(shape, DType.I64, 0)
    values, indices = _sorted(b, x, dim, descending)
    return b.reshape(values, shape), b.reshape(indices, shape)


@lowering(aten.argsort.default)
def argsort(b: Builder, x: Value, dim: int = -1, descending: bool = False) -> Value | Reject:
    found = sort(b, x, dim, descending)
    return found if isinstance(found, Reject) else found[1]


@lowering(aten.argsort.stable)
def argsort_stable(
    b: Builder, x: Value, *, stable: bool, dim: int = -1, descending: bool = False
) -> Value:
    return sort_stable(b, x, stable=True, dim=dim, descending=descending)[1]


@lowering(aten.topk.default)
def topk(
    b: Builder,
    x: Value,
    k: Size,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> tuple[Value, Value] | Reject:
    if is_dynamic(k):
        return DYNAMIC
    if not x.type.dtype.is_float or x.type.dtype.itemsize <= 2:
        return _TIES
    out = b.out[0]
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0), b.full(out.shape, DType.I64, 0)
    dim = wrap_dim(dim, x.type.rank)
    values, indices = _sorted(b, x, dim, largest)
    first, where = b.slice(values, dim, 0, k), b.slice(indices, dim, 0, k)
    return b.reshape(first, out.shape), b.reshape(where, out.shape)


def _pick(b: Builder, values: Var, indices: Var, dim: int, at: Var | int) -> tuple[Value, Value]:
    """The elements at place `at` along `dim` of both tensors, in the shape of the results."""
    if isinstance(at, int):
        value, where = b.slice(values, dim, at, at + 1), b.slice(indices, dim, at, at + 1)
    else:
        value, where = take_along(b, values, dim, at), take_along(b, indices, dim, at)
    shape = b.out[0].shape
    return b.reshape(value, shape), b.reshape(where, shape)


@lowering(aten.kthvalue.default)
def kthvalue(
    b: Builder, x: Value, k: Size, dim: int = -1, keepdim: bool = False
) -> tuple[Value, Value] | Reject:
    if is_dynamic(k):
        return DYNAMIC
    if not x.type.dtype.is_float or x.type.dtype.itemsize <= 2:
        return _TIES
    if x.type.size == 0:
        return Reject("an order statistic of nothing")
    dim = wrap_dim(dim, x.type.rank)
    values, indices = _sorted(b, x, dim, descending=False)
    return _pick(b, values, indices, dim, k - 1)


def _median(b: Builder, x: Value, dim: int, spread_nan: bool) -> tuple[Value, Value] | Reject:
    """The lower median; sorted last, NaN is the answer where `spread_nan` and is skipped else."""
    if x.type.size == 0:
        return Reject("a median of nothing")
    dim = wrap_dim(dim, x.type.rank)
    x = at_least_1d(b, x)
    values, indices = _sorted(b, x, dim, descending=False)
    extent = x.type.dims[dim]
    if not x.type.dtype.is_float:
        return _pick(b, values, indices, dim, (extent - 1) // 2)
    nan = b.convert(b.op("is_nan", x), DType.I64)
    count = b.reduce("reduce_sum", nan, (dim,), keepdims=True)
    valid = b.op("sub", b.lit(extent, DType.I64), count)
    one, zero = b.lit(1, DType.I64), b.lit(0, DType.I64)
    if spread_nan:
        # A stable sort puts the first NaN of the input just after the numbers.
        middle = b.lit((extent - 1) // 2, DType.I64)
        at = b.op("select", b.op("eq", count, zero), middle, valid)
    else:
        at = b.op("max", b.op("shift_right", b.op("sub", valid, one), one), zero)
    return _pick(b, values, indices, dim, at)


@lowering(aten.median.dim)
def median_dim(
    b: Builder, x: Value, dim: int, keepdim: bool = False
) -> tuple[Value, Value] | Reject:
    return _median(b, x, dim, spread_nan=True)


@lowering(aten.nanmedian.dim)
def nanmedian_dim(
    b: Builder, x: Value, dim: int, keepdim: bool = False
) -> tuple[Value, Value] | Reject:
    return _median(b, x, dim, spread_nan=False)


@lowering(aten.median.default)
def median(b: Builder, x: Value) -> Value | Reject:
    found = _median(b, b.reshape(x, (x.type.size,)), 0, spread_nan=True)
    return found if isinstance(found, Reject) else found[0]


@lowering(aten.nanmedian.default)
def nanmedian(b: Builder, x: Value) -> Value | Reject:
    found = _median(b, b.reshape(x, (x.type.size,)), 0, spread_nan=False)
    return found if isinstance(found, Reject) else found[0]
