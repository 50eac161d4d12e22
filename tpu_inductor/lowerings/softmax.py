"""softmax, log_softmax and their gradients: max, shift, exp, sum, divide along one dimension.

A row of nothing but -inf gives NaN as in torch; `_safe_softmax` gives 0 there.
"""

import math
from collections.abc import Sequence

import torch

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.lowerings.reduction import accumulator, reduced_dims
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


def _shift(b: Builder, x: Value, dims: Sequence[int]) -> tuple[Var, Var]:
    """`x` less its maximum over `dims`, and the maximum."""
    peak = b.reduce("reduce_max", x, dims, keepdims=True)
    return b.op("sub", x, peak), peak


def softmax_over(b: Builder, x: Value, dims: Sequence[int]) -> tuple[Var, Var]:
    """exp(x - max) / sum over `dims` in the type of `x`, and the maximum."""
    shifted, peak = _shift(b, x, dims)
    grown = b.op("exp", shifted)
    total = b.reduce("reduce_sum", grown, dims, keepdims=True)
    return b.op("div", grown, total), peak


def _enter(b: Builder, x: Value, dim: int) -> tuple[Value, tuple[int, ...]]:
    """`x` in the type to compute in, and the dimensions of the row."""
    wide = accumulator(x.type.dtype)
    if b.out[0].dtype.itemsize > wide.itemsize:
        wide = b.out[0].dtype
    return b.convert(x, wide), reduced_dims(x, dim)


def _nothing(b: Builder) -> Value:
    return b.full(b.out[0].shape, b.out[0].dtype, 0)


@lowering(aten._softmax.default)
def softmax(b: Builder, x: Value, dim: int, half_to_float: bool) -> Value:
    if x.type.size == 0:
        return _nothing(b)
    wide, dims = _enter(b, x, dim)
    return b.convert(softmax_over(b, wide, dims)[0], b.out[0].dtype)


@lowering(aten._safe_softmax.default)
def safe_softmax(b: Builder, x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    """softmax, but a row of nothing but -inf gives 0."""
    if x.type.size == 0:
        return _nothing(b)
    wide, dims = _enter(b, x, dim)
    row, peak = softmax_over(b, wide, dims)
    masked = b.op("eq", peak, b.lit(-math.inf, wide.type.dtype))
    row = b.op("select", masked, b.lit(0, wide.type.dtype), row)
    return b.convert(row, b.out[0].dtype)


@lowering(aten._log_softmax.default)
def log_softmax(b: Builder, x: Value, dim: int, half_to_float: bool) -> Value:
    if x.type.size == 0:
        return _nothing(b)
    wide, dims = _enter(b, x, dim)
    shifted, _ = _shift(b, wide, dims)
    total = b.reduce("reduce_sum", b.op("exp", shifted), dims, keepdims=True)
    return b.convert(b.op("sub", shifted, b.op("log", total)), b.out[0].dtype)


@lowering(aten._softmax_backward_data.default)
def softmax_backward(
    b: Builder, grad_output: Value, output: Value, dim: int, input_dtype: torch.dtype
) -> Value:
    """(g - sum(g * y)) * y"""
    grad, dims = _enter(b, grad_output, dim)
    row = b.convert(output, grad.type.dtype)
    shared = b.reduce("reduce_sum", b.op("mul", grad, row), dims, keepdims=True)
    return b.convert(b.op("mul", b.op("sub", grad, shared), row), b.out[0].dtype)


@lowering(aten._log_softmax_backward_data.default)
def log_softmax_backward(
    b: Builder, grad_output: Value, output: Value, dim: int, input_dtype: torch.dtype
) -> Value:
    """g - exp(y) * sum(g)"""
    grad, dims = _enter(b, grad_output, dim)
    total = b.reduce("reduce_sum", grad, dims, keepdims=True)
    row = b.op("exp", b.convert(output, grad.type.dtype))
    return b.convert(b.op("sub", grad, b.op("mul", row, total)), b.out[0].dtype)
