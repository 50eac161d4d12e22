"""Sums, products, quotients, powers, extrema and interpolation."""

import math
from collections.abc import Callable
from typing import Any

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.checks import check_divisor
from tpu_inductor.lowerings.promote import as_type, exact, number, opmath_dtype, pointwise
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten


def add_values(b: Builder, x: Value, y: Value) -> Value:
    """x + y, which for bools is `or`."""
    return b.op("or" if x.type.dtype is DType.BOOL else "add", x, y)


def mul_values(b: Builder, x: Value, y: Value) -> Value:
    """x * y, which for bools is `and`."""
    return b.op("and" if x.type.dtype is DType.BOOL else "mul", x, y)


def _is_one(x: Any) -> bool:
    return not isinstance(x, Var) and x == 1


def _scaled(b: Builder, x: Value, alpha: Any) -> Value:
    return x if _is_one(alpha) else mul_values(b, x, as_type(b, alpha, x.type.dtype))


@lowering(aten.add.Tensor, aten.add.Scalar)
def add(b: Builder, x: Any, other: Any, alpha: Any = 1) -> Value:
    return pointwise(b, lambda p, q: add_values(b, p, _scaled(b, q, alpha)), x, other)


_NO_DIFFERENCE = Reject("torch refuses the difference of two bools")


@lowering(aten.sub.Tensor, aten.sub.Scalar)
def sub(b: Builder, x: Any, other: Any, alpha: Any = 1) -> Value | Reject:
    if b.out[0].dtype is DType.BOOL:
        return _NO_DIFFERENCE
    return pointwise(b, lambda p, q: b.op("sub", p, _scaled(b, q, alpha)), x, other)


