"""Variances, standard deviations, vector norms and log-sum-exp.

A variance takes two passes (mean, then the mean square of what is left), as it must to be exact
for data whose mean is large. Everything computes in float32 for half floats and rounds once.
"""

import math
from collections.abc import Sequence

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.reduction import (
    Dims,
    accumulator,
    mean_over,
    reduced_dims,
    reduced_size,
)
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

Pair = tuple[Value, Value]


def centre(b: Builder, x: Value, dims: Sequence[int]) -> tuple[Var, Var]:
    """`x` less its mean over `dims`, and the mean with `dims` kept as extents of 1."""
    mean = mean_over(b, x, dims, keepdims=True)
    return b.op("sub", x, mean), mean


def sum_squares(b: Builder, x: Value, dims: Sequence[int], keepdims: bool) -> Var:
    return b.reduce("reduce_sum", b.op("mul", x, x), dims, keepdims)


def _moments(b: Builder, x: Value, dim: Dims, correction: float, keepdim: bool) -> tuple[Var, Var]:
    """Variance and mean in the accumulator's type."""
    x = b.convert(x, accumulator(x.type.dtype))
    dims = reduced_dims(x, dim)
    centred, mean = centre(b, x, dims)
    squares = sum_squares(b, centred, dims, keepdim)
    degrees = max(reduced_size(x, dims) - correction, 0)
    variance = b.op("div", squares, b.lit(degrees, x.type.dtype))
    return variance, mean if keepdim else b.reshape(mean, variance.type.shape)


def _deviation(
    b: Builder, x: Value, dim: Dims, correction: float | None, keepdim: bool, root: bool
) -> Pair:
    """Variance (or its square root) and mean in the type of `x`."""
    variance, mean = _moments(b, x, dim, 1 if correction is None else correction, keepdim)
    spread = b.op("sqrt", variance) if root else variance
    return b.convert(spread, x.type.dtype), b.convert(mean, x.type.dtype)


@lowering(aten.var.correction)
def var(
    b: Builder,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    return _deviation(b, x, dim, correction, keepdim, root=False)[0]


@lowering(aten.std.correction)
def std(
    b: Builder,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    return _deviation(b, x, dim, correction, keepdim, root=True)[0]


@lowering(aten.var_mean.correction)
def var_mean(
    b: Builder,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Pair:
    return _deviation(b, x, dim, correction, keepdim, root=False)


@lowering(aten.std_mean.correction)
def std_mean(
    b: Builder,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Pair:
    return _deviation(b, x, dim, correction, keepdim, root=True)


# -- norms ---------------------------------------------------------------------


@lowering(aten.linalg_vector_norm.default)
def vector_norm(
    b: Builder,
    x: Value,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value | Reject:
    result = b.out[0].dtype
    dims = reduced_dims(x, dim)
    if (ord < 0 or math.isinf(ord)) and reduced_size(x, dims) == 0:
        return Reject("torch raises on this norm of no elements")
    x = b.convert(b.convert(x, result), accumulator(result))
    return b.convert(_norm(b, x, float(ord), dims, keepdim), result)


def _norm(b: Builder, x: Value, order: float, dims: Sequence[int], keepdim: bool) -> Var:
    dtype = x.type.dtype
    if order == 2:
        return b.op("sqrt", sum_squares(b, x, dims, keepdim))
    if order == 0:
        return b.reduce("reduce_sum", b.convert(b.convert(x, DType.BOOL), dtype), dims, keepdim)
    size = b.op("abs", x)
    if math.isinf(order):
        return b.reduce("reduce_max" if order > 0 else "reduce_min", size, dims, keepdim)
    if order == 1:
        return b.reduce("reduce_sum", size, dims, keepdim)
    powers = b.reduce("reduce_sum", b.op("pow", size, b.lit(order, dtype)), dims, keepdim)
    return b.op("pow", powers, b.lit(1 / order, dtype))


@lowering(aten.logsumexp.default)
def logsumexp(b: Builder, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    """log(sum(exp(x))), shifted by the maximum wherever that is finite."""
    result = b.out[0]
    dims = reduced_dims(x, dim)
    if reduced_size(x, dims) == 0:
        return b.full(result.shape, result.dtype, -math.inf)
    x = b.convert(b.convert(x, result.dtype), accumulator(result.dtype))
    dtype = x.type.dtype
    peak = b.reduce("reduce_max", x, dims, keepdims=True)
    infinite = b.op("eq", b.op("abs", peak), b.lit(math.inf, dtype))
    peak = b.op("select", infinite, b.lit(0, dtype), peak)
    shifted = b.op("exp", b.op("sub", x, peak))
    total = b.reduce("reduce_sum", shifted, dims, keepdim)
    peak = peak if keepdim else b.reshape(peak, total.type.shape)
    return b.convert(b.op("add", b.op("log", total), peak), result.dtype)
