"""Lowerings of convolution of any spatial rank, transposed too, its gradient, and im2col.

Shapes: x (n, channels, *spatial); weight (out, channels / groups, *window), or for a transposed
convolution (channels, out / groups, *window).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.lowerings.dims import DYNAMIC, is_dynamic
from tpu_inductor.lowerings.matmul import dot_precision
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

Ints = Sequence[int]
MOST_WINDOW_PLACES = 256


@dataclass(frozen=True, slots=True)
class _Geometry:
    """How windows lie over the input, per spatial dimension."""

    stride: Ints
    padding: Ints
    dilation: Ints
    groups: int


def _per_dim(values: Ints, rank: int) -> tuple[int, ...]:
    return tuple(values) * rank if len(values) == 1 else tuple(values)


def _conv(
    b: Builder,
    x: Value,
    weight: Value,
    padding: Sequence[tuple[int, int]],
    *,
    strides: Ints,
    dilation: Ints,
    groups: int,
    spread: Ints | None = None,
) -> Var:
    """The primitive; negative padding crops; `spread` is how far apart `x`'s elements are set."""
    x, weight = b.tensor(x), b.tensor(weight)
    attrs = A.Conv(
        tuple(strides),
        tuple(padding),
        tuple(spread) if spread else (1,) * len(padding),
        tuple(dilation),
        groups,
        dot_precision(x.type.dtype),
    )
    return b.one("conv", x, weight, attrs=attrs)