@lowering(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(b: Builder, x: Any, other: Any, alpha: Any = 1) -> Value | Reject:
    if b.out[0].dtype is DType.BOOL:
        return _NO_DIFFERENCE
    return pointwise(b, lambda p, q: b.op("sub", q, _scaled(b, p, alpha)), x, other)


@lowering(aten.mul.Tensor, aten.mul.Scalar)
def mul(b: Builder, x: Any, other: Any) -> Value:
    return pointwise(b, lambda p, q: mul_values(b, p, q), x, other)


@lowering(aten.div.Tensor, aten.div.Scalar)
def div(b: Builder, x: Any, other: Any) -> Value:
    return pointwise(b, lambda p, q: b.op("div", p, q), x, other)


@lowering(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(b: Builder, x: Any, other: Any, rounding_mode: str | None) -> Value:
    if rounding_mode is None:
        return div(b, x, other)
    quotient = floor_quotient if rounding_mode == "floor" else _truncated_quotient
    return _divide(b, quotient, x, other)


@lowering(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(b: Builder, x: Any, other: Any) -> Value:
    return div_mode(b, x, other, "floor")


def _divide(b: Builder, fn: Callable[[Builder, Value, Value], Value], x: Any, other: Any) -> Value:
    """`fn` of a dividend and a divisor, which for integers must not be 0."""

    def divide(p: Value, q: Value) -> Value:
        check_divisor(b, q)
        return fn(b, p, q)

    return pointwise(b, divide, x, other)


def _truncated_quotient(b: Builder, x: Value, y: Value) -> Value:
    if x.type.dtype.is_float:
        return b.op("trunc", b.op("div", x, y))
    return b.op("idiv", x, y)


def floor_quotient(b: Builder, x: Value, y: Value) -> Value:
    """Python's x // y for operands of one type, in torch's formula."""
    if x.type.dtype.is_float:
        return _float_floor_quotient(b, x, y)
    quotient = b.op("idiv", x, y)
    if not x.type.dtype.is_signed_int:
        return quotient
    below = b.op("sub", quotient, b.lit(1, x.type.dtype))
    return b.op("select", _needs_floor(b, b.op("rem", x, y), y), below, quotient)


def _float_floor_quotient(b: Builder, x: Value, y: Value) -> Value:
    dtype = x.type.dtype
    zero, one = b.lit(0, dtype), b.lit(1, dtype)
    plain, rem = b.op("div", x, y), b.op("rem", x, y)
    whole = b.op("div", b.op("sub", x, rem), y)
    whole = b.op("select", _needs_floor(b, rem, y), b.op("sub", whole, one), whole)
    floor = b.op("floor", whole)
    off = b.op("gt", b.op("sub", whole, floor), b.lit(0.5, dtype))
    floor = b.op("select", off, b.op("add", floor, one), floor)
    signed_zero = b.op("mul", plain, zero)
    floor = b.op("select", b.op("eq", whole, zero), signed_zero, floor)
    return b.op("select", b.op("eq", y, zero), plain, floor)


def floor_remainder(b: Builder, x: Value, y: Value) -> Value:
    """Python's x % y for operands of one type: it has the sign of y."""
    rem = b.op("rem", x, y)
    if x.type.dtype.is_int and not x.type.dtype.is_signed_int:
        return rem
    return b.op("select", _needs_floor(b, rem, y), b.op("add", rem, y), rem)


def _needs_floor(b: Builder, rem: Value, y: Value) -> Value:
    zero = b.lit(0, y.type.dtype)
    signs_differ = b.op("xor", b.op("lt", rem, zero), b.op("lt", y, zero))
    return b.op("and", b.op("ne", rem, zero), signs_differ)


@lowering(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(b: Builder, x: Any, other: Any) -> Value:
    return _divide(b, floor_remainder, x, other)


@lowering(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(b: Builder, x: Any, other: Any) -> Value:
    return _divide(b, lambda b, p, q: b.op("rem", p, q), x, other)


# -- powers ---------------------------------------------------------------------------------------
@lowering(aten.pow.Tensor_Tensor)
def pow_tensor(b: Builder, x: Any, exponent: Any) -> Value | Reject:
    if b.out[0].dtype is DType.BOOL:
        return Reject("aten.pow of booleans to a tensor of powers")
    return pointwise(b, lambda p, q: b.op("pow", p, q), x, exponent)


@lowering(aten.pow.Scalar)
def pow_of_number(b: Builder, x: Any, exponent: Any) -> Value | Reject:
    return pow_tensor(b, x, exponent)


@lowering(aten.pow.Tensor_Scalar)
def pow_number(b: Builder, x: Any, exponent: Any) -> Value | Reject:
    if isinstance(exponent, Var):
        return pow_tensor(b, x, exponent)
    if b.out[0].dtype.is_float:
        return pointwise(b, lambda p: _float_power(b, p, float(exponent)), x)
    if exponent < 0:
        return Reject("aten.pow of integers to a negative power")
    return pointwise(b, lambda p: _integer_power(b, p, int(exponent)), x)


def _float_power(b: Builder, x: Value, exponent: float) -> Value:
    """x ** exponent, with torch's short cuts, which differ from C's pow at infinities."""
    if exponent == 0:
        return b.broadcast_to(b.lit(1, x.type.dtype), x.type.shape)
    if exponent in (1.0, 2.0, 3.0):
        return _integer_power(b, x, int(exponent))
    one = b.lit(1, x.type.dtype)
    has_roots = b.out[0].dtype is not DType.F16  # torch calls C's pow for float16
    if exponent == 0.5 and has_roots:
        return b.op("sqrt", x)
    if exponent == -0.5 and has_roots:
        return b.op("div", one, b.op("sqrt", x))
    if exponent in (-1.0, -2.0):
        return b.op("div", one, _integer_power(b, x, int(-exponent)))
    return b.op("pow", x, b.lit(exponent, x.type.dtype))


def _integer_power(b: Builder, x: Value, exponent: int) -> Value:
    """x ** exponent by squaring, which wraps as repeated multiplication does."""
    if exponent == 0:
        return b.broadcast_to(b.lit(1, x.type.dtype), x.type.shape)
    result: Value | None = None
    while True:
        if exponent & 1:
            result = x if result is None else mul_values(b, result, x)
        exponent >>= 1
        if not exponent:
            assert result is not None  # the highest bit is set
            return result
        x = mul_values(b, x, x)


# -- extrema --------------------------------------------------------------------------------------
def max_values(b: Builder, x: Value, y: Value) -> Value:
    return b.op("or" if x.type.dtype is DType.BOOL else "max", x, y)


def min_values(b: Builder, x: Value, y: Value) -> Value:
    return b.op("and" if x.type.dtype is DType.BOOL else "min", x, y)


@lowering(aten.maximum.default)
def maximum(b: Builder, x: Any, other: Any) -> Value:
    return exact(b, lambda p, q: max_values(b, p, q), x, other)


@lowering(aten.minimum.default)
def minimum(b: Builder, x: Any, other: Any) -> Value:
    return exact(b, lambda p, q: min_values(b, p, q), x, other)


@lowering(aten.fmax.default)
def fmax(b: Builder, x: Any, other: Any) -> Value:
    return exact(b, lambda p, q: _skip_nan(b, p, q, max_values(b, p, q)), x, other)


@lowering(aten.fmin.default)
def fmin(b: Builder, x: Any, other: Any) -> Value:
    return exact(b, lambda p, q: _skip_nan(b, p, q, min_values(b, p, q)), x, other)


def _skip_nan(b: Builder, x: Value, y: Value, best: Value) -> Value:
    if not x.type.dtype.is_float:
        return best
    return b.op("select", b.op("is_nan", x), y, b.op("select", b.op("is_nan", y), x, best))


def at_least(b: Builder, x: Value, low: Value) -> Value:
    """The greater of the two, NaN if one is. Beside a constant, x keeps the sign of its zero."""
    if isinstance(low, Lit) and low.dtype.is_float:
        return b.op("select", b.op("lt", x, low), low, x)
    return max_values(b, x, low)


def at_most(b: Builder, x: Value, high: Value) -> Value:
    """The lesser of the two, NaN if one is. Beside a constant, x keeps the sign of its zero."""
    if isinstance(high, Lit) and high.dtype.is_float:
        return b.op("select", b.op("gt", x, high), high, x)
    return min_values(b, x, high)


@lowering(aten.clamp.default, aten.clamp.Tensor)
def clamp(b: Builder, x: Any, min: Any = None, max: Any = None) -> Value:
    dtype = b.out[0].dtype
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (min, max)):
        return b.full(b.out[0].shape, dtype, math.nan)
    value = as_type(b, x, dtype)
    if min is not None:
        value = at_least(b, value, as_type(b, min, dtype))
    return value if max is None else at_most(b, value, as_type(b, max, dtype))


@lowering(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(b: Builder, x: Any, min: Any) -> Value:
    return clamp(b, x, min=min)


@lowering(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(b: Builder, x: Any, max: Any) -> Value:
    return clamp(b, x, max=max)


# -- three operands -------------------------------------------------------------------------------
@lowering(aten.addcmul.default)
def addcmul(b: Builder, x: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Value:
    return pointwise(
        b,
        lambda p, q, r: add_values(b, p, _scaled(b, mul_values(b, q, r), value)),
        x,
        tensor1,
        tensor2,
    )


@lowering(aten.addcdiv.default)
def addcdiv(b: Builder, x: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Value:
    return pointwise(
        b,
        lambda p, q, r: b.op("add", p, b.op("div", _scaled(b, q, value), r)),
        x,
        tensor1,
        tensor2,
    )


@lowering(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(b: Builder, x: Any, end: Any, weight: Any) -> Value:
    compute = opmath_dtype(b.out[0].dtype)
    w = as_type(b, weight, compute) if isinstance(weight, Var) else number(b, weight, compute)
    return pointwise(b, lambda p, q: _interpolate(b, p, q, w), x, end)


def _interpolate(b: Builder, start: Value, end: Value, w: Value) -> Value:
    """From whichever end is nearer, so that weights 0 and 1 give the ends exactly."""
    one, half = b.lit(1, w.type.dtype), b.lit(0.5, w.type.dtype)
    span = b.op("sub", end, start)
    from_start = b.op("add", start, b.op("mul", w, span))
    from_end = b.op("sub", end, b.op("mul", span, b.op("sub", one, w)))
    return b.op("select", b.op("lt", b.op("abs", w), half), from_start, from_end)
