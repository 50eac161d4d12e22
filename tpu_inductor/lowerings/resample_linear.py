"""Lowerings of linear up- and downsampling in one to three dimensions, and of its gradient."""

from collections.abc import Sequence
from math import prod

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.dims import DYNAMIC, Size, is_dynamic, move_dims
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering
from tpu_inductor.lowerings.resample import Scale, round_f32
from tpu_inductor.lowerings.scatter import write

aten = torch.ops.aten


def _linear(b: Builder, x: Value, align_corners: bool, scales: Sequence[Scale]) -> Value | Reject:
    out, rank = b.out[0], b.out[0].rank
    if is_dynamic(scales):
        return DYNAMIC
    if not out.dtype.is_float:
        return Reject("linear resampling of integers")
    if out.size == 0 or prod(x.type.dims) == 0:
        return b.full(out.shape, out.dtype, 0)
    wide = accumulator(out.dtype)
    work = b.convert(x, wide)
    for i, given in reversed(list(enumerate(scales))):
        dim = rank - len(scales) + i
        work = _linear_one(b, work, dim, out.dims[dim], align_corners, given)
    return b.convert(work, out.dtype)


def _linear_scale(
    extent: int, count: int, align_corners: bool, given: float | None, dtype: DType
) -> float:
    round_ = round_f32 if dtype is DType.F32 else float
    if align_corners:
        return round_(round_(extent - 1) / (count - 1)) if count > 1 else 0.0
    if given is not None and given > 0:
        return round_(1.0 / given)
    return round_(round_(extent) / count)


def _neighbours(
    b: Builder, dtype: DType, extent: int, count: int, align_corners: bool, given: float | None
) -> tuple[Var, Var, Var]:
    """The two neighbours of each place of the result, int32, and the share of the second."""
    scale = b.lit(_linear_scale(extent, count, align_corners, given, dtype), dtype)
    place: Value = b.convert(b.iota((count,), DType.I32, 0), dtype)
    half, zero, one = b.lit(0.5, dtype), b.lit(0, dtype), b.lit(1, dtype)
    if align_corners:
        place = b.op("mul", place, scale)
    else:
        place = b.op("sub", b.op("mul", b.op("add", place, half), scale), half)
        place = b.op("max", place, zero)
    left = b.op("min", b.op("floor", place), b.lit(extent - 1, dtype))
    share = b.op("min", b.op("max", b.op("sub", place, left), zero), one)
    low = b.tensor(b.convert(left, DType.I32))
    high = b.op("min", b.op("add", low, b.lit(1, DType.I32)), b.lit(extent - 1, DType.I32))
    return low, high, share


def _linear_one(
    b: Builder, x: Value, dim: int, count: int, align_corners: bool, given: float | None
) -> Value:
    """Along one dimension: the two neighbours of each place, weighted by its distance to them."""
    dtype, extent, rank = x.type.dtype, x.type.dims[dim], x.type.rank
    if count == extent:
        return x
    low, high, share = _neighbours(b, dtype, extent, count, align_corners, given)
    second = b.reshape(share, tuple(count if d == dim else 1 for d in range(rank)))
    first = b.op("sub", b.lit(1, dtype), second)
    left, right = (
        move_dims(b, b.one("gather", b.tensor(x), p, attrs=A.Gather((dim,))), (0,), (dim,))
        for p in (low, high)
    )
    return b.op("add", b.op("mul", left, first), b.op("mul", right, second))


def _linear_backward(
    b: Builder, grad: Value, align_corners: bool, scales: Sequence[Scale]
) -> Value | Reject:
    out, rank = b.out[0], b.out[0].rank
    if is_dynamic(scales):
        return DYNAMIC
    if out.size == 0 or grad.type.size == 0:
        return b.full(out.shape, out.dtype, 0)
    work = b.convert(grad, accumulator(out.dtype))
    for i, given in enumerate(scales):
        dim = rank - len(scales) + i
        work = _linear_one_backward(b, work, dim, out.dims[dim], align_corners, given)
    return b.convert(work, out.dtype)


def _linear_one_backward(
    b: Builder, grad: Value, dim: int, extent: int, align_corners: bool, given: float | None
) -> Value:
    dtype, count, rank = grad.type.dtype, grad.type.dims[dim], grad.type.rank
    if count == extent:
        return grad
    low, high, share = _neighbours(b, dtype, extent, count, align_corners, given)
    rows = move_dims(b, grad, (dim,), (0,))
    second = b.reshape(share, (count, *(1,) * (rank - 1)))
    first = b.op("sub", b.lit(1, dtype), second)
    shape = (*grad.type.shape[:dim], extent, *grad.type.shape[dim + 1 :])
    total = b.full(shape, dtype, 0)
    for places, weight in ((low, first), (high, second)):
        total = write(b, total, b.op("mul", rows, weight), (dim,), (places,), "add")
    return total


@lowering(aten.upsample_linear1d.default)
def upsample_linear1d(
    b: Builder, x: Value, output_size: Sequence[Size], align_corners: bool, scales: Scale = None
) -> Value | Reject:
    return _linear(b, x, align_corners, (scales,))


@lowering(aten.upsample_bilinear2d.default)
def upsample_bilinear2d(
    b: Builder,
    x: Value,
    output_size: Sequence[Size],
    align_corners: bool,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _linear(b, x, align_corners, (scales_h, scales_w))


@lowering(aten.upsample_trilinear3d.default)
def upsample_trilinear3d(
    b: Builder,
    x: Value,
    output_size: Sequence[Size],
    align_corners: bool,
    scales_d: Scale = None,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _linear(b, x, align_corners, (scales_d, scales_h, scales_w))


@lowering(aten.upsample_linear1d_backward.default)
def upsample_linear1d_backward(
    b: Builder,
    grad_output: Value,
    output_size: Sequence[Size],
    input_size: Sequence[Size],
    align_corners: bool,
    scales: Scale = None,
) -> Value | Reject:
    return _linear_backward(b, grad_output, align_corners, (scales,))


@lowering(aten.upsample_bilinear2d_backward.default)
def upsample_bilinear2d_backward(
    b: Builder,
    grad_output: Value,
    output_size: Sequence[Size],
    input_size: Sequence[Size],
    align_corners: bool,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _linear_backward(b, grad_output, align_corners, (scales_h, scales_w))
