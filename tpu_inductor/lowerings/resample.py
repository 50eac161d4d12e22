"""Lowerings of nearest and linear up- and downsampling, with torch's own arithmetic of places."""

from collections.abc import Sequence
from math import prod

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.dims import DYNAMIC, is_dynamic, move_dims
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering
from tpu_inductor.lowerings.scatter import write

aten = torch.ops.aten

Sizes = Sequence[int | Value]
Scale = float | Value | None


# -- nearest -------------------------------------------------------------------
def _round_f32(value: float) -> float:
    return torch.tensor(value, dtype=torch.float32).item()


def _scale_of(extent: int, count: int, scale: float | None) -> float:
    """How far one step of the result goes in the input; the user's factor is its inverse."""
    if scale is not None and scale > 0:
        return _round_f32(1.0 / scale)
    return _round_f32(_round_f32(extent) / _round_f32(count))


def _nearest_places(b: Builder, extent: int, count: int, scale: float, exact: bool) -> Var:
    """min(floor((i + 1/2 if exact) * scale), extent - 1), computed in float32 as torch does."""
    dtype = DType.F32
    place: Value = b.convert(b.iota((count,), DType.I32, 0), dtype)
    place = b.op("add", place, b.lit(0.5, dtype)) if exact else place
    place = b.op("floor", b.op("mul", place, b.lit(scale, dtype)))
    return b.op("min", b.tensor(b.convert(place, DType.I32)), b.lit(extent - 1, DType.I32))


def _nearest(b: Builder, x: Value, scales: Sequence[Scale], exact: bool) -> Value | Reject:
    out, rank = b.out[0], b.out[0].rank
    if is_dynamic(scales):
        return DYNAMIC
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    for i, given in enumerate(scales):
        dim = rank - len(scales) + i
        extent, count = x.type.dims[dim], out.dims[dim]
        x = _nearest_one(b, x, dim, count, _scale_of(extent, count, given), exact)
    return b.tensor(x)


def _nearest_one(
    b: Builder, x: Value, dim: int, count: int, scale: float, exact: bool
) -> Value:
    shape, extent = x.type.shape, x.type.dims[dim]
    if count == extent and scale == 1:
        return x
    factor = count // extent
    # Powers of two alone: another factor's inverse, rounded, may land one element early.
    if count == factor * extent and factor & (factor - 1) == 0 and scale == 1 / factor:
        each = b.expand_dims(x, (dim + 1,))
        wide = b.broadcast_to(each, (*shape[: dim + 1], factor, *shape[dim + 1 :]))
        return b.reshape(wide, (*shape[:dim], count, *shape[dim + 1 :]))
    places = _nearest_places(b, extent, count, scale, exact)
    rows = b.one("gather", b.tensor(x), places, attrs=A.Gather((dim,)))
    return move_dims(b, rows, (0,), (dim,))


def _nearest_backward(
    b: Builder, grad: Value, scales: Sequence[Scale], exact: bool
) -> Value | Reject:
    out, rank = b.out[0], b.out[0].rank
    if is_dynamic(scales):
        return DYNAMIC
    if out.size == 0 or grad.type.size == 0:
        return b.full(out.shape, out.dtype, 0)
    total = b.convert(grad, accumulator(out.dtype))
    for i, given in enumerate(scales):
        dim = rank - len(scales) + i
        extent, count = out.dims[dim], total.type.dims[dim]
        scale = _scale_of(extent, count, given)
        places = _nearest_places(b, extent, count, scale, exact)
        rows = move_dims(b, total, (dim,), (0,))
        shape = (*total.type.shape[:dim], extent, *total.type.shape[dim + 1 :])
        total = write(b, b.full(shape, total.type.dtype, 0), rows, (dim,), (places,), "add")
    return b.convert(total, out.dtype)


@lowering(aten.upsample_nearest1d.default)
def upsample_nearest1d(
    b: Builder, x: Value, output_size: Sizes, scales: Scale = None
) -> Value | Reject:
    return _nearest(b, x, (scales,), exact=False)


