"""Lowerings of maximum and average pooling over windows, and of their gradients.

Windows are combined along one dimension after another, so that a program grows with the sum of a
window's extents and not with its area: each is a number of strided slices of the padded input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType, Scalar
from tpu_inductor.lowerings.reduction import accumulator, from_zero
from tpu_inductor.lowerings.registry import lowering
from tpu_inductor.lowerings.scatter import write
from tpu_inductor.lowerings.scatter_reduce import lowest

aten = torch.ops.aten

Ints = Sequence[int] | int
MOST_WINDOW_PLACES = 256
_TOO_WIDE = Reject(f"pooling over windows whose extents add up to more than {MOST_WINDOW_PLACES}")


@dataclass(frozen=True, slots=True)
class Window:
    """The geometry of a pooling along one dimension, the `dim`-th of the operand."""

    dim: int
    extent: int
    count: int
    size: int
    stride: int
    padding: int
    dilation: int

    @property
    def high(self) -> int:
        """Elements to add at the end, negative where windows end before the input does."""
        reach = (self.count - 1) * self.stride + (self.size - 1) * self.dilation + 1
        return reach - self.extent - self.padding

    def starts(self, b: Builder, dtype: DType, rank: int) -> Var:
        """Where each window starts, seen from the input: (1, ..., count, ..., 1)."""
        shape = tuple(self.count if d == self.dim else 1 for d in range(rank))
        place = b.op("mul", b.iota(shape, dtype, self.dim), b.lit(self.stride, dtype))
        return b.op("sub", place, b.lit(self.padding, dtype))


def windows_of(
    shape: Sequence[int],
    counts: Sequence[int],
    size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints = 1,
) -> tuple[Window, ...]:
    """One window per pooled dimension, for operand extents `shape` and result extents `counts`."""
    spatial = len(counts)
    sizes = _spread_ints(size, spatial)
    strides = sizes if not isinstance(stride, int) and not stride else _spread_ints(stride, spatial)
    pads, dilations = _spread_ints(padding, spatial), _spread_ints(dilation, spatial)
    first = len(shape) - spatial
    return tuple(
        Window(first + i, shape[first + i], counts[i], sizes[i], strides[i], pads[i], dilations[i])
        for i in range(spatial)
    )


def _spread_ints(values: Ints, count: int) -> tuple[int, ...]:
    values = (values,) if isinstance(values, int) else tuple(values)
    return values * count if len(values) == 1 else values


def _padded(b: Builder, x: Value, windows: Sequence[Window], value: Scalar) -> Var:
    rank = x.type.rank
    low, high = [0] * rank, [0] * rank
    for w in windows:
        low[w.dim], high[w.dim] = w.padding, w.high
    if not any(low) and not any(high):
        return b.tensor(x)
    edges = A.Pad(tuple(low), tuple(high), (0,) * rank)
    return b.one("pad", b.tensor(x), b.lit(value, x.type.dtype), attrs=edges)


def _place(b: Builder, x: Value, w: Window, at: int) -> Var:
    """The `at`-th element of every window of the padded `x`, along one dimension."""
    start = at * w.dilation
    return b.slice(x, w.dim, start, start + (w.count - 1) * w.stride + 1, w.stride)


# -- maxima --------------------------------------------------------------------
@lowering(aten.max_pool2d_with_indices.default)
def max_pool2d_with_indices(
    b: Builder,
    x: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value] | Reject:
    return _max_pool(b, x, 2, (kernel_size, stride, padding, dilation))


@lowering(aten.max_pool3d_with_indices.default)
def max_pool3d_with_indices(
    b: Builder,
    x: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value] | Reject:
    return _max_pool(b, x, 3, (kernel_size, stride, padding, dilation))


def _max_pool(
    b: Builder, x: Value, spatial: int, geometry: tuple[Ints, Ints, Ints, Ints]
) -> tuple[Value, Value] | Reject:
    """The first maximum of each window, or its last NaN, and its place in the flat plane.

    One dimension after the other, the minor one first: the first row whose maximum is the largest
    holds the first maximum, and the last row with a NaN the last NaN.
    """
    out, dtype = b.out[0], x.type.dtype
    if out.size == 0:
        return b.full(out.shape, dtype, 0), b.full(out.shape, DType.I64, 0)
    windows = windows_of(x.type.dims, out.dims[-spatial:], *geometry)
    if sum(w.size for w in windows) > MOST_WINDOW_PLACES:
        return _TOO_WIDE
    values = _padded(b, x, windows, lowest(dtype))
    indices: Value = _flat_places(b, values.type.dims, windows)
    for w in reversed(windows):
        values, indices = _max_along(b, values, indices, w)
    if any(w.padding for w in windows):
        # Nothing in the window exceeds what it starts from, and that is no place of the padding.
        is_lowest = b.op("eq", values, b.lit(lowest(dtype), dtype))
        inside = b.convert(_first_inside(b, windows, out.rank), indices.type.dtype)
        indices = b.op("select", is_lowest, inside, indices)
    return values, b.convert(b.broadcast_to(indices, out.shape), DType.I64)


def _flat_places(b: Builder, padded: Sequence[int], windows: Sequence[Window]) -> Value:
    """The place in the unpadded flat plane of each element of the padded operand."""
    dtype = DType.I32 if prod(padded[w.dim] for w in windows) < 1 << 31 else DType.I64
    flat: Value = b.lit(0, dtype)
    for w in windows:
        shape = tuple(n if d == w.dim else 1 for d, n in enumerate(padded))
        here = b.op("sub", b.iota(shape, dtype, w.dim), b.lit(w.padding, dtype))
        flat = b.op("add", b.op("mul", flat, b.lit(w.extent, dtype)), here)
    return flat


def _max_along(b: Builder, x: Var, places: Value, w: Window) -> tuple[Var, Value]:
    """The first maximum, or the last NaN, of each window along one dimension, and its place."""
    values, indices = _place(b, x, w, 0), _place(b, places, w, 0)
    for at in range(1, w.size):
        part, here = _place(b, x, w, at), _place(b, places, w, at)
        better = b.op("gt", part, values)
        if x.type.dtype.is_float:
            better = b.op("or", better, b.op("is_nan", part))
        indices = b.op("select", better, here, indices)
        values = b.op("max", values, part)
    return values, indices


def _first_inside(b: Builder, windows: Sequence[Window], rank: int) -> Value:
    """The flat place of each window's first element that is not padding."""
    dtype = DType.I64
    flat: Value = b.lit(0, dtype)
    for w in windows:
        start, step = w.starts(b, dtype, rank), b.lit(w.dilation, dtype)
        lack = b.op("max", b.op("neg", start), b.lit(0, dtype))
        steps = b.op("idiv", b.op("add", lack, b.lit(w.dilation - 1, dtype)), step)
        here = b.op("add", start, b.op("mul", steps, step))
        flat = b.op("add", b.op("mul", flat, b.lit(w.extent, dtype)), here)
    return flat


