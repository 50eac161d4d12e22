"""Mean square error and negative log-likelihood.

The likelihood of the target class is picked by comparing a row's class numbers with the target, not
by a gather: so it joins the kernel of the log_softmax above it, and its gradient needs no scatter.
A target that is no class gives NaN where nothing checks it.
"""

import math

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.types import DType, Shape, TensorType
from tpu_inductor.lowerings.checks import check_classes
from tpu_inductor.lowerings.reduction import accumulator, mean_over
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

_NONE, _MEAN, _SUM = 0, 1, 2


@lowering(aten.mse_loss.default)
def mse_loss(b: Builder, x: Value, target: Value, reduction: int = _MEAN) -> Value | Reject:
    result = b.out[0]
    if not result.dtype.is_float:
        return Reject("mean square error of integers")
    wide = accumulator(result.dtype)
    gap = b.op("sub", b.convert(x, wide), b.convert(target, wide))
    loss = b.op("mul", gap, gap)
    dims = tuple(range(loss.type.rank))
    if reduction == _MEAN:
        loss = mean_over(b, loss, dims)
    elif reduction == _SUM:
        loss = b.reduce("reduce_sum", loss, dims)
    return b.convert(loss, result.dtype)


@lowering(aten.mse_loss_backward.default)
def mse_loss_backward(
    b: Builder, grad_output: Value, x: Value, target: Value, reduction: int
) -> Value:
    """2 * (x - target) * grad, over the number of elements for a mean."""
    wide = accumulator(b.out[0].dtype)
    gap = b.op("sub", b.convert(x, wide), b.convert(target, wide))
    factor = 2 / max(gap.type.size, 1) if reduction == _MEAN else 2.0
    step = b.op("mul", gap, b.lit(factor, wide))
    return b.convert(b.op("mul", step, b.convert(grad_output, wide)), b.out[0].dtype)


# -- negative log-likelihood: classes are the only dimension, or dimension 1 -------------------


def _class_dim(x: Value) -> int:
    return min(1, x.type.rank - 1)


def _target_along(b: Builder, x: Value, target: Value) -> Value:
    """The targets with a dimension of extent 1 where `x` has its classes."""
    return b.reshape(target, _row_shape(x))


def _is_target(b: Builder, x: Value, target: Value) -> Var:
    """Where the class number of an element of `x` is the target of its row."""
    numbers = b.iota(x.type.shape, target.type.dtype, _class_dim(x))
    return b.op("eq", numbers, target)


def _pick(b: Builder, hit: Var, x: Value) -> Var:
    """The element of each row where `hit` holds, with the class dimension kept."""
    chosen = b.op("select", hit, x, b.lit(0, x.type.dtype))
    return b.reduce("reduce_sum", chosen, (_class_dim(hit),), keepdims=True)


def _pick_logarithm(b: Builder, hit: Var, x: Value) -> Var:
    """`_pick` of what a log_softmax gave: the logarithm of a row's sum is subtracted after.

    The element is then picked in the pass over the row that adds up the sum.
    """
    difference = b.maker(x)
    if difference is None or difference.prim != "sub":
        return _pick(b, hit, x)
    shifted, total = difference.inputs
    row = b.maker(total)
    if row is None or row.prim != "broadcast" or row.inputs[0].type.shape != _row_shape(hit):
        return _pick(b, hit, x)
    return b.op("sub", _pick(b, hit, shifted), row.inputs[0])


def _row_shape(x: Value) -> Shape:
    return tuple(1 if d == _class_dim(x) else n for d, n in enumerate(x.type.shape))


def _class_weights(b: Builder, weight: Value, x: Value, dtype: DType) -> Var:
    """The class weights as they broadcast to `x`, in `dtype`."""
    shape = tuple(n if d == _class_dim(x) else 1 for d, n in enumerate(x.type.shape))
    return b.tensor(b.convert(b.reshape(weight, shape), dtype))


def _row_weights(b: Builder, x: Value, along: Value, hit: Var, weight: Value | None) -> Var:
    """The weight of each row, NaN where the target is no class."""
    dtype = along.type.dtype
    high = b.lit(x.type.dims[_class_dim(x)], dtype)
    known = b.op("and", b.op("ge", along, b.lit(0, dtype)), b.op("lt", along, high))
    rate: Value = b.lit(1, x.type.dtype)
    if weight is not None:
        rates = b.broadcast_to(_class_weights(b, weight, x, x.type.dtype), x.type.shape)
        rate = _pick(b, hit, rates)
    return b.op("select", known, rate, b.lit(math.nan, x.type.dtype))


@lowering(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss(
    b: Builder, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, Value] | Reject:
    if target.type.size * x.type.dims[_class_dim(x)] != x.type.size:
        return Reject("targets that do not match the rows")
    check_classes(b, target, x.type.dims[_class_dim(x)], ignore_index)
    wide = b.convert(x, accumulator(x.type.dtype))
    zero = b.lit(0, wide.type.dtype)
    along = _target_along(b, x, target)
    hit = _is_target(b, x, along)
    ignored = b.op("eq", along, b.lit(ignore_index, along.type.dtype))
    rates = b.op("select", ignored, zero, _row_weights(b, wide, along, hit, weight))
    picked = b.op("mul", b.op("neg", _pick_logarithm(b, hit, wide)), rates)
    losses = b.op("select", ignored, zero, picked)
    dims = tuple(range(losses.type.rank))
    total: Value = b.reduce("reduce_sum", rates, dims)
    loss = losses
    if reduction != _NONE:
        loss = b.reduce("reduce_sum", losses, dims)
        loss = b.op("div", loss, total) if reduction == _MEAN else loss
    elif x.type.rank > 1:
        total = zero
    return _as(b, loss, b.out[0]), _as(b, total, b.out[1])


def _as(b: Builder, x: Value, wanted: TensorType) -> Value:
    return b.reshape(b.convert(x, wanted.dtype), wanted.shape)


@lowering(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    b: Builder,
    grad_output: Value,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    total_weight: Value,
) -> Value | Reject:
    """-weight * grad at the target class of each row that counts, 0 elsewhere."""
    if target.type.size * x.type.dims[_class_dim(x)] != x.type.size:
        return Reject("targets that do not match the rows")
    if reduction != _NONE:
        check_classes(b, target, x.type.dims[_class_dim(x)], ignore_index)
    wide = accumulator(x.type.dtype)
    grad = b.convert(grad_output, wide)
    if reduction == _MEAN:
        grad = b.op("div", grad, b.reshape(b.convert(total_weight, wide), ()))
    along = _target_along(b, x, target)
    if reduction == _NONE:
        grad = b.reshape(grad, along.type.shape)
    if weight is not None:
        grad = b.op("mul", grad, _class_weights(b, weight, x, wide))
    hit = _is_target(b, x, along)
    counted = b.op("ne", along, b.lit(ignore_index, target.type.dtype))
    chosen = b.op("and", hit, counted)
    step = b.op("select", chosen, b.op("neg", grad), b.lit(0, wide))
    return b.convert(b.broadcast_to(step, x.type.shape), b.out[0].dtype)
