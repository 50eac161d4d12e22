"""Layer, RMS and group normalisation, and their gradients.

Each is a mean, the centred values, a second mean, rsqrt, scale and shift in float32 (float64 for
float64), with the statistics kept as extents of 1, rounded once at the end.
"""

from collections.abc import Sequence

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType, Shape, TensorType
from tpu_inductor.lowerings.moments import centre
from tpu_inductor.lowerings.reduction import accumulator, mean_over, reduced_size
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

Triple = tuple[Value, Value, Value]
Grads = tuple[Value | None, ...]

_NOTHING = "the statistics of no elements"


def widen(b: Builder, x: Value) -> Value:
    """`x` in the type that normalisations compute in."""
    return b.convert(x, accumulator(x.type.dtype))


def finish(b: Builder, x: Value, wanted: TensorType) -> Value:
    """`x` rounded to the type and reshaped to the shape that torch gives."""
    return b.reshape(b.convert(x, wanted.dtype), wanted.shape)


def affine(b: Builder, x: Value, weight: Value | None, bias: Value | None, shape: Shape) -> Value:
    """x * weight + bias, both seen as `shape`, in the type of `x`; None leaves a step out."""
    if weight is not None:
        x = b.op("mul", x, _parameter(b, weight, shape, x.type.dtype))
    if bias is not None:
        x = b.op("add", x, _parameter(b, bias, shape, x.type.dtype))
    return x


def inverse_root(b: Builder, variance: Value, eps: float) -> Var:
    return b.op("rsqrt", b.op("add", variance, b.lit(eps, variance.type.dtype)))


def input_grad(
    b: Builder, grad: Value, unit: Value, rstd: Value, dims: Sequence[int], centred: bool
) -> Var:
    """rstd * (g - mean(g) - y * mean(g * y)) where y = `unit`; no mean(g) unless `centred`."""
    shared = mean_over(b, b.op("mul", grad, unit), dims, keepdims=True)
    inner = b.op("sub", grad, b.op("mul", unit, shared))
    if centred:
        inner = b.op("sub", inner, mean_over(b, grad, dims, keepdims=True))
    return b.op("mul", rstd, inner)


def _parameter(b: Builder, x: Value, shape: Shape, dtype: DType) -> Value:
    return b.convert(b.reshape(x, shape), dtype)


def _inner_dims(x: Value, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(x.type.rank - len(normalized_shape), x.type.rank))


# -- layer norm ----------------------------------------------------------------