@lowering(aten._upsample_nearest_exact1d.default)
def upsample_nearest_exact1d(
    b: Builder, x: Value, output_size: Sizes, scales: Scale = None
) -> Value | Reject:
    return _nearest(b, x, (scales,), exact=True)


@lowering(aten.upsample_nearest2d.default)
def upsample_nearest2d(
    b: Builder, x: Value, output_size: Sizes, scales_h: Scale = None, scales_w: Scale = None
) -> Value | Reject:
    return _nearest(b, x, (scales_h, scales_w), exact=False)


@lowering(aten._upsample_nearest_exact2d.default)
def upsample_nearest_exact2d(
    b: Builder, x: Value, output_size: Sizes, scales_h: Scale = None, scales_w: Scale = None
) -> Value | Reject:
    return _nearest(b, x, (scales_h, scales_w), exact=True)


@lowering(aten.upsample_nearest3d.default)
def upsample_nearest3d(
    b: Builder,
    x: Value,
    output_size: Sizes,
    scales_d: Scale = None,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _nearest(b, x, (scales_d, scales_h, scales_w), exact=False)


@lowering(aten._upsample_nearest_exact3d.default)
def upsample_nearest_exact3d(
    b: Builder,
    x: Value,
    output_size: Sizes,
    scales_d: Scale = None,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _nearest(b, x, (scales_d, scales_h, scales_w), exact=True)


@lowering(aten.upsample_nearest2d_backward.default)
def upsample_nearest2d_backward(
    b: Builder,
    grad_output: Value,
    output_size: Sizes,
    input_size: Sizes,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _nearest_backward(b, grad_output, (scales_h, scales_w), exact=False)


# -- linear --------------------------------------------------------------------
def _linear(
    b: Builder, x: Value, align_corners: bool, scales: Sequence[Scale]
) -> Value | Reject:
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
    b: Builder, extent: int, count: int, align_corners: bool, given: float | None, dtype: DType
) -> float:
    round_ = _round_f32 if dtype is DType.F32 else float
    if align_corners:
        return round_(round_(extent - 1) / (count - 1)) if count > 1 else 0.0
    if given is not None and given > 0:
        return round_(1.0 / given)
    return round_(round_(extent) / count)


def _linear_one(
    b: Builder, x: Value, dim: int, count: int, align_corners: bool, given: float | None
) -> Value:
    """Along one dimension: the two neighbours of each place, weighted by its distance to them."""
    dtype, extent, rank = x.type.dtype, x.type.dims[dim], x.type.rank
    if count == extent:
        return x
    scale = b.lit(_linear_scale(b, extent, count, align_corners, given, dtype), dtype)
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
    column = tuple(count if d == dim else 1 for d in range(rank))
    weight_high = b.reshape(share, column)
    weight_low = b.op("sub", one, weight_high)
    first, second = (
        move_dims(b, b.one("gather", b.tensor(x), p, attrs=A.Gather((dim,))), (0,), (dim,))
        for p in (low, high)
    )
    return b.op("add", b.op("mul", first, weight_low), b.op("mul", second, weight_high))


@lowering(aten.upsample_linear1d.default)
def upsample_linear1d(
    b: Builder, x: Value, output_size: Sizes, align_corners: bool, scales: Scale = None
) -> Value | Reject:
    return _linear(b, x, align_corners, (scales,))


@lowering(aten.upsample_bilinear2d.default)
def upsample_bilinear2d(
    b: Builder,
    x: Value,
    output_size: Sizes,
    align_corners: bool,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _linear(b, x, align_corners, (scales_h, scales_w))


@lowering(aten.upsample_trilinear3d.default)
def upsample_trilinear3d(
    b: Builder,
    x: Value,
    output_size: Sizes,
    align_corners: bool,
    scales_d: Scale = None,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _linear(b, x, align_corners, (scales_d, scales_h, scales_w))
