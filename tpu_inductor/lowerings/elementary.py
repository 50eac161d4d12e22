"""Functions of one number: the exponential and trigonometric families, rounding, signs."""

import math
from typing import Any

import torch
from torch._ops import OpOverload

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.promote import Kind, as_type, exact, pointwise, promote
from tpu_inductor.lowerings.registry import Lowering, lowering

aten = torch.ops.aten

_FLOAT_FUNCTIONS: dict[OpOverload, str] = {
    aten.exp.default: "exp",
    aten.exp2.default: "exp2",
    aten.expm1.default: "expm1",
    aten.log.default: "log",
    aten.log2.default: "log2",
    aten.log10.default: "log10",
    aten.log1p.default: "log1p",
    aten.sqrt.default: "sqrt",
    aten.rsqrt.default: "rsqrt",
    aten.sin.default: "sin",
    aten.cos.default: "cos",
    aten.tan.default: "tan",
    aten.asin.default: "asin",
    aten.acos.default: "acos",
    aten.atan.default: "atan",
    aten.sinh.default: "sinh",
    aten.cosh.default: "cosh",
    aten.tanh.default: "tanh",
    aten.asinh.default: "asinh",
    aten.acosh.default: "acosh",
    aten.atanh.default: "atanh",
    aten.erf.default: "erf",
    aten.erfc.default: "erfc",
    aten.erfinv.default: "erf_inv",
    aten.lgamma.default: "lgamma",
    aten.digamma.default: "digamma",
    aten.sigmoid.default: "logistic",
}
_ROUNDING: dict[OpOverload, str] = {
    aten.floor.default: "floor",
    aten.ceil.default: "ceil",
    aten.trunc.default: "trunc",
    aten.round.default: "round",
}


def _float_function(prim: str) -> Lowering:
    def lower(b: Builder, x: Any) -> Value:
        return pointwise(b, lambda p: b.op(prim, p), x)

    return lower


def _rounding(prim: str) -> Lowering:
    def lower(b: Builder, x: Any) -> Value:
        return pointwise(b, lambda p: b.op(prim, p) if p.type.dtype.is_float else p, x)

    return lower


for _op, _prim in _FLOAT_FUNCTIONS.items():
    lowering(_op)(_float_function(_prim))
for _op, _prim in _ROUNDING.items():
    lowering(_op)(_rounding(_prim))


@lowering(aten.reciprocal.default)
def reciprocal(b: Builder, x: Any) -> Value:
    return pointwise(b, lambda p: b.op("div", b.lit(1, p.type.dtype), p), x)


@lowering(aten.square.default)
def square(b: Builder, x: Any) -> Value:
    return pointwise(b, lambda p: b.op("mul", p, p), x)


@lowering(aten.neg.default)
def neg(b: Builder, x: Any) -> Value:
    return exact(b, lambda p: b.op("neg", p), x)


@lowering(aten.abs.default)
def abs_(b: Builder, x: Any) -> Value:
    unsigned = not (x.type.dtype.is_float or x.type.dtype.is_signed_int)
    return x if unsigned else exact(b, lambda p: b.op("abs", p), x)


@lowering(aten.angle.default)
def angle(b: Builder, x: Any) -> Value:
    """Of a real number: pi where it is negative, else 0."""

    def compute(p: Value) -> Value:
        zero = b.lit(0, p.type.dtype)
        turned = b.op("select", b.op("lt", p, zero), b.lit(math.pi, p.type.dtype), zero)
        return b.op("select", b.op("is_nan", p), p, turned)

    return pointwise(b, compute, x)


@lowering(aten.round.decimals)
def round_decimals(b: Builder, x: Any, decimals: int = 0) -> Value:
    if not x.type.dtype.is_float:
        return x
    return pointwise(b, lambda p: _round_decimals(b, p, decimals), x)


def _round_decimals(b: Builder, x: Value, decimals: int) -> Value:
    if decimals == 0:
        return b.op("round", x)
    scale = b.lit(10.0 ** abs(decimals), x.type.dtype)
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    return b.op(back, b.op("round", b.op(there, x, scale)), scale)