@lowering(aten.native_layer_norm.default)
def layer_norm(
    b: Builder,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> Triple | Reject:
    dims = _inner_dims(input, normalized_shape)
    if reduced_size(input, dims) == 0:
        return Reject(_NOTHING)
    centred, mean = centre(b, widen(b, input), dims)
    variance = mean_over(b, b.op("mul", centred, centred), dims, keepdims=True)
    rstd = inverse_root(b, variance, eps)
    out = affine(b, b.op("mul", centred, rstd), weight, bias, tuple(normalized_shape))
    y, m, r = b.out
    return finish(b, out, y), finish(b, mean, m), finish(b, rstd, r)


@lowering(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    b: Builder,
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Sequence[bool],
) -> Grads:
    x, grad = widen(b, input), widen(b, grad_out)
    dtype = x.type.dtype
    dims = _inner_dims(x, normalized_shape)
    mean, rstd = b.convert(mean, dtype), b.convert(rstd, dtype)
    unit = b.op("mul", b.op("sub", x, mean), rstd)
    grad_x = grad_w = grad_b = None
    if output_mask[0]:
        scaled = affine(b, grad, weight, None, tuple(normalized_shape))
        grad_x = b.convert(input_grad(b, scaled, unit, rstd, dims, True), input.type.dtype)
    if output_mask[1] and weight is not None:
        grad_w = _sum_outer(b, b.op("mul", grad, unit), dims, weight)
    if output_mask[2] and bias is not None:
        grad_b = _sum_outer(b, grad, dims, bias)
    return grad_x, grad_w, grad_b


def _sum_outer(b: Builder, x: Value, inner: Sequence[int], like: Value) -> Value:
    """The sum over all dimensions but `inner`, in the type of the parameter `like`."""
    outer = tuple(d for d in range(x.type.rank) if d not in inner)
    return finish(b, b.reduce("reduce_sum", x, outer), like.type)


# -- rms norm ------------------------------------------------------------------


@lowering(aten._fused_rms_norm.default)
def rms_norm(
    b: Builder,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    eps: float | None,
) -> tuple[Value, Value] | Reject:
    dims = _inner_dims(input, normalized_shape)
    if reduced_size(input, dims) == 0:
        return Reject(_NOTHING)
    x = widen(b, input)
    if eps is None:
        eps = torch.finfo(torch.float64 if x.type.dtype is DType.F64 else torch.float32).eps
    rstd = inverse_root(b, mean_over(b, b.op("mul", x, x), dims, keepdims=True), eps)
    out = affine(b, b.op("mul", x, rstd), weight, None, tuple(normalized_shape))
    y, r = b.out
    return finish(b, out, y), finish(b, rstd, r)


@lowering(aten._fused_rms_norm_backward.default)
def rms_norm_backward(
    b: Builder,
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[int],
    rstd: Value,
    weight: Value | None,
    output_mask: Sequence[bool],
) -> Grads:
    x, grad = widen(b, input), widen(b, grad_out)
    dims = _inner_dims(x, normalized_shape)
    rstd = b.convert(rstd, x.type.dtype)
    unit = b.op("mul", x, rstd)
    grad_x = grad_w = None
    if output_mask[0]:
        scaled = affine(b, grad, weight, None, tuple(normalized_shape))
        grad_x = b.convert(input_grad(b, scaled, unit, rstd, dims, False), input.type.dtype)
    if output_mask[1] and weight is not None:
        grad_w = _sum_outer(b, b.op("mul", grad, unit), dims, weight)
    return grad_x, grad_w


# -- group norm: (n, groups, channels of a group, positions), statistics over the last two -----

_GROUP = (2, 3)


def _grouped(b: Builder, x: Value, shape: Shape) -> Value:
    return b.reshape(widen(b, x), shape)


@lowering(aten.native_group_norm.default)
def group_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> Triple | Reject:
    if C * HxW == 0:
        return Reject(_NOTHING)
    x = _grouped(b, input, (N, group, C // group, HxW))
    centred, mean = centre(b, x, _GROUP)
    variance = mean_over(b, b.op("mul", centred, centred), _GROUP, keepdims=True)
    rstd = inverse_root(b, variance, eps)
    out = affine(b, b.op("mul", centred, rstd), weight, bias, (1, group, C // group, 1))
    y, m, r = b.out
    return finish(b, out, y), finish(b, mean, m), finish(b, rstd, r)


@lowering(aten.native_group_norm_backward.default)
def group_norm_backward(
    b: Builder,
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> Grads:
    shape = (N, group, C // group, HxW)
    x, grad = _grouped(b, input, shape), _grouped(b, grad_out, shape)
    dtype = x.type.dtype
    mean, rstd = (b.convert(b.reshape(s, (N, group, 1, 1)), dtype) for s in (mean, rstd))
    unit = b.op("mul", b.op("sub", x, mean), rstd)
    parameter = TensorType((C,), input.type.dtype if weight is None else weight.type.dtype)
    grad_x = grad_w = grad_b = None
    if output_mask[0]:
        scaled = affine(b, grad, weight, None, (1, group, C // group, 1))
        grad_x = finish(b, input_grad(b, scaled, unit, rstd, _GROUP, True), input.type)
    if output_mask[1]:
        grad_w = finish(b, b.reduce("reduce_sum", b.op("mul", grad, unit), (0, 3)), parameter)
    if output_mask[2]:
        grad_b = finish(b, b.reduce("reduce_sum", grad, (0, 3)), parameter)
    return grad_x, grad_w, grad_b
