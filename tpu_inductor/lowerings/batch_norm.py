"""Batch normalisation: statistics per channel (dimension 1) over all other dimensions."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType, Shape, TensorType
from tpu_inductor.lowerings.moments import centre, sum_squares
from tpu_inductor.lowerings.norm import (
    Grads,
    Triple,
    affine,
    finish,
    input_grad,
    inverse_root,
    widen,
)
from tpu_inductor.lowerings.reduction import reduced_size
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


def _channel_shape(x: Value) -> Shape:
    return tuple(n if d == 1 else 1 for d, n in enumerate(x.type.shape))


def _other_dims(x: Value) -> tuple[int, ...]:
    return tuple(d for d in range(x.type.rank) if d != 1)


def _along_channels(b: Builder, x: Value, like: Value) -> Value:
    """The statistics `x` (channels,) as they broadcast against `like`, in its type."""
    return b.convert(b.reshape(x, _channel_shape(like)), like.type.dtype)


def _normalise(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    statistics: tuple[Value, Value],
    eps: float,
) -> Value:
    mean, var = statistics
    unit = b.op("mul", b.op("sub", x, mean), inverse_root(b, var, eps))
    return b.convert(affine(b, unit, weight, bias, _channel_shape(x)), b.out[0].dtype)


def _infer(
    b: Builder,
    input_: Value,
    weight: Value | None,
    bias: Value | None,
    running: tuple[Value, Value],
    eps: float,
) -> Triple:
    """With given statistics; torch's CPU operators then save none."""
    x = widen(b, input_)
    mean, var = (_along_channels(b, s, x) for s in running)
    saved = [
        b.full(t.shape, t.dtype, 0) if t.size == 0 else finish(b, s, t)
        for t, s in zip(b.out[1:3], (mean, inverse_root(b, var, eps)), strict=True)
    ]
    return (_normalise(b, x, weight, bias, (mean, var), eps), saved[0], saved[1])


def _train(
    b: Builder, input_: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Triple, Var, Var]:
    """With the batch's own statistics. Also gives the mean and the sum of squares about it."""
    x = widen(b, input_)
    dims = _other_dims(x)
    centred, mean = centre(b, x, dims)
    squares = sum_squares(b, centred, dims, keepdims=True)
    var = b.op("div", squares, b.lit(reduced_size(x, dims), x.type.dtype))
    rstd = inverse_root(b, var, eps)
    out = affine(b, b.op("mul", centred, rstd), weight, bias, _channel_shape(x))
    saved = (finish(b, mean, b.out[1]), finish(b, rstd, b.out[2]))
    return (b.convert(out, b.out[0].dtype), *saved), mean, squares


def _blend(b: Builder, old: Value, new: Value, momentum: float, wanted: TensorType) -> Value:
    """momentum * new + (1 - momentum) * old"""
    dtype = new.type.dtype
    fresh = b.op("mul", b.reshape(new, wanted.shape), b.lit(momentum, dtype))
    kept = b.op("mul", b.convert(old, dtype), b.lit(1 - momentum, dtype))
    return b.convert(b.op("add", fresh, kept), wanted.dtype)


@lowering(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """Also gives the new running statistics; the running variance is the unbiased one."""
    if not training:
        results = _infer(b, input, weight, bias, (running_mean, running_var), eps)
        kept = zip((running_mean, running_var), b.out[3:], strict=True)
        return (*results, *(b.convert(s, t.dtype) for s, t in kept))
    results, mean, squares = _train(b, input, weight, bias, eps)
    degrees = max(reduced_size(input, _other_dims(input)) - 1, 0)
    unbiased = b.op("div", squares, b.lit(degrees, squares.type.dtype))
    new_mean = _blend(b, running_mean, mean, momentum, b.out[3])
    return (*results, new_mean, _blend(b, running_var, unbiased, momentum, b.out[4]))


@lowering(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """As above in training, with torch's empty reserve before the new statistics."""
    reserve, *updated = b.out[3:]
    plain = replace(b, out=(*b.out[:3], *updated))
    results = batch_norm_functional(
        plain, input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*results[:3], b.full(reserve.shape, reserve.dtype, 0), *results[3:])


@lowering(aten._batch_norm_no_update.default)
def batch_norm_no_update(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    momentum: float,
    eps: float,
) -> tuple[Value, ...] | Reject:
    if running_mean is None or running_var is None:
        return Reject("batch norm without statistics")
    results = _infer(b, input, weight, bias, (running_mean, running_var), eps)
    return (*results, b.full(b.out[3].shape, b.out[3].dtype, 0))


@lowering(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Triple:
    return _train(b, input, weight, bias, eps)[0]


@lowering(aten._native_batch_norm_legit_no_training.default)
def batch_norm_no_training(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> Triple:
    return _infer(b, input, weight, bias, (running_mean, running_var), eps)


@lowering(aten.native_batch_norm.default)
def batch_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Triple | Reject:
    if not training:
        if running_mean is None or running_var is None:
            return Reject("batch norm without statistics")
        return _infer(b, input, weight, bias, (running_mean, running_var), eps)
    if running_mean is not None or running_var is not None:
        return Reject("native_batch_norm writes its running statistics unannounced")
    return _train(b, input, weight, bias, eps)[0]


@lowering(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    b: Builder,
    grad_out: Value,
    input: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_invstd: Value | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Grads | Reject:
    mean, spread = (save_mean, save_invstd) if train else (running_mean, running_var)
    if mean is None or spread is None:
        return Reject("the gradient of batch norm without statistics")
    x, grad = widen(b, input), widen(b, grad_out)
    dims = _other_dims(x)
    mean, spread = _along_channels(b, mean, x), _along_channels(b, spread, x)
    rstd = spread if train else inverse_root(b, spread, eps)
    unit = b.op("mul", b.op("sub", x, mean), rstd)
    grad_x = grad_w = grad_b = None
    if output_mask[0]:
        scaled = affine(b, grad, weight, None, _channel_shape(x))
        if train:
            scaled = input_grad(b, scaled, unit, rstd, dims, centred=True)
        else:
            scaled = b.op("mul", scaled, rstd)
        grad_x = b.convert(scaled, input.type.dtype)
    dtype = _parameter_dtype(input, weight)
    if output_mask[1]:
        grad_w = b.convert(b.reduce("reduce_sum", b.op("mul", grad, unit), dims), dtype)
    if output_mask[2]:
        grad_b = b.convert(b.reduce("reduce_sum", grad, dims), dtype)
    return grad_x, grad_w, grad_b


@lowering(aten.batch_norm_backward.default)
def batch_norm_backward_with_reserve(
    b: Builder,
    grad_out: Value,
    input: Value,
    weight: Value,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_var: Value | None,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: Value,
) -> Grads | Reject:
    """As above: `save_var` holds the inverse deviation, and the CPU's reserve is empty."""
    saved = (running_mean, running_var, save_mean, save_var)
    return batch_norm_backward(b, grad_out, input, weight, *saved, update, eps, output_mask)


def _parameter_dtype(x: Value, weight: Value | None) -> DType:
    return x.type.dtype if weight is None else weight.type.dtype
