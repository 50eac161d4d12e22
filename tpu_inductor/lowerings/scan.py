"""Lowerings that accumulate along a dimension: cumulative sums, products and extremes."""

import torch

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.conversion import convert_as_torch
from tpu_inductor.lowerings.dims import at_least_1d, wrap_dim
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


def _scan(b: Builder, prim: str, x: Value, dim: int) -> Value:
    out = b.out[0]
    x = convert_as_torch(b, x, out.dtype)
    if x.type.rank == 0 or x.type.size == 0:
        return b.tensor(x)
    x = b.tensor(b.convert(x, accumulator(out.dtype)))
    return b.convert(b.one(prim, x, attrs=A.Axis(wrap_dim(dim, x.type.rank))), out.dtype)


@lowering(aten.cumsum.default)
def cumsum(b: Builder, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    return _scan(b, "cumsum", x, dim)


@lowering(aten.cumprod.default)
def cumprod(b: Builder, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    return _scan(b, "cumprod", x, dim)


def _extreme(b: Builder, prim: str, x: Value, dim: int) -> tuple[Value, Value]:
    """The running extreme, and where it was last met: at equal values and at NaN it moves on."""
    out = b.out[0]
    if x.type.size == 0:
        return b.tensor(x), b.full(out.shape, DType.I64, 0)
    x = at_least_1d(b, x)
    dim = wrap_dim(dim, x.type.rank)
    work = x if x.type.dtype is not DType.BOOL else b.tensor(b.convert(x, DType.U8))
    values: Var = b.one(prim, work, attrs=A.Axis(dim))
    met = b.op("eq", work, values)
    if work.type.dtype.is_float:
        met = b.op("or", met, b.op("is_nan", work))
    place = b.iota(x.type.shape, DType.I64, dim)
    place = b.op("select", met, place, b.lit(0, DType.I64))
    last = b.one("cummax", place, attrs=A.Axis(dim))
    return b.reshape(b.convert(values, out.dtype), out.shape), b.reshape(last, out.shape)


@lowering(aten.cummax.default)
def cummax(b: Builder, x: Value, dim: int) -> tuple[Value, Value]:
    return _extreme(b, "cummax", x, dim)


@lowering(aten.cummin.default)
def cummin(b: Builder, x: Value, dim: int) -> tuple[Value, Value]:
    return _extreme(b, "cummin", x, dim)
