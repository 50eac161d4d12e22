"""Distances between points: every point of one set from every point of another.

Euclidean distances between many points go through a matrix product, as in torch; it is less exact
for points that are near each other.
"""

import math

import torch

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.lowerings.matmul import contract
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

_FEW_POINTS = 25
_ALWAYS_BY_PRODUCT = 1
_NEVER_BY_PRODUCT = 2


@lowering(aten._cdist_forward.default)
def cdist(b: Builder, x1: Value, x2: Value, p: float, compute_mode: int | None) -> Value:
    """x1 (*batch, n, k) and x2 (*batch, m, k) --> (*batch, n, m); the batches broadcast."""
    out = b.out[0]
    if out.size == 0 or x1.type.dims[-1] == 0:
        return b.full(out.shape, out.dtype, 0)
    x1, x2 = (b.convert(x, accumulator(out.dtype)) for x in (x1, x2))
    many = max(out.dims[-2:]) > _FEW_POINTS and compute_mode != _NEVER_BY_PRODUCT
    if p == 2 and (many or compute_mode == _ALWAYS_BY_PRODUCT):
        return b.convert(_by_product(b, x1, x2), out.dtype)
    left = b.expand_dims(x1, (x1.type.rank - 1,))
    right = b.expand_dims(x2, (x2.type.rank - 2,))
    apart = b.op("abs", b.op("sub", left, right))
    return b.convert(_norm(b, apart, p), out.dtype)


def _norm(b: Builder, x: Value, p: float) -> Value:
    """The p-norm over the last dimension of `x`, whose elements are not negative."""
    dtype, last = x.type.dtype, (x.type.rank - 1,)
    if p == 0:
        differs = b.op("min", b.op("ceil", x), b.lit(1, dtype))
        return b.reduce("reduce_sum", differs, last)
    if p == 1:
        return b.reduce("reduce_sum", x, last)
    if p == 2:
        return b.op("sqrt", b.reduce("reduce_sum", b.op("mul", x, x), last))
    if p == math.inf:
        known = b.op("select", b.op("is_nan", x), b.lit(0, dtype), x)  # torch passes over NaN
        return b.reduce("reduce_max", known, last)
    total = b.reduce("reduce_sum", b.op("pow", x, b.lit(p, dtype)), last)
    return b.op("pow", total, b.lit(1 / p, dtype))


def _by_product(b: Builder, x: Value, y: Value) -> Value:
    """sqrt(|x|^2 + |y|^2 - 2 x y), where rounding may not make it negative."""
    out, rank = b.out[0], b.out[0].rank
    batch = tuple(range(rank - 2))
    x = b.broadcast_to(x, (*out.shape[:-2], *x.type.shape[-2:]))
    y = b.broadcast_to(y, (*out.shape[:-2], *y.type.shape[-2:]))
    product = contract(b, x, y, ((rank - 1,), (rank - 1,)), (batch, batch))
    dtype = product.type.dtype
    squares = (b.reduce("reduce_sum", b.op("mul", v, v), (rank - 1,)) for v in (x, y))
    left, right = (
        b.expand_dims(s, (d,)) for s, d in zip(squares, (rank - 1, rank - 2), strict=True)
    )
    total = b.op("sub", b.op("add", left, right), b.op("mul", product, b.lit(2, dtype)))
    return b.op("sqrt", b.op("max", total, b.lit(0, dtype)))