@lowering(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_with_indices_backward(
    b: Builder,
    grad_output: Value,
    x: Value,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: Value,
) -> Value | Reject:
    out = b.out[0]
    if out.size == 0 or grad_output.type.size == 0:
        return b.full(out.shape, out.dtype, 0)
    wide = accumulator(out.dtype)
    planes = prod(out.dims[:-2])
    plane, count = prod(out.dims[-2:]), prod(grad_output.type.dims[-2:])
    grad = b.reshape(b.convert(grad_output, wide), (planes, count))
    where = b.reshape(indices, (planes, count))
    row = b.iota((planes, count), where.type.dtype, 0)
    total = write(b, b.full((planes, plane), wide, 0), grad, (0, 1), (row, where), "add")
    return b.reshape(b.convert(total, out.dtype), out.shape)


# -- averages ------------------------------------------------------------------
def _divisor(
    b: Builder, windows: Sequence[Window], include_pad: bool, dtype: DType, rank: int
) -> Value:
    """How many elements each window averages over; windows may hang over the edges."""
    inside = all(w.padding == 0 and w.high <= 0 for w in windows)
    if inside or (include_pad and all(w.high <= w.padding for w in windows)):
        return b.lit(prod(w.size for w in windows), dtype)
    total: Value = b.lit(1, DType.I32)
    for w in windows:
        start = w.starts(b, DType.I32, rank)
        limit = w.extent + (w.padding if include_pad else 0)
        end = b.op("add", start, b.lit(w.size, DType.I32))
        end = b.op("min", end, b.lit(limit, DType.I32))
        start = start if include_pad else b.op("max", start, b.lit(0, DType.I32))
        total = b.op("mul", total, b.op("sub", end, start))
    return b.convert(total, dtype)


def _divide(b: Builder, total: Value, count: Value) -> Value:
    return b.op("div" if total.type.dtype.is_float else "idiv", total, count)


def _avg_pool(
    b: Builder, x: Value, windows: Sequence[Window], include_pad: bool, override: int | None
) -> Value | Reject:
    out = b.out[0]
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    if sum(w.size for w in windows) > MOST_WINDOW_PLACES:
        return _TOO_WIDE
    wide = accumulator(out.dtype)
    total: Value = _padded(b, b.convert(x, wide), windows, 0)
    for w in windows:
        part: Value = _place(b, total, w, 0)
        for at in range(1, w.size):
            part = b.op("add", part, _place(b, total, w, at))
        total = part
    count = b.lit(override, wide) if override else _divisor(b, windows, include_pad, wide, out.rank)
    return b.convert(from_zero(b, _divide(b, total, count)), out.dtype)


@lowering(aten.avg_pool2d.default)
def avg_pool2d(
    b: Builder,
    x: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value | Reject:
    windows = windows_of(x.type.dims, b.out[0].dims[-2:], kernel_size, stride, padding)
    return _avg_pool(b, x, windows, count_include_pad, divisor_override)


@lowering(aten.avg_pool3d.default)
def avg_pool3d(
    b: Builder,
    x: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value | Reject:
    windows = windows_of(x.type.dims, b.out[0].dims[-3:], kernel_size, stride, padding)
    return _avg_pool(b, x, windows, count_include_pad, divisor_override)


@lowering(aten.avg_pool2d_backward.default)
def avg_pool2d_backward(
    b: Builder,
    grad_output: Value,
    x: Value,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value | Reject:
    out = b.out[0]
    if out.size == 0 or grad_output.type.size == 0:
        return b.full(out.shape, out.dtype, 0)
    counts = grad_output.type.dims[-2:]
    windows = windows_of(out.dims, counts, kernel_size, stride, padding)
    if sum(w.size for w in windows) > MOST_WINDOW_PLACES:
        return _TOO_WIDE
    wide = accumulator(out.dtype)
    count = (
        b.lit(divisor_override, wide)
        if divisor_override
        else _divisor(b, windows, count_include_pad, wide, out.rank)
    )
    grad = _divide(b, b.convert(grad_output, wide), count)
    for w in windows:
        grad = _spread_windows(b, grad, w)
    return b.convert(grad, out.dtype)


def _spread_windows(b: Builder, grad: Value, w: Window) -> Value:
    """The sum over window places of `grad`, set `stride` apart and moved to that place."""
    rank = grad.type.rank
    total: Value | None = None
    for at in range(w.size):
        low, high, interior = [0] * rank, [0] * rank, [0] * rank
        low[w.dim], interior[w.dim] = at - w.padding, w.stride - 1
        high[w.dim] = w.extent - low[w.dim] - ((w.count - 1) * w.stride + 1)
        edges = A.Pad(tuple(low), tuple(high), tuple(interior))
        part = b.one("pad", b.tensor(grad), b.lit(0, grad.type.dtype), attrs=edges)
        total = part if total is None else b.op("add", total, part)
    assert total is not None  # windows have at least one element
    return total
