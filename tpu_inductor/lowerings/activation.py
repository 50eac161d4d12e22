"""Activation functions, in the formulas of torch's CPU kernels."""

import math
from typing import Any

import torch

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.lowerings.arithmetic import at_least, clamp
from tpu_inductor.lowerings.promote import as_type, exact, pointwise
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


@lowering(aten.relu.default)
def relu(b: Builder, x: Any) -> Value:
    return exact(b, lambda p: at_least(b, p, b.lit(0, p.type.dtype)), x)


@lowering(aten.hardtanh.default)
def hardtanh(b: Builder, x: Any, min_val: Any = -1, max_val: Any = 1) -> Value:
    return clamp(b, x, min_val, max_val)


@lowering(aten.relu6.default)
def relu6(b: Builder, x: Any) -> Value:
    return clamp(b, x, 0, 6)


@lowering(aten.leaky_relu.default)
def leaky_relu(b: Builder, x: Any, negative_slope: Any = 0.01) -> Value:
    def compute(p: Value) -> Value:
        slope, zero = as_type(b, negative_slope, p.type.dtype), b.lit(0, p.type.dtype)
        return b.op("select", b.op("gt", p, zero), p, b.op("mul", p, slope))

    return pointwise(b, compute, x)


@lowering(aten.elu.default)
def elu(b: Builder, x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    def compute(p: Value) -> Value:
        a, s, i = (as_type(b, v, p.type.dtype) for v in (alpha, scale, input_scale))
        curve = b.op("mul", b.op("expm1", b.op("mul", p, i)), b.op("mul", a, s))
        return b.op("select", b.op("lt", p, b.lit(0, p.type.dtype)), curve, b.op("mul", p, s))

    return pointwise(b, compute, x)


@lowering(aten.gelu.default)
def gelu(b: Builder, x: Any, approximate: str = "none") -> Value:
    gate = _tanh_gate if approximate == "tanh" else _erf_gate
    return pointwise(
        b, lambda p: b.op("mul", b.op("mul", p, b.lit(0.5, p.type.dtype)), gate(b, p)), x
    )


def _erf_gate(b: Builder, x: Value) -> Value:
    """1 + erf(x / sqrt 2)."""
    scaled = b.op("mul", x, b.lit(math.sqrt(0.5), x.type.dtype))
    return b.op("add", b.lit(1, x.type.dtype), b.op("erf", scaled))


def _tanh_gate(b: Builder, x: Value) -> Value:
    """1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))."""
    dtype = x.type.dtype
    cube = b.op("mul", b.op("mul", x, x), x)
    inner = b.op("add", x, b.op("mul", b.lit(0.044715, dtype), cube))
    inner = b.op("mul", b.lit(math.sqrt(2 / math.pi), dtype), inner)
    return b.op("add", b.lit(1, dtype), b.op("tanh", inner))


@lowering(aten.silu.default)
def silu(b: Builder, x: Any) -> Value:
    return pointwise(b, lambda p: b.op("mul", p, b.op("logistic", p)), x)


@lowering(aten.hardsigmoid.default)
def hardsigmoid(b: Builder, x: Any) -> Value:
    return pointwise(b, lambda p: _sixths(b, p), x)


@lowering(aten.hardswish.default)
def hardswish(b: Builder, x: Any) -> Value:
    return pointwise(b, lambda p: b.op("mul", p, _sixths(b, p)), x)


def _sixths(b: Builder, x: Value) -> Value:
    """(x + 3) / 6 within 0 and 1."""
    dtype = x.type.dtype
    shifted = b.op("max", b.op("add", x, b.lit(3, dtype)), b.lit(0, dtype))
    return b.op("div", b.op("min", shifted, b.lit(6, dtype)), b.lit(6, dtype))


@lowering(aten.softplus.default)
def softplus(b: Builder, x: Any, beta: Any = 1, threshold: Any = 20) -> Value:
    def compute(p: Value) -> Value:
        scale, limit = as_type(b, beta, p.type.dtype), as_type(b, threshold, p.type.dtype)
        scaled = b.op("mul", p, scale)
        soft = b.op("div", b.op("log1p", b.op("exp", scaled)), scale)
        return b.op("select", b.op("gt", scaled, limit), p, soft)

    return pointwise(b, compute, x)


@lowering(aten.threshold.default)
def threshold_(b: Builder, x: Any, threshold: Any, value: Any) -> Value:
    return exact(b, lambda p, t, v: b.op("select", b.op("le", p, t), v, p), x, threshold, value)


@lowering(aten.threshold_backward.default)
def threshold_backward(b: Builder, grad_output: Any, x: Any, threshold: Any) -> Value:
    return exact(
        b,
        lambda g, p, t: b.op("select", b.op("le", p, t), b.lit(0, g.type.dtype), g),
        grad_output,
        x,
        threshold,
    )


@lowering(aten.sigmoid_backward.default)
def sigmoid_backward(b: Builder, grad_output: Any, output: Any) -> Value:
    def compute(g: Value, y: Value) -> Value:
        slope = b.op("mul", b.op("sub", b.lit(1, y.type.dtype), y), y)
        return b.op("mul", g, slope)

    return pointwise(b, compute, grad_output, output)


@lowering(aten.tanh_backward.default)
def tanh_backward(b: Builder, grad_output: Any, output: Any) -> Value:
    def compute(g: Value, y: Value) -> Value:
        return b.op("mul", g, b.op("sub", b.lit(1, y.type.dtype), b.op("mul", y, y)))

    return pointwise(b, compute, grad_output, output)


@lowering(aten.silu_backward.default)
def silu_backward(b: Builder, grad_output: Any, x: Any) -> Value:
    def compute(g: Value, p: Value) -> Value:
        gate, one = b.op("logistic", p), b.lit(1, p.type.dtype)
        slope = b.op("add", one, b.op("mul", p, b.op("sub", one, gate)))
        return b.op("mul", b.op("mul", g, gate), slope)

    return pointwise(b, compute, grad_output, x)
