"""Lowerings of nearest up- and downsampling, with torch's own arithmetic of places."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.dims import DYNAMIC, Size, is_dynamic, move_dims
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering
from tpu_inductor.lowerings.scatter import write

aten = torch.ops.aten

Scale: TypeAlias = Any
"""The user's factor, None, or a graph value where `is_dynamic` says so."""


# -- nearest -------------------------------------------------------------------
def round_f32(value: float) -> float:
    """The nearest float32, as a Python number."""
    return torch.tensor(value, dtype=torch.float32).item()


def _scale_of(extent: int, count: int, scale: float | None) -> float:
    """How far one step of the result goes in the input; the user's factor is its inverse."""
    if scale is not None and scale > 0:
        return round_f32(1.0 / scale)
    return round_f32(round_f32(extent) / round_f32(count))


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


def _nearest_one(b: Builder, x: Value, dim: int, count: int, scale: float, exact: bool) -> Value:
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
    b: Builder, x: Value, output_size: Sequence[Size], scales: Scale = None
) -> Value | Reject:
    return _nearest(b, x, (scales,), exact=False)


@lowering(aten._upsample_nearest_exact1d.default)
def upsample_nearest_exact1d(
    b: Builder, x: Value, output_size: Sequence[Size], scales: Scale = None
) -> Value | Reject:
    return _nearest(b, x, (scales,), exact=True)


@lowering(aten.upsample_nearest2d.default)
def upsample_nearest2d(
    b: Builder,
    x: Value,
    output_size: Sequence[Size],
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _nearest(b, x, (scales_h, scales_w), exact=False)


@lowering(aten._upsample_nearest_exact2d.default)
def upsample_nearest_exact2d(
    b: Builder,
    x: Value,
    output_size: Sequence[Size],
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _nearest(b, x, (scales_h, scales_w), exact=True)


@lowering(aten.upsample_nearest3d.default)
def upsample_nearest3d(
    b: Builder,
    x: Value,
    output_size: Sequence[Size],
    scales_d: Scale = None,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _nearest(b, x, (scales_d, scales_h, scales_w), exact=False)


@lowering(aten._upsample_nearest_exact3d.default)
def upsample_nearest_exact3d(
    b: Builder,
    x: Value,
    output_size: Sequence[Size],
    scales_d: Scale = None,
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _nearest(b, x, (scales_d, scales_h, scales_w), exact=True)


@lowering(aten.upsample_nearest1d_backward.default)
def upsample_nearest1d_backward(
    b: Builder,
    grad_output: Value,
    output_size: Sequence[Size],
    input_size: Sequence[Size],
    scales: Scale = None,
) -> Value | Reject:
    return _nearest_backward(b, grad_output, (scales,), exact=False)


@lowering(aten._upsample_nearest_exact1d_backward.default)
def upsample_nearest_exact1d_backward(
    b: Builder,
    grad_output: Value,
    output_size: Sequence[Size],
    input_size: Sequence[Size],
    scales: Scale = None,
) -> Value | Reject:
    return _nearest_backward(b, grad_output, (scales,), exact=True)


@lowering(aten.upsample_nearest2d_backward.default)
def upsample_nearest2d_backward(
    b: Builder,
    grad_output: Value,
    output_size: Sequence[Size],
    input_size: Sequence[Size],
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _nearest_backward(b, grad_output, (scales_h, scales_w), exact=False)


@lowering(aten._upsample_nearest_exact2d_backward.default)
def upsample_nearest_exact2d_backward(
    b: Builder,
    grad_output: Value,
    output_size: Sequence[Size],
    input_size: Sequence[Size],
    scales_h: Scale = None,
    scales_w: Scale = None,
) -> Value | Reject:
    return _nearest_backward(b, grad_output, (scales_h, scales_w), exact=True)