def _turned(b: Builder, weight: Value, groups: int) -> Var:
    """(g i, o, *window) --> (g o, i, *window), each window turned round in every dimension."""
    rows, columns, *window = weight.type.dims
    rank = len(window) + 3
    split = b.reshape(weight, (groups, rows // groups, columns, *window))
    swapped = b.transpose(split, (0, 2, 1, *range(3, rank)))
    merged = b.reshape(swapped, (groups * columns, rows // groups, *window))
    return b.one("rev", merged, attrs=A.Dims(tuple(range(2, rank - 1))))


def _spread_conv(
    b: Builder,
    x: Value,
    weight: Value,
    extents: Ints,
    geometry: _Geometry,
) -> Var:
    """The transposed convolution whose result has the spatial `extents`."""
    stride, padding, dilation = geometry.stride, geometry.padding, geometry.dilation
    groups = geometry.groups
    edges: list[tuple[int, int]] = []
    for i, extent in enumerate(extents):
        reach = dilation[i] * (weight.type.dims[i + 2] - 1)
        low = reach - padding[i]
        high = extent + reach - low - ((x.type.dims[i + 2] - 1) * stride[i] + 1)
        edges.append((low, high))
    ones = (1,) * len(edges)
    turned = _turned(b, weight, groups)
    return _conv(b, x, turned, edges, strides=ones, dilation=dilation, groups=groups, spread=stride)


@lowering(aten.convolution.default)
def convolution(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Value | Reject:
    if is_dynamic(stride, padding, dilation, output_padding, groups):
        return DYNAMIC
    out = b.out[0]
    if out.size == 0 or input.type.size == 0 or weight.type.size == 0:
        return Reject("a convolution of nothing")
    if not out.dtype.is_float:
        return Reject("a convolution of integers")
    if input.type.rank != out.rank or out.rank < 3:
        return Reject("a convolution without a batch dimension")
    rank = out.rank - 2
    strides, pads, dilations = (_per_dim(v, rank) for v in (stride, padding, dilation))
    if transposed:
        geometry = _Geometry(strides, pads, dilations, groups)
        result: Value = _spread_conv(b, input, weight, out.dims[2:], geometry)
    else:
        edges = [(p, p) for p in pads]
        result = _conv(b, input, weight, edges, strides=strides, dilation=dilations, groups=groups)
    return result if bias is None else _add_bias(b, result, bias)


def _add_bias(b: Builder, x: Value, bias: Value) -> Value:
    dtype = x.type.dtype
    wide = accumulator(dtype)
    column = b.reshape(bias, (1, bias.type.dims[0], *(1,) * (x.type.rank - 2)))
    total = b.op("add", b.convert(x, wide), b.convert(column, wide))
    return b.convert(total, dtype)


# -- gradients -----------------------------------------------------------------
def _weight_gradient(
    b: Builder,
    grad: Value,
    x: Value,
    window: Ints,
    geometry: _Geometry,
) -> Var:
    """grad (n, out, ...), x (n, channels, ...) --> (out, channels / groups, *window).

    Channels become the batch and the batch becomes channels; stride and dilation change places.
    """
    stride, padding, dilation = geometry.stride, geometry.padding, geometry.dilation
    groups = geometry.groups
    batch, channels, *spatial = x.type.dims
    rank = len(spatial)
    rest = range(3, rank + 3)
    split = b.reshape(x, (batch, groups, channels // groups, *spatial))
    lhs = b.reshape(
        b.transpose(split, (2, 1, 0, *rest)), (channels // groups, groups * batch, *spatial)
    )
    swap = (1, 0, *range(2, rank + 2))
    edges: list[tuple[int, int]] = []
    for i, (extent, width) in enumerate(zip(spatial, window, strict=True)):
        reach = (grad.type.dims[i + 2] - 1) * stride[i] + 1 + (width - 1) * dilation[i]
        edges.append((padding[i], reach - extent - padding[i]))
    out = _conv(
        b, lhs, b.transpose(grad, swap), edges, strides=dilation, dilation=stride, groups=groups
    )
    return b.transpose(out, swap)


@lowering(aten.convolution_backward.default)
def convolution_backward(
    b: Builder,
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...] | Reject:
    if is_dynamic(stride, padding, dilation, output_padding, groups):
        return DYNAMIC
    if not (grad_output.type.size and input.type.size and weight.type.size):
        return Reject("the gradient of a convolution of nothing")
    rank = input.type.rank - 2
    strides, pads, dilations = (_per_dim(v, rank) for v in (stride, padding, dilation))
    geometry = _Geometry(strides, pads, dilations, groups)
    grad_input: Value | None = None
    grad_weight: Value | None = None
    if output_mask[0] and transposed:
        edges = [(p, p) for p in pads]
        grad_input = _conv(
            b, grad_output, weight, edges, strides=strides, dilation=dilations, groups=groups
        )
        # A wide output padding lets one more window fit than the input has elements.
        for dim in range(2, rank + 2):
            grad_input = b.slice(grad_input, dim, 0, input.type.dims[dim])
    elif output_mask[0]:
        grad_input = _spread_conv(b, grad_output, weight, input.type.dims[2:], geometry)
    if output_mask[1]:
        pair = (input, grad_output) if transposed else (grad_output, input)
        grad_weight = _weight_gradient(b, *pair, weight.type.dims[2:], geometry)
    grad_bias = _bias_gradient(b, grad_output) if output_mask[2] else None
    return grad_input, grad_weight, grad_bias


def _bias_gradient(b: Builder, grad: Value) -> Value:
    dtype, rank = grad.type.dtype, grad.type.rank
    wide = b.convert(grad, accumulator(dtype))
    return b.convert(b.reduce("reduce_sum", wide, (0, *range(2, rank))), dtype)


# -- windows as columns --------------------------------------------------------
@lowering(aten.im2col.default)
def im2col(
    b: Builder, x: Value, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Value | Reject:
    """(n, c, h, w) --> (n, c * window, places), or the same without n."""
    out, rank = b.out[0], x.type.rank
    if out.size == 0:
        return b.full(out.shape, out.dtype, 0)
    if kernel_size[0] * kernel_size[1] > MOST_WINDOW_PLACES:
        return Reject(f"windows of more than {MOST_WINDOW_PLACES} elements")
    edges = (*(0,) * (rank - 2), *padding)
    padded = A.Pad(edges, edges, (0,) * rank)
    x = b.one("pad", b.tensor(x), b.lit(0, x.type.dtype), attrs=padded)
    parts: list[Value] = []
    for place in product(*(range(k) for k in kernel_size)):
        part: Value = x
        for i, at in enumerate(place):
            dim = rank - 2 + i
            reach = x.type.dims[dim] - dilation[i] * (kernel_size[i] - 1)
            start = at * dilation[i]
            part = b.slice(part, dim, start, start + reach, stride[i])
        parts.append(b.expand_dims(part, (rank - 2,)))
    return b.reshape(b.concat(parts, rank - 2), out.shape)
