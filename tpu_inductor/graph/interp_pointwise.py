"""The torch meaning of pointwise primitives. Operands broadcast only where they are 0-dimensional.

16-bit floats compute in float32 and round once, as torch's CPU kernels do.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE

Meaning: TypeAlias = Callable[..., Tensor | tuple[Tensor, ...]]

_HALF = (torch.bfloat16, torch.float16)


def _plain(fn: Callable[..., Tensor]) -> Meaning:
    return lambda _, *xs: fn(*xs)


def _rounded(fn: Callable[..., Tensor]) -> Meaning:
    """`fn` in float32 for 16-bit floats, rounded once to their type."""

    def meaning(_: A.Attrs, *xs: Tensor) -> Tensor:
        if xs[0].dtype in _HALF:
            return fn(*(x.float() for x in xs)).to(xs[0].dtype)
        return fn(*xs)

    return meaning


def _idiv(_: A.Attrs, x: Tensor, y: Tensor) -> Tensor:
    """Truncating. Division by 0, which torch refuses, gives -1 (all bits set) as XLA does."""
    if x.is_floating_point():
        return torch.div(x, y, rounding_mode="trunc")
    zero = y == 0
    # The processor traps on minimum / -1, which wraps to the minimum: negation says the same.
    minus = (y == -1) if x.dtype.is_signed else torch.zeros_like(zero)
    quotient = torch.div(x, torch.where(zero | minus, 1, y), rounding_mode="trunc")
    quotient = torch.where(minus, -x, quotient)
    return torch.where(zero, _all_ones(x), quotient)


def _rem(_: A.Attrs, x: Tensor, y: Tensor) -> Tensor:
    """C's fmod. An integer modulo 0, which torch refuses, is the dividend as for XLA."""
    if x.dtype in _HALF:
        return torch.fmod(x.float(), y.float()).to(x.dtype)
    if x.is_floating_point():
        return torch.fmod(x, y)
    zero = y == 0
    minus = (y == -1) if x.dtype.is_signed else torch.zeros_like(zero)
    rest = torch.fmod(x, torch.where(zero | minus, 1, y))
    return torch.where(zero, x, torch.where(minus, torch.zeros_like(rest), rest))


def _all_ones(x: Tensor) -> Tensor:
    return torch.bitwise_not(torch.zeros((), dtype=x.dtype))


def _pow(attrs: A.Attrs, x: Tensor, y: Tensor) -> Tensor:
    x, y = torch.broadcast_tensors(x, y)
    return _rounded(torch.pow)(attrs, x, y)  # type: ignore[return-value]


def _shift_left(_: A.Attrs, x: Tensor, y: Tensor) -> Tensor:
    out_of_range, amount = _shift_amount(x, y)
    shifted = torch.bitwise_left_shift(x, amount)
    return torch.where(out_of_range, torch.zeros_like(shifted), shifted)


def _shift_right(_: A.Attrs, x: Tensor, y: Tensor) -> Tensor:
    out_of_range, amount = _shift_amount(x, y)
    sign = torch.where(x < 0, _all_ones(x), 0)
    return torch.where(out_of_range, sign, torch.bitwise_right_shift(x, amount))


def _shift_amount(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    out_of_range = (y < 0) | (y >= 8 * x.dtype.itemsize)
    return out_of_range, torch.where(out_of_range, 0, y)


def _select(_: A.Attrs, pred: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return torch.where(pred, yes, no)


def _convert(attrs: A.Convert, x: Tensor) -> Tensor:
    return x.to(TORCH_DTYPE[attrs.dtype])


def _bitcast(attrs: A.Convert, x: Tensor) -> Tensor:
    return x.contiguous().view(TORCH_DTYPE[attrs.dtype])


_ROUNDED: dict[str, Callable[..., Tensor]] = {
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erf_inv": torch.erfinv,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "logistic": torch.sigmoid,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "atan2": torch.atan2,
}

_PLAIN: dict[str, Callable[..., Tensor]] = {
    "neg": torch.neg,
    "abs": torch.abs,
    "sign": torch.sign,
    "not": torch.bitwise_not,
    "max": torch.maximum,
    "min": torch.minimum,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "nextafter": torch.nextafter,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "is_nan": torch.isnan,
}

POINTWISE: dict[str, Meaning] = {
    **{name: _rounded(fn) for name, fn in _ROUNDED.items()},
    **{name: _plain(fn) for name, fn in _PLAIN.items()},
    "idiv": _idiv,
    "rem": _rem,
    "pow": _pow,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "select": _select,
    "convert": _convert,
    "bitcast": _bitcast,
}
"""The pointwise rows of `interp.MEANING`."""