# -- signs ----------------------------------------------------------------------------------------
@lowering(aten.sign.default, aten.sgn.default)
def sign(b: Builder, x: Any) -> Value:
    return x if x.type.dtype is DType.BOOL else exact(b, lambda p: _sign(b, p), x)


def _sign(b: Builder, x: Value) -> Value:
    """-1, 0 or 1; NaN has no sign in torch, so it gives 0."""
    zero = b.lit(0, x.type.dtype)
    above = b.convert(b.op("gt", x, zero), x.type.dtype)
    return b.op("sub", above, b.convert(b.op("lt", x, zero), x.type.dtype))


_BITS = {8: DType.I64, 4: DType.I32, 2: DType.I16, 1: DType.I8}


def sign_bit(b: Builder, x: Value) -> Value:
    """Whether the sign is negative, also that of -0.0."""
    dtype = x.type.dtype
    if not (dtype.is_float or dtype.is_signed_int):
        return b.full(x.type.shape, DType.BOOL, False)
    if dtype.is_float:
        dtype = _BITS[dtype.itemsize]
        x = b.one("bitcast", b.tensor(x), attrs=A.Convert(dtype))
    return b.op("lt", x, b.lit(0, dtype))


@lowering(aten.signbit.default)
def signbit(b: Builder, x: Any) -> Value:
    return sign_bit(b, x)


@lowering(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(b: Builder, x: Any, other: Any) -> Value:
    if not isinstance(other, int | float):
        return exact(b, lambda p, q: _with_sign(b, p, sign_bit(b, q)), x, other)
    negative = b.lit(math.copysign(1.0, other) < 0, DType.BOOL)
    return exact(b, lambda p: _with_sign(b, p, negative), x)


def _with_sign(b: Builder, x: Value, negative: Value) -> Value:
    magnitude = b.op("abs", x)
    return b.op("select", negative, b.op("neg", magnitude), magnitude)


# -- two operands ---------------------------------------------------------------------------------
@lowering(aten.atan2.default)
def atan2(b: Builder, x: Any, other: Any) -> Value:
    return pointwise(b, lambda p, q: b.op("atan2", p, q), x, other)


@lowering(aten.nextafter.default)
def nextafter(b: Builder, x: Any, other: Any) -> Value | Reject:
    compute, _, values = promote(b, Kind.NO_OPMATH, x, other)
    if compute not in (DType.F32, DType.F64):
        return Reject(f"aten.nextafter of {compute.short}")
    return b.op("nextafter", *values)


@lowering(aten.hypot.default)
def hypot(b: Builder, x: Any, other: Any) -> Value:
    return pointwise(b, lambda p, q: _hypot(b, p, q), x, other)


def _hypot(b: Builder, x: Value, y: Value) -> Value:
    """sqrt(x*x + y*y) scaled by the larger, which neither overflows nor loses small numbers."""
    dtype = x.type.dtype
    zero, one, infinity = b.lit(0, dtype), b.lit(1, dtype), b.lit(math.inf, dtype)
    a, c = b.op("abs", x), b.op("abs", y)
    high, low = b.op("max", a, c), b.op("min", a, c)
    ratio = b.op("div", low, b.op("select", b.op("eq", high, zero), one, high))
    length = b.op("mul", high, b.op("sqrt", b.op("add", one, b.op("mul", ratio, ratio))))
    infinite = b.op("or", b.op("eq", a, infinity), b.op("eq", c, infinity))
    return b.op("select", infinite, infinity, length)


@lowering(aten.ldexp.Tensor)
def ldexp(b: Builder, x: Any, other: Any) -> Value:
    dtype = b.out[0].dtype
    power = b.op("exp2", as_type(b, other, DType.F64 if dtype is DType.F64 else DType.F32))
    return pointwise(b, lambda p, q: b.op("mul", p, q), x, power)
